package exec

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
)

// TestPartsTogether reads so many documents in the order of an index that two
// goroutines share them: small ones, ones that do not all fit in memory at once,
// and for a client that goes in the middle.
func TestPartsTogether(t *testing.T) {
	for _, pad := range []int{1, 2 * readahead.MaxBytes / (3 * sharedRows)} {
		const n = 3 * sharedRows
		docs := make([]bson.Doc, n)
		for i := range docs {
			k := i * 7919 % n // each once, and far from the one before
			docs[i] = new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(k)).String("pad", strings.Repeat("x", pad)).Finish()
		}
		w := newGeoWorld(t, newExecutor(t), `{"key": {"k": 1}, "name": "k"}`, docs)
		question := asked{filter: `{}`, sort: `{"k": 1}`, hint: "k"}
		for _, drained := range []bool{true, false} {
			q := question.query(t)
			q.FullyConsumed = drained
			cur, err := w.x.Find(context.Background(), w.coll, q)
			must(t, err)
			for i := range n {
				d, err := cur.Next(context.Background())
				must(t, err)
				if d == nil || d.Lookup("k").Int32() != int32(i) || d.String() != docs[d.Lookup("_id").Int32()].String() {
					t.Fatalf("%v is in place %d", d, i)
				}
			}
			if d, err := cur.Next(context.Background()); d != nil || err != nil {
				t.Fatalf("%v, %v, not the end", d, err)
			}
			cur.Close()
		}
		gone := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		q := question.query(t)
		q.FullyConsumed = true
		cur, err := w.x.Find(context.Background(), w.coll, q)
		must(t, err)
		for i := 0; err == nil; i++ {
			if i == prefetchAfter {
				cancel(gone) // before the first are read ahead
			}
			_, err = cur.Next(ctx)
		}
		cur.Close()
		if !errors.Is(err, gone) {
			t.Fatalf("%v", err)
		}
	}
}
