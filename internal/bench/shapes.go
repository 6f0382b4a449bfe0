package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rows expiryLog, expiryTouched and expiryOwn remove half of a collection
// of one shape each, with windows of expiry and without: what documents cost
// when they come, while they live, and when they go.

// shape is how the documents of a collection come by their instants.
type shape struct {
	name string
	// due is the instant of document id of n when it comes, in milliseconds since
	// 1970; now is when the row began.
	due func(id, n, now int64) int64
	// touched is the instant that it gets later, nil if documents are not touched.
	touched func(id, n, now int64) int64
}

// shapeSpan is the time over which the instants of what is due are spread, and
// those of what is not, in milliseconds.
const shapeSpan = 3_600_000

// shapes are a log, whose first half is due; sessions, of which all would be due
// had not every second one been touched late enough; and documents that bring
// their own instants, of which every second one is due.
var shapes = []shape{
	{name: "expiryLog", due: func(id, n, now int64) int64 {
		if id < n/2 {
			return now - 2*shapeSpan + id*shapeSpan*2/n
		}
		return now + shapeSpan + (id-n/2)*shapeSpan*2/n
	}},
	{name: "expiryTouched", due: func(id, n, now int64) int64 {
		return now - 4*shapeSpan + id*shapeSpan/n
	}, touched: func(id, n, now int64) int64 {
		if id%2 == 0 {
			return now - 2*shapeSpan + id*shapeSpan/n
		}
		return now + shapeSpan + id*shapeSpan/n
	}},
	{name: "expiryOwn", due: func(id, _, now int64) int64 {
		at := indexKey(id) % shapeSpan
		if id%2 == 0 {
			return now - shapeSpan - at
		}
		return now + shapeSpan + at
	}},
}

// shapeWorker is a client of a system that knows shapes.
type shapeWorker interface {
	worker
	// insertDue adds the documents from first on, with an instant each.
	insertDue(ctx context.Context, first int64, due []int64) error
	// touch gives a document another instant.
	touch(ctx context.Context, id, due int64) error
}

// cost is how fast a system did something, and its processor time for each.
type cost struct {
	perSecond float64
	cpu       time.Duration
}

func (c cost) cells() string { return fmt.Sprintf("%.0f\t%s\t", c.perSecond, micros(c.cpu)) }

// timed measures f, which does n things.
func timed(s system, n int64, f func() error) (c cost, err error) {
	before, err := s.cpu()
	if err != nil {
		return c, err
	}
	begun := time.Now()
	if err := f(); err != nil {
		return c, err
	}
	took := time.Since(begun)
	after, err := s.cpu()
	return cost{float64(n) / took.Seconds(), (after - before) / time.Duration(n)}, err
}

// shapeSide is a system under measurement, and what it measured.
type shapeSide struct {
	name                              string
	s                                 expirer
	prepare                           func(context.Context) error
	load, touch, find, update, remove cost
	after                             cost // of sweep and compaction, for each document that went
	diskBefore, diskAfter             int64
}

