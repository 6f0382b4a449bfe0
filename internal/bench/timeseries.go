package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// seriesRow is the name of the rows of time series.
const seriesRow = "timeseries"

// recorder is a system that keeps readings.
type recorder interface {
	cpu() (time.Duration, error)
	// record makes place for readings from an instant on, in parts of the length
	// of a period that go as one.
	record(ctx context.Context, s *series) error
	// recorder makes one client.
	recorder(ctx context.Context) (recording, error)
	// seriesDisk is how much disk the readings take, once all is at its place.
	seriesDisk(ctx context.Context) (int64, error)
	// forget removes the readings of the first period, and returns when they are
	// gone.
	forget(ctx context.Context, s *series) error
}

// recording is one client; one goroutine uses it. A read returns an error where
// it finds other than it must.
type recording interface {
	insert(ctx context.Context, r []reading) error
	// last reads the last reading of a sensor, and says when it was.
	last(ctx context.Context, sensor int32) (time.Time, error)
	// lastOfAll reads the last reading of each sensor and counts them.
	lastOfAll(ctx context.Context) (int, error)
	// one reads the readings of a sensor in [from, to) and counts them.
	one(ctx context.Context, sensor int32, from, to time.Time) (int, error)
	// hourly reads the mean temperature of all sensors for each hour in [from, to)
	// and returns their number and their sum.
	hourly(ctx context.Context, from, to time.Time) (n int, sum float64, err error)
	close() error
}

// series is the data of a run.
type series struct {
	*readings
	n      int64
	period time.Duration // a day, or half of what there is
}

func (s *series) end() time.Time { return s.number(s.n - 1).at.Add(time.Minute) }

// periods is into how many parts the readings fall.
func (s *series) periods() int { return int((s.end().Sub(s.from)-1)/s.period) + 1 }

// seriesResult is what the rows came to on one system.
type seriesResult struct {
	ingest            float64 // readings a second
	ingestCPU         time.Duration
	ingestClient      time.Duration // of this process
	bytes             float64       // a reading
	last, one, hourly analysed
	lastOfAll         analysed
	forget            time.Duration
	sum               float64 // of the hourly means
}

// timeseries measures the rows on the server and on PostgreSQL.
func (b *bench) timeseries(ctx context.Context) error {
	r, err := loadReadings(b.o.Readings)
	if err != nil {
		return err
	}
	s := &series{readings: r, n: b.o.SeriesReadings}
	span := time.Duration(s.n/sensors) * time.Minute
	s.period = min(24*time.Hour, span/2)
	s.from = time.Now().UTC().Truncate(24 * time.Hour).Add(-span.Truncate(24*time.Hour) - 48*time.Hour)
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d readings\tingest/s\tcpu µs\tclient\tbytes\tlast ms\tcpu\tlast of all ms\tcpu\tone sensor ms\tcpu\thourly ms\tcpu\tforget ms\t\n", s.n)
	systems := map[string]recorder{"mayfly": b.server}
	names := []string{"mayfly"}
	if b.pg != nil {
		names, systems["postgres"] = append(names, "postgres"), b.pg
	}
	var sum float64
	for _, name := range names {
		m, err := b.series(ctx, systems[name], s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", seriesRow, name, err)
		}
		if name == names[0] {
			sum = m.sum
		}
		if math.Abs(sum-m.sum) > 1e-6*math.Abs(sum) {
			return fmt.Errorf("%s: the hourly means of %s are %v, and not %v: %w", seriesRow, name, m.sum, sum, errWrong)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, m.ingest, micros(m.ingestCPU), micros(m.ingestClient), m.bytes,
			millis(m.last.p50), millis(m.last.cpu), millis(m.lastOfAll.p50), millis(m.lastOfAll.cpu), millis(m.one.p50), millis(m.one.cpu), millis(m.hourly.p50), millis(m.hourly.cpu), millis(m.forget))
	}
	return w.Flush()
}

