package shardsvr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/storage"
)

// failing commits to the store alone. The next units fail, before or after they took effect.
type failing struct {
	units         atomic.Int64
	before, after atomic.Int64
}

var errFailing = errors.New("a unit that fails")

func (f *failing) Writable() error { return nil }

func (f *failing) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	f.units.Add(1)
	if f.before.Add(-1) >= 0 {
		return errFailing
	}
	if err := e.Commit(ctx, d); err != nil || f.after.Add(-1) < 0 {
		return err
	}
	return errFailing
}

// TestRemoveDecisions: decisions are removed many at a time, each of them, and exactly those;
// a unit that fails, or of which it is not known whether it did, is made again.
func TestRemoveDecisions(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f := new(failing)
	cat, err := catalog.Open(e, catalog.Options{Committer: f})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	s := &Shard{cat: cat, node: &node.Node{Dispatcher: new(command.Dispatcher)}}
	coll, err := s.collection(t.Context(), coordinators)
	if err != nil {
		t.Fatal(err)
	}
	const removed, kept = 2*maxRemoved + 1, 7
	id := func(i int) transactionID { return transactionID{number: int64(i)} }
	if err := cat.Run(t.Context(), storage.Buffered, func(u *catalog.Unit) error {
		for i := range removed + kept {
			if err := u.Insert(t.Context(), coll, new(bson.Builder).Doc("_id", id(i).key()).Finish()); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.units.Store(0)
	f.before.Store(1)
	f.after.Store(1)
	var running sync.WaitGroup
	for i := range removed {
		running.Go(func() {
			if err := s.removeDecision(t.Context(), id(i), catalog.Evaluation{}); err != nil {
				t.Error(i, err)
			}
		})
	}
	running.Wait()
	for i := range removed + kept {
		if doc, err := s.decision(id(i)); err != nil || (doc == nil) != (i < removed) {
			t.Fatal(fmt.Sprintf("decision %d:", i), doc, err)
		}
	}
	if n := f.units.Load(); n < 3+2 || n > removed/20 { // a busy machine may take more turns than three
		t.Errorf("%d units remove %d decisions", n, removed)
	}
}
