package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// steadyClients is how many clients a steady load has, and steadyPerSecond how much
	// all of them do in a second: a fraction of what the server can, so that latencies
	// show what else is going on.
	steadyClients   = 8
	steadyPerSecond = 400
)

// steadyLoad is clients that read and update documents by _id, half and half, at a rate
// that does not depend on how fast they are answered: an operation's time counts from
// when its turn was, so that a pause of the server is seen by all that fall into it.
type steadyLoad struct {
	cancel        context.CancelFunc
	begun         time.Time
	reads, writes [][]time.Duration
	done          chan error
}

func startSteady(ctx context.Context, s system, documents int64) *steadyLoad {
	working, cancel := context.WithCancel(ctx)
	l := &steadyLoad{cancel: cancel, begun: time.Now(), reads: make([][]time.Duration, steadyClients), writes: make([][]time.Duration, steadyClients), done: make(chan error, 1)}
	go func() {
		l.done <- parallel(steadyClients, func(client int) error {
			w, err := s.worker(ctx)
			if err != nil {
				return err
			}
			defer w.close()
			return l.work(ctx, working, w, client, documents)
		})
	}()
	return l
}

// work is one client: it ends with working, and its last operation with ctx.
func (l *steadyLoad) work(ctx, working context.Context, w worker, client int, documents int64) error {
	const pause = time.Second * steadyClients / steadyPerSecond
	v := rand.New(rand.NewPCG(uint64(client), 4))
	for turn := l.begun.Add(pause * time.Duration(client) / steadyClients); ; turn = turn.Add(pause) {
		select {
		case <-working.Done():
			return nil
		case <-time.After(time.Until(turn)):
		}
		id := v.Int64N(documents)
		if v.IntN(2) == 0 {
			if err := w.find(ctx, id); err != nil {
				return err
			}
			l.reads[client] = append(l.reads[client], time.Since(turn))
			continue
		}
		if err := w.increment(ctx, id, false); err != nil {
			return err
		}
		l.writes[client] = append(l.writes[client], time.Since(turn))
	}
}

// steadyPhases are the latencies of finds and updates in a part of a row.
type steadyPhases struct{ reads, writes phase }

// stop ends the clients.
func (l *steadyLoad) stop() (p steadyPhases, err error) {
	l.cancel()
	err = <-l.done
	took := time.Since(l.begun)
	return steadyPhases{newPhase(slices.Concat(l.reads...), took), newPhase(slices.Concat(l.writes...), took)}, err
}

// steadyWhile measures a steady load while something else goes on.
func steadyWhile(ctx context.Context, s system, documents int64, during func() error) (steadyPhases, error) {
	l := startSteady(ctx, s, documents)
	err := during()
	p, stopErr := l.stop()
	if err == nil {
		err = stopErr
	}
	return p, err
}
