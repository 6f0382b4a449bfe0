package expire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestDueChecksInPass: while a pass takes minutes because of one collection, what comes due in
// another one goes by its budget, and for how long it has been due is known: a cluster's budget is
// divided by that.
func TestDueChecksInPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.must(parse(t, `{createIndexes: "big", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0}]}`))
		w.must(parse(t, `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {budget: {documentsPerSecond: 10}}}}}]}`))
		begun := time.Now()
		const backlog, documents = 50_000, 1000
		b := new(bson.Builder).String("insert", "big").OpenArray("documents")
		for i := range backlog {
			b.OpenDoc(bson.Index(i)).Int("_id", int64(i)).Date("at", begun.UnixMilli()).Close()
		}
		w.must(b.Close().Finish())
		w.insertAt(0, documents, begun.Add(70*time.Second).UnixMilli())
		time.Sleep(59 * time.Second)
		w.takes.Store(int64(time.Second)) // each batch
		time.Sleep(time.Until(begun.Add(115 * time.Second)))
		w.takes.Store(0)
		if w.count("big") == 0 || w.m.Stats.SubPasses.Load() > 0 {
			t.Fatalf("the first part of the pass is over: %d documents are left", w.count("big"))
		}
		c := w.cat.Lookup(schema.Namespace{DB: "d", Coll: "c"})
		gone, lag := documents-w.count("c"), w.m.Status(c, "at").Lag
		if gone < 100 || gone > 10*(115-70+1) {
			t.Errorf("%d documents have gone in 45 s by a budget of 10 a second", gone)
		}
		if lag < 30*time.Second || lag > 45*time.Second {
			t.Errorf("the oldest of them has been due for %v", lag)
		}
	})
}
