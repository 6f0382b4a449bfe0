package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// result is what a row measured on one system.
type result struct {
	ops      int64
	elapsed  time.Duration
	p50, p99 time.Duration
	cpu      time.Duration // of the system's processes, per operation
	client   time.Duration // of this process, per operation
	// sent and received are bytes per operation as the server counts them; 0
	// if it does not.
	sent, received int64
}

func (r *result) perSecond() float64 { return float64(r.ops) / r.elapsed.Seconds() }

// parallel runs f for each client at the same time and returns the errors.
func parallel(clients int, f func(client int) error) error {
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// warmUp is the part of a row's duration that runs before it counts.
const warmUp = 4

// A row begins when the system rests from the one before (flushes, compactions,
// checkpoints, vacuum): when its processes take at most restTicks in restEvery,
// or after restLimit.
const (
	restEvery = 100 * time.Millisecond
	restTicks = 2 * time.Second / ticksPerSecond
	restLimit = 10 * time.Second
)

func rest(s system) error {
	used, err := s.cpu()
	for begun := time.Now(); err == nil && time.Since(begun) < restLimit; {
		time.Sleep(restEvery)
		before := used
		if used, err = s.cpu(); used-before <= restTicks {
			break
		}
	}
	return err
}

// measure runs r on s with so many clients for about d.
func measure(ctx context.Context, s system, data *dataset, r row, clients int, d time.Duration) (*result, error) {
	workers := make([]worker, clients)
	for i := range workers {
		w, err := s.worker(ctx)
		if err != nil {
			return nil, err
		}
		defer w.close()
		workers[i] = w
	}
	if err := rest(s); err != nil {
		return nil, err
	}
	if _, _, err := drive(ctx, workers, data, r, d/warmUp); err != nil {
		return nil, err
	}
	before, err := s.cpu()
	if err != nil {
		return nil, err
	}
	own, err := ownCPU()
	if err != nil {
		return nil, err
	}
	took, elapsed, err := drive(ctx, workers, data, r, d)
	if err != nil {
		return nil, err
	}
	after, err := s.cpu()
	if err != nil {
		return nil, err
	}
	ownAfter, err := ownCPU()
	if err != nil {
		return nil, err
	}
	out := &result{ops: int64(len(took)), elapsed: elapsed}
	if len(took) > 0 {
		out.p50, out.p99 = percentiles(took)
		out.cpu = (after - before) / time.Duration(len(took))
		out.client = (ownAfter - own) / time.Duration(len(took))
	}
	return out, nil
}

// drive runs the workers for d and returns how long each operation took.
func drive(ctx context.Context, workers []worker, data *dataset, r row, d time.Duration) (took []time.Duration, elapsed time.Duration, err error) {
	each := make([][]time.Duration, len(workers))
	begun := time.Now()
	err = parallel(len(workers), func(i int) error {
		v := rand.New(rand.NewPCG(uint64(i), uint64(begun.UnixNano())))
		at := time.Now()
		for at.Sub(begun) < d && !(r.consumes && data.exhausted(len(workers))) {
			if err := r.run(ctx, workers[i], data, v); err != nil {
				return err
			}
			now := time.Now()
			each[i] = append(each[i], now.Sub(at))
			at = now
		}
		return nil
	})
	return slices.Concat(each...), time.Since(begun), err
}

// percentiles returns the median and the 99th of a hundred; it sorts took.
func percentiles(took []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}
