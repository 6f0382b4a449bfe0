package router

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxSnapshots bounds how often a read of several shards looks for a time of which all of
	// them have the state: a shard that has none of before does not, if it has written since.
	maxSnapshots = 100
	// toldEvery is how often shards are told that snapshots are read, while they are;
	// toldFor is for how long they know it without, at the least.
	toldEvery = time.Second
	toldFor   = 5 * time.Second
	// tellTime bounds how long shards are told, and maxTellWait how long a reader waits for it.
	tellTime    = 2 * time.Second
	maxTellWait = 300 * time.Millisecond
)

// snapshotReads is what the router tells shards of reads at one time: that they come, so that
// each keeps states from which it makes the one of that time
// (docs/rfcs/0022-states-at-a-time.md).
type snapshotReads struct {
	mu    sync.Mutex
	told  time.Time     // when all were told last
	round chan struct{} // closed when they are told; nil if that is not under way
}

// expectSnapshots has the shards know that reads at one time come. It waits for them where they
// have not heard it for a while, but not for long: one that cannot be reached is perhaps not
// asked.
func (r *Router) expectSnapshots(ctx context.Context) {
	s := &r.snapshots
	s.mu.Lock()
	since := time.Since(s.told)
	if since < toldEvery {
		s.mu.Unlock()
		return
	}
	round := s.round
	if round == nil {
		round = make(chan struct{})
		s.round = round
		r.streams.Go(func() { r.tellShards(round) })
	}
	s.mu.Unlock()
	if since < toldFor {
		return
	}
	timer := time.NewTimer(maxTellWait)
	defer timer.Stop()
	select {
	case <-round:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tellShards tells all shards that reads at one time come.
func (r *Router) tellShards(round chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	names, err := r.shards.names(ctx)
	if err == nil {
		_, _ = each(names, func(name string) (struct{}, error) {
			set, err := r.shards.shard(ctx, name)
			if err == nil {
				_, err = set.Run(ctx, client.Call{DB: "admin", Body: expectSnapshots, Idempotent: true})
			}
			return struct{}{}, err // who has not heard it answers 239, and knows it then
		})
	}
	s := &r.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.round = time.Now(), nil
	close(round)
}

var expectSnapshots = new(bson.Builder).Int32("_shardsvrExpectSnapshots", 1).Finish()

// atSnapshots runs a read with the level snapshot again if a shard does not have the state
// of the time that the router chose.
func (r *Router) atSnapshots(run command.Handler) command.Handler {
	return func(ctx context.Context, op *command.Op) error {
		if op.ReadConcern.Level != "snapshot" || op.ReadConcern.AtClusterTime != 0 || op.InTransaction() { // which has a time of its own
			return run(ctx, op)
		}
		r.expectSnapshots(ctx)
		body := op.Body
		for try := 1; ; try++ {
			err := run(ctx, op)
			chosen := op.ReadConcern.AtClusterTime != 0
			if !chosen || try == maxSnapshots || !mongoerr.Is(err, mongoerr.SnapshotTooOld, mongoerr.SnapshotUnavailable) {
				return err
			}
			op.Body, op.ReadConcern.AtClusterTime = body, 0
			if err := client.Sleep(ctx, min(time.Duration(try)*100*time.Microsecond, 5*time.Millisecond)); err != nil {
				return err
			}
		}
	}
}

// atOneTime gives a read of several shards with the level snapshot a time that all of them
// read at, unless the client gives one.
func (r *Router) atOneTime(op *command.Op) {
	if op.ReadConcern.Level != "snapshot" || op.ReadConcern.AtClusterTime != 0 || op.InTransaction() {
		return
	}
	at := max(r.clock.Now(), op.ReadConcern.AfterClusterTime)
	op.ReadConcern.AtClusterTime = at
	concern := new(bson.Builder).String("level", "snapshot").Timestamp("atClusterTime", at).Finish()
	op.Body = withField(op.Body, "readConcern", bson.Document(concern))
}

// snapshotTime writes the time that a cursor reads at, with which a session's client reads on.
func snapshotTime(op *command.Op) func(b *bson.Builder) {
	at := op.ReadConcern.AtClusterTime
	if op.ReadConcern.Level != "snapshot" || at == 0 || op.InTransaction() {
		return nil
	}
	return func(b *bson.Builder) { b.Timestamp("atClusterTime", at) }
}
