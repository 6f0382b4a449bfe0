package router

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxSnapshots bounds how often a read of several shards looks for a time of which all of
// them have the state: one that has written since does not.
const maxSnapshots = 100

// atSnapshots runs a read with the level snapshot again if a shard does not have the state
// of the time that the router chose.
func (r *Router) atSnapshots(run command.Handler) command.Handler {
	return func(ctx context.Context, op *command.Op) error {
		if op.ReadConcern.Level != "snapshot" || op.ReadConcern.AtClusterTime != 0 || op.InTransaction() { // which has a time of its own
			return run(ctx, op)
		}
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
