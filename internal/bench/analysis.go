package bench

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"
)

// analyst is a system that answers questions.
type analyst interface {
	// cpu is the processor time that the system's processes have used so far.
	cpu() (time.Duration, error)
	// orders makes n orders and their customers, for the questions.
	orders(ctx context.Context, n int64) error
	// ask answers a question about n orders.
	ask(ctx context.Context, q *question, n int64) (findings, error)
}

const (
	// askedAtLeast is how often a question is asked; the first time does not count.
	askedAtLeast = 4
	// askedAtMost bounds how often a short one is asked.
	askedAtMost = 100
)

// analysed is a question on one system; times are for one answer.
type analysed struct {
	p50, cpu time.Duration
}

// analysis asks the questions of each system, one after the other.
func (b *bench) analysis(ctx context.Context, chosen []question) error {
	for _, s := range b.systems() {
		if err := s.(analyst).orders(ctx, b.o.AnalysisDocuments); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d orders, milliseconds\tmayfly\tcpu\t", b.o.AnalysisDocuments)
	if b.pg != nil {
		fmt.Fprint(w, "postgres\tcpu\tratio\t")
	}
	if b.raw != nil {
		fmt.Fprint(w, "pebble\tcpu\tratio\t")
	}
	fmt.Fprintln(w)
	for i := range chosen {
		if err := b.question(ctx, w, &chosen[i]); err != nil {
			return fmt.Errorf("%s: %w", chosen[i].name, err)
		}
	}
	return w.Flush()
}

// question prints the line of one question; ratio is the other's time over the
// server's.
func (b *bench) question(ctx context.Context, w *tabwriter.Writer, q *question) error {
	profiled := b.profile(ctx, q.name, b.o.Duration)
	m, right, err := b.asked(ctx, b.server, q)
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t", q.name, millis(m.p50), millis(m.cpu))
	compare := func(s analyst) error {
		other, found, err := b.asked(ctx, s, q)
		if err != nil {
			return err
		}
		if !slices.Equal(found, right) {
			return fmt.Errorf("%w: %s returned %d rows, the other %d", errWrong, q.name, len(right), len(found))
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t", millis(other.p50), millis(other.cpu), float64(other.p50)/float64(m.p50))
		return nil
	}
	if b.pg != nil {
		if err := compare(b.pg); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
	}
	if b.raw != nil && q.scan {
		if err := compare(b.raw); err != nil {
			return fmt.Errorf("pebble: %w", err)
		}
	}
	fmt.Fprintln(w)
	return nil
}

// asked repeats a question and measures the answers.
func (b *bench) asked(ctx context.Context, s analyst, q *question) (m analysed, a findings, err error) {
	if a, err = s.ask(ctx, q, b.o.AnalysisDocuments); err != nil {
		return m, nil, err
	}
	used, err := s.cpu()
	if err != nil {
		return m, nil, err
	}
	var took []time.Duration
	for begun := time.Now(); len(took) < askedAtLeast-1 || len(took) < askedAtMost && time.Since(begun) < b.o.Duration; {
		at := time.Now()
		if _, err := s.ask(ctx, q, b.o.AnalysisDocuments); err != nil {
			return m, nil, err
		}
		took = append(took, time.Since(at))
	}
	after, err := s.cpu()
	m.p50, _ = percentiles(took)
	m.cpu = (after - used) / time.Duration(len(took))
	return m, a, err
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 100 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// settled waits until a system that was just filled has finished what is left
// to do in the background.
func settled(ctx context.Context, s interface{ cpu() (time.Duration, error) }) error {
	deadline := time.Now().Add(settleTimeout)
	last, err := s.cpu()
	for calm := 0; err == nil && calm < settleCalm && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settleEvery):
		}
		var now time.Duration
		now, err = s.cpu()
		if calm++; now-last > settleEvery/10 {
			calm = 0
		}
		last = now
	}
	return err
}

const (
	// settleEvery is how often a system's processor time is read until it
	// has settled: settleCalm times in a row it has used less than a tenth. That is
	// longer than the server waits before it moves what was written to its last
	// level of tables.
	settleEvery   = 200 * time.Millisecond
	settleCalm    = 30
	settleTimeout = 2 * time.Minute
)