// shape measures one shape on the server, with windows and without, and on
// PostgreSQL.
func (b *bench) shape(ctx context.Context, sh shape) error {
	n := b.o.ShapeDocuments
	windows := func(on bool) func(context.Context) error {
		return func(ctx context.Context) error { return b.server.setParameter(ctx, "expiryWindows", on) }
	}
	sides := []*shapeSide{{name: "mayfly", s: b.server, prepare: windows(true)}, {name: "one by one", s: b.server, prepare: windows(false)}}
	if b.pg != nil {
		sides = append(sides, &shapeSide{name: "postgres", s: b.pg, prepare: func(context.Context) error { return nil }})
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s, %d of %d documents\tload/s\tcpu\ttouch/s\tcpu\tfind/s\tcpu\tupdate/s\tcpu\tremoved/s\tcpu\tcpu after\tMB before\tafter\t\n", sh.name, n/2, n)
	for _, side := range sides {
		if err := b.shapeOn(ctx, sh, side, n); err != nil {
			return fmt.Errorf("%s: %s: %w", sh.name, side.name, err)
		}
		fmt.Fprintf(w, "%s\t%s%s%s%s%s%s\t%d\t%d\t\n", side.name, side.load.cells(), side.touch.cells(), side.find.cells(), side.update.cells(), side.remove.cells(),
			micros(side.after.cpu), side.diskBefore>>20, side.diskAfter>>20)
	}
	return errors.Join(w.Flush(), b.server.setParameter(ctx, "expiryWindows", true))
}

func (b *bench) shapeOn(ctx context.Context, sh shape, side *shapeSide, n int64) (err error) {
	s, now := side.s, time.Now().UnixMilli()
	if err := errors.Join(side.prepare(ctx), s.reset(ctx, layout{Due: true, Bytes: liveBytes})); err != nil {
		return err
	}
	if side.load, err = timed(s, n, func() error { return loadShape(ctx, s, sh, n, now) }); err != nil {
		return err
	}
	if sh.touched != nil {
		if err := settled(ctx, s); err != nil {
			return err
		}
		touching := func() error { return nil }
		if s == expirer(b.server) {
			touching = b.profile(ctx, sh.name+"-touch-"+side.name, liveQuiet)
		}
		if side.touch, err = timed(s, n, func() error { return touchShape(ctx, s, sh, n, now) }); err != nil {
			return err
		}
		if err := touching(); err != nil {
			return err
		}
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	if side.diskBefore, err = restingDisk(ctx, s); err != nil {
		return err
	}
	for name, to := range map[string]*cost{"findById": &side.find, "updateOne": &side.update} {
		chosen, err := chooseRows(name)
		if err != nil {
			return err
		}
		r, err := measure(ctx, s, newDataset(n), chosen.rows[0], liveClients, b.o.Duration)
		if err != nil {
			return err
		}
		*to = cost{r.perSecond(), r.cpu}
	}
	profiled := func() error { return nil }
	if s == expirer(b.server) {
		profiled = b.profile(ctx, sh.name+"-"+side.name, liveQuiet)
	}
	used, err := s.cpu()
	if err != nil {
		return err
	}
	removing, err := timedRemoval(ctx, s, n/2)
	if err != nil {
		return err
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	side.remove = cost{float64(n/2) / removing.Seconds(), (after - used) / time.Duration(n/2)}
	if side.after, err = timed(s, n/2, func() error { return swept(ctx, s) }); err != nil {
		return errors.Join(err, profiled())
	}
	if err := profiled(); err != nil {
		return err
	}
	side.diskAfter, err = restingDisk(ctx, s)
	return err
}

// loadShape adds the documents of a shape, in the order of their ids.
func loadShape(ctx context.Context, s system, sh shape, n, now int64) error {
	return parallel(fillClients, func(client int) error {
		any, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer any.close()
		w := any.(shapeWorker)
		for at := int64(client) * manyDocuments; at < n; at += fillClients * manyDocuments {
			due := make([]int64, min(manyDocuments, n-at))
			for i := range due {
				due[i] = sh.due(at+int64(i), n, now)
			}
			if err := w.insertDue(ctx, at, due); err != nil {
				return err
			}
		}
		return nil
	})
}

// touchShape touches every document once, in no order, one by one.
func touchShape(ctx context.Context, s system, sh shape, n, now int64) error {
	ids := rand.New(rand.NewPCG(1, 3)).Perm(int(n))
	return parallel(liveClients, func(client int) error {
		any, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer any.close()
		w := any.(shapeWorker)
		for i := client; i < len(ids); i += liveClients {
			id := int64(ids[i])
			if err := w.touch(ctx, id, sh.touched(id, n, now)); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// sweptTimeout bounds how long a bench waits for the server to have swept the
	// index entries of what was removed; sweptEvery is how often that is checked.
	sweptTimeout = 5 * time.Minute
	sweptEvery   = 200 * time.Millisecond
)

// swept waits until a system has nothing left to clear away.
func swept(ctx context.Context, s system) error {
	if m, ok := s.(*mayfly); ok {
		for deadline := time.Now().Add(sweptTimeout); time.Now().Before(deadline); time.Sleep(sweptEvery) {
			left, err := m.unswept(ctx)
			if err != nil {
				return err
			}
			if left == 0 {
				break
			}
		}
	}
	return settled(ctx, s)
}

// unswept is how many documents have left index entries that the server has not
// swept yet.
func (m *mayfly) unswept(ctx context.Context) (n int64, err error) {
	c, err := m.plain.Aggregate(ctx, bson.A{bson.D{{Key: "$expiryStats", Value: bson.D{}}}})
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	for c.Next(ctx) {
		if v, err := c.Current.LookupErr("unswept"); err == nil {
			n += v.AsInt64()
		}
	}
	return n, c.Err()
}
