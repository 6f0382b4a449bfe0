package repl

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestDocumentHasTheTimeOfItsEntry holds that a document that says when its unit is in the log
// says so on the member that has proposed it and on those that read it from the log, whatever else
// the unit writes, and where several are in one round.
func TestDocumentHasTheTimeOfItsEntry(t *testing.T) {
	ms := newMachines(t)
	a, b := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS())
	config := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{{ID: 0, Host: "a:1", Priority: 1, Votes: 1}, {ID: 1, Host: "b:1"}}}
	if err := a.Initiate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(1); err != nil {
		t.Fatal(err)
	}
	coll := a.Catalog().Lookup(testNamespace)
	const decisions = 40
	var at [decisions]Position
	var all sync.WaitGroup
	for i := range decisions {
		all.Go(func() {
			o := new(OpTime)
			ctx, leave, err := a.Enter(WithOpTime(context.Background(), o))
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			id := int32(1000 * (i + 1))
			if err := a.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
				if err := u.InsertTimed(ctx, coll, new(bson.Builder).Int32("_id", id).OpenDoc("decision").Int32("n", 1).Timestamp("at", 7).Close().Finish(), 2); err != nil {
					return err
				}
				for n := range int32(i % 5) { // on both sides of it, once they are sorted
					if err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id+n*n-3).Finish()); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			at[i] = o.Last()
		})
	}
	all.Wait()
	last := at[0]
	for _, p := range at {
		if p.Index > last.Index {
			last = p
		}
	}
	if err := a.WaitConcern(t.Context(), last, Concern{N: 2}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{a, b} {
		here := p.Catalog().Lookup(testNamespace)
		for i := range decisions {
			_, doc, closer, err := here.FindID(nil, p.Catalog().Engine(), bson.Int32(int32(1000*(i+1))))
			if err != nil || doc == nil {
				t.Fatalf("%s: %d: %v", p.Host(), i, err)
			}
			if got := Timestamp(doc.Lookup("decision").Doc().Lookup("at").Timestamp()); got != at[i].Time {
				t.Errorf("%s: %d has %v, and its entry is of %v", p.Host(), i, got, at[i].Time)
			}
			_ = closer.Close()
		}
	}
	for _, p := range []*process{a, b} {
		p.kill()
	}
}