func (b *bench) series(ctx context.Context, sys recorder, s *series) (*seriesResult, error) {
	if err := sys.record(ctx, s); err != nil {
		return nil, err
	}
	used, err := sys.cpu()
	if err != nil {
		return nil, err
	}
	profiled := func() error { return nil }
	if sys == recorder(b.server) {
		profiled = b.profile(ctx, seriesRow+"-ingest", b.o.Duration)
	}
	own, err := ownCPU()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	err = b.ingest(ctx, sys, s)
	m := &seriesResult{ingest: float64(s.n) / time.Since(begun).Seconds()}
	if err = errors.Join(err, profiled()); err != nil {
		return nil, err
	}
	ownAfter, err := ownCPU()
	if err != nil {
		return nil, err
	}
	m.ingestClient = (ownAfter - own) / time.Duration(s.n)
	if err := settled(ctx, sys); err != nil {
		return nil, err
	}
	after, err := sys.cpu()
	if err != nil {
		return nil, err
	}
	m.ingestCPU = (after - used) / time.Duration(s.n)
	disk, err := sys.seriesDisk(ctx)
	if err != nil {
		return nil, err
	}
	m.bytes = float64(disk) / float64(s.n)
	if err := b.askSeries(ctx, sys, s, m); err != nil {
		return nil, err
	}
	begun = time.Now()
	err = sys.forget(ctx, s)
	m.forget = time.Since(begun)
	return m, err
}

// ingest adds all readings, a thousand at once, in the order of time.
func (b *bench) ingest(ctx context.Context, sys recorder, s *series) error {
	var next atomic.Int64
	return parallel(b.o.Clients[len(b.o.Clients)-1], func(int) error {
		w, err := sys.recorder(ctx)
		if err != nil {
			return err
		}
		defer w.close()
		batch := make([]reading, 0, manyDocuments)
		for {
			at := next.Add(manyDocuments) - manyDocuments
			if at >= s.n {
				return nil
			}
			batch = batch[:0]
			for n := at; n < min(at+manyDocuments, s.n); n++ {
				batch = append(batch, s.number(n))
			}
			if err := w.insert(ctx, batch); err != nil {
				return err
			}
		}
	})
}

// askSeries measures the queries, one client alone.
func (b *bench) askSeries(ctx context.Context, sys recorder, s *series, m *seriesResult) error {
	w, err := sys.recorder(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	v := rand.New(rand.NewPCG(1, 2))
	from := s.from.Add(time.Duration(s.periods()-2) * s.period)
	to := from.Add(s.period)
	minutes, hours := int(s.period/time.Minute), int(to.Add(time.Hour-1).Truncate(time.Hour).Sub(from.Truncate(time.Hour))/time.Hour)
	lastAt := s.end().Add(-time.Minute)
	m.last, err = b.timed(ctx, sys, "timeseries-last", func() error {
		at, err := w.last(ctx, v.Int32N(sensors))
		if err == nil && !at.Equal(lastAt) {
			return errWrong
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("last: %w", err)
	}
	m.lastOfAll, err = b.timed(ctx, sys, "timeseries-lastOfAll", func() error {
		n, err := w.lastOfAll(ctx)
		if err == nil && n != sensors {
			return fmt.Errorf("%d sensors, and not %d: %w", n, sensors, errWrong)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("last of all: %w", err)
	}
	m.one, err = b.timed(ctx, sys, "timeseries-one", func() error {
		n, err := w.one(ctx, v.Int32N(sensors), from, to)
		if err == nil && n != minutes {
			return fmt.Errorf("%d readings, and not %d: %w", n, minutes, errWrong)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("one sensor: %w", err)
	}
	m.hourly, err = b.timed(ctx, sys, "timeseries-hourly", func() (err error) {
		n := 0
		if n, m.sum, err = w.hourly(ctx, from, to); err == nil && n != hours {
			return fmt.Errorf("%d hours, and not %d: %w", n, hours, errWrong)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("hourly: %w", err)
	}
	return nil
}

// timed does something again and again for as long as a row runs.
func (b *bench) timed(ctx context.Context, sys recorder, name string, do func() error) (m analysed, err error) {
	if err := do(); err != nil {
		return m, err
	}
	profiled := func() error { return nil }
	if sys == recorder(b.server) {
		profiled = b.profile(ctx, name, b.o.Duration)
	}
	used, err := sys.cpu()
	if err != nil {
		return m, err
	}
	var took []time.Duration
	for begun := time.Now(); len(took) < askedAtLeast-1 || time.Since(begun) < b.o.Duration; {
		at := time.Now()
		if err := do(); err != nil {
			return m, errors.Join(err, profiled())
		}
		took = append(took, time.Since(at))
	}
	after, err := sys.cpu()
	m.p50, _ = percentiles(took)
	m.cpu = (after - used) / time.Duration(len(took))
	return m, errors.Join(err, profiled())
}
