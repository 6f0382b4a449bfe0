package configsvr

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestInterrupts: a DDL has a move undone, and an index that is being built; not what changes
// settings or the list of shards, nor a resharding.
func TestInterrupts(t *testing.T) {
	for kind, undone := range map[string]bool{
		step.KindMove: true, step.KindIndexes: true, step.KindReshard: false, step.KindSettings: false, step.KindAddShard: false, step.KindRemoveShard: false,
	} {
		r := &running{op: step.Operation{Number: 7, Kind: kind, Args: bson.Empty}, cancel: make(chan error, 1)}
		now := &term{running: map[int64]*running{7: r}}
		now.interrupt(7, mongoerr.New(mongoerr.ConflictingOperationInProgress, "d.c changes"))
		if got := len(r.cancel) == 1; got != undone {
			t.Errorf("%s is undone: %v", kind, got)
		}
	}
}
