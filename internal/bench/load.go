package bench

import (
	"context"
	"math/rand/v2"
	"time"
)

// load is clients that work while something else is measured.
type load struct {
	cancel context.CancelFunc
	each   []timings // of each client
	done   chan error
}

// work is what a client of a load does until working ends. Its operations have ctx, so
// that the end does not cut them off.
type work func(working, ctx context.Context, w worker, v *rand.Rand, t *timings) error

// timings are how long the operations of a client took, and of its updates if a row
// tells them apart.
type timings struct{ took, updates []time.Duration }

// startLoad has each client do its work until the load is stopped.
func startLoad(ctx context.Context, s system, clients int, do work) *load {
	working, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, each: make([]timings, clients), done: make(chan error, 1)}
	go func() {
		l.done <- parallel(clients, func(client int) error {
			w, err := s.worker(ctx)
			if err != nil {
				return err
			}
			defer w.close()
			return do(working, ctx, w, rand.New(rand.NewPCG(uint64(client), 1)), &l.each[client])
		})
	}()
	return l
}

// stop ends the clients, and returns how long each operation took.
func (l *load) stop() (all timings, err error) {
	l.cancel()
	err = <-l.done
	for _, t := range l.each {
		all.took, all.updates = append(all.took, t.took...), append(all.updates, t.updates...)
	}
	return all, err
}
