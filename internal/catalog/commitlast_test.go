package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestCommitLast holds that the coordinator's own part commits with what the coordinator writes, or
// that nothing of either is there: where that is refused, and where DDL takes too long.
func TestCommitLast(t *testing.T) {
	const before, after = `{ _id: 1, a: 1 } { _id: 2, a: 2 }`, `{ _id: 1, a: 5 } { _id: 3, a: 3 }`
	refused := errors.New("refused")
	for name, x := range map[string]struct {
		with    error         // of the coordinator
		closed  time.Duration // for how long DDL keeps others out of the collection
		beside  time.Duration // and out of the coordinator's
		fails   string
		commits bool
	}{
		"commits":       {commits: true},
		"refused":       {with: refused, fails: refused.Error()},
		"short DDL":     {closed: 500 * time.Millisecond, commits: true},
		"long DDL":      {closed: time.Minute, fails: "Unable to acquire"},
		"DDL beside":    {beside: 500 * time.Millisecond, commits: true},
		"long DDL, too": {beside: time.Minute, fails: "Unable to acquire"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, storage.NewMemFS())
				defer endProcess(t, c)
				coll, tr := draftSome(t, c)
				beside, err := c.Create(t.Context(), schema.Namespace{DB: "config", Coll: "decisions"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !tr.CommitsLast(beside) {
					t.Fatal("it cannot be committed so")
				}
				for l, long := range map[*live]time.Duration{coll.live: x.closed, beside.live: x.beside} {
					if long > 0 {
						l.gate.Lock()
						time.AfterFunc(long, l.gate.Unlock)
					}
				}
				proposed, err := tr.CommitLast(t.Context(), beside, func(u *Unit) error {
					if x.with != nil {
						return x.with
					}
					return u.InsertTimed(t.Context(), beside, parse(t, `{"_id": 7, "decision": {"at": {"$timestamp": {"t": 1, "i": 1}}}}`), 2)
				})
				tr.Leave()
				time.Sleep(2 * time.Minute) // gates are open again
				want, decided := before, ""
				if x.commits {
					want, decided = after, `{ _id: 7, decision: { at: Timestamp(1, 1) } }`
				}
				if got := documents(t, c, coll); got != want {
					t.Errorf("it has %s", got)
				}
				if got := documents(t, c, beside); got != decided {
					t.Errorf("beside: %s", got)
				}
				if proposed != x.commits || (err == nil) != x.commits || err != nil && !contains(err, x.fails) {
					t.Errorf("proposed %t: %v", proposed, err)
				}
				if tr.Enter() {
					t.Error("it is not over")
				}
				kind, _, err := c.Outcome(new(Newest), retryable.Session{ID: [16]byte{1}}, 1)
				if err != nil || (kind == retryable.Committed) != x.commits {
					t.Errorf("the session's record is %d %v", kind, err)
				}
				mustValidate(t, c, coll)
				if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return writeText(t, u, coll, `{"_id": 1}`, `{"_id": 1, "a": 7}`) }); err != nil {
					t.Error("its locks are left: ", err)
				}
			})
		})
	}
}

func contains(err error, text string) bool {
	return err != nil && len(text) > 0 && (err.Error() == text || mongoerr.Is(err, mongoerr.LockTimeout) && fmt.Sprintf("%.17s", mongoerr.From(err).Message) == text)
}

// TestTooLargeToCommitLast holds that what may not fit in an entry of the log, and what cannot be
// prepared, is left to Prepare.
func TestTooLargeToCommitLast(t *testing.T) {
	c := open(t, storage.NewMemFS())
	defer endProcess(t, c)
	coll, tr := draftSome(t, c)
	beside, err := c.Create(t.Context(), schema.Namespace{DB: "config", Coll: "decisions"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tr.CommitsLast(coll) {
		t.Error("with a write into a collection that has an index")
	}
	for i := 0; tr.CommitsLast(beside); i++ {
		if i > 2*maxLastBytes>>16 {
			t.Fatal("there is no bound")
		}
		if err := writeText(t, tr.Draft(), coll, "", fmt.Sprintf(`{"_id": %d, "a": %d, "pad": "%0*d"}`, 100+i, 100+i, 1<<16, 0)); err != nil {
			t.Fatal(err)
		}
		tr.LeaveGates()
	}
	tr.Leave()
	tr.Abort()
	tr = transact(t, c, 2)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	if tr.CommitsLast(beside) {
		t.Error("without writes")
	}
	if _, err := tr.Create(t.Context(), schema.Namespace{DB: "db", Coll: "new"}, nil); err != nil {
		t.Fatal(err)
	}
	if tr.CommitsLast(beside) {
		t.Error("with a new collection")
	}
	tr.Leave()
	tr.AbortAndDrop(t.Context())
	// What goes is large, and the log may tell of it.
	large := new(bson.Builder).Int32("_id", 1000).Int32("a", 1000).String("pad", strings.Repeat("x", maxLastBytes)).Finish()
	if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return u.Insert(t.Context(), coll, large) }); err != nil {
		t.Fatal(err)
	}
	if tr = transact(t, c, 3); !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	if err := writeText(t, tr.Draft(), coll, `{"_id": 1000}`, `{"_id": 1000, "a": 1000}`); err != nil {
		t.Fatal(err)
	}
	tr.LeaveGates()
	if tr.CommitsLast(beside) {
		t.Error("a large document became small")
	}
	tr.Leave()
	tr.Abort()
}
