package bench

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"
)

// The row points finds single documents among few and among many: the cost of one
// should not depend on how many there are.

const (
	// pointsRow is its name.
	pointsRow = "points"
	// fewPoints is how many documents the small collection has.
	fewPoints = 10_000
	// pointRounds is how often each size is measured; the best of them counts.
	pointRounds = 3
)

// pointRows are the operations it measures.
var pointRows = []string{"findById", "findByIndex"}

// points measures the row on the server and on Pebble alone.
func (b *bench) points(ctx context.Context) error {
	systems := []system{b.server}
	if b.raw != nil {
		systems = append(systems, b.raw)
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nof %d and of %d\tclients\tp50\tp99\tcpu/op\tof many: p50\tp99\tcpu/op\tp50 ratio\tcpu ratio\t\n", fewPoints, b.o.PointDocuments)
	for i, s := range systems {
		few, err := b.pointsOf(ctx, s, fewPoints)
		if err != nil {
			return err
		}
		many, err := b.pointsOf(ctx, s, b.o.PointDocuments)
		if err != nil {
			return err
		}
		at := 0
		for _, name := range pointRows {
			for _, clients := range b.o.Clients {
				x, y := few[at], many[at]
				at++
				fmt.Fprintf(w, "%s %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t\n", []string{"mayfly", "pebble"}[i], name, clients,
					micros(x.p50), micros(x.p99), micros(x.cpu), micros(y.p50), micros(y.p99), micros(y.cpu),
					float64(y.p50)/float64(x.p50), float64(y.cpu)/float64(x.cpu))
			}
		}
	}
	return w.Flush()
}

// pointsOf measures each operation with each number of clients among n
// documents.
func (b *bench) pointsOf(ctx context.Context, s system, n int64) ([]*result, error) {
	if err := s.reset(ctx, layout{}); err != nil {
		return nil, err
	}
	if err := fill(ctx, s, 0, n, never); err != nil {
		return nil, err
	}
	if err := settled(ctx, s); err != nil {
		return nil, err
	}
	data := newDataset(n)
	if err := warmed(ctx, s, n); err != nil {
		return nil, err
	}
	var out []*result
	for _, name := range pointRows {
		r := rows[slices.IndexFunc(rows, func(r row) bool { return r.name == name })]
		for _, clients := range b.o.Clients {
			var best *result
			for range pointRounds {
				m, err := measure(ctx, s, data, r, clients, b.o.Duration)
				if err != nil {
					return nil, fmt.Errorf("%s of %d: %w", name, n, err)
				}
				if best == nil || m.cpu < best.cpu {
					best = m
				}
			}
			out = append(out, best)
		}
	}
	return out, nil
}

// warmed reads all n documents once in the order of _id, and every entry of the
// index near enough that its block is read.
func warmed(ctx context.Context, s system, n int64) error {
	w, err := s.worker(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	deadline := time.Now().Add(settleTimeout)
	for at := int64(0); at+manyDocuments <= n && time.Now().Before(deadline); at += manyDocuments {
		if err := w.scan(ctx, at, manyDocuments); err != nil {
			return err
		}
		if err := w.findByKey(ctx, indexKey(at)); err != nil {
			return err
		}
	}
	return nil
}
