package catalog

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// terms is a Committer whose member is primary in terms that change, and takes only
// what was evaluated in the one that is.
type terms struct{ now uint64 }

var errOldTerm = errors.New("of an old term")

func (c *terms) Evaluate() Evaluation { return Evaluation{Term: c.now} }
func (c *terms) Writable() error      { return nil }

func (c *terms) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	if e.Evaluation().Term != c.now {
		return errOldTerm
	}
	return e.Commit(ctx, d)
}

// attempts is a session that inserts into a collection.
type attempts struct {
	t    *testing.T
	c    *Catalog
	coll *Collection
	n    Newest
	s    retryable.Session
}

func (a *attempts) begin(txn int64) *Execution {
	a.t.Helper()
	newest, err := a.n.Txn(a.c, a.s)
	if err != nil || newest > txn {
		a.t.Fatalf("the newest is %d, %v", newest, err)
	}
	x, err := a.c.BeginExecution(&a.n, a.s, txn)
	if err != nil {
		a.t.Fatal(err)
	}
	return x
}

func (a *attempts) insert(x *Execution, id, statement int32) error {
	u := a.c.Begin()
	if err := u.Insert(a.t.Context(), a.coll, new(bson.Builder).Int32("_id", id).Finish()); err != nil {
		return err
	}
	x.Did(retryable.Inserted, statement, nil)
	return x.Commit(a.t.Context(), u, storage.Buffered)
}

func (a *attempts) records() (n int) {
	if err := a.c.eachRecord(a.s, func(uint32, *retryable.Record) error { n++; return nil }); err != nil {
		a.t.Fatal(err)
	}
	return n
}

func newAttempts(t *testing.T, k Committer) *attempts {
	a := &attempts{t: t, c: openLogging(t, k), s: retryable.Session{ID: [16]byte{7}}}
	var err error
	if a.coll, err = a.c.Create(t.Context(), schema.Namespace{DB: "d", Coll: "c"}, nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestExecutionOfOneTerm: another primary may have executed a statement in the time in
// which this member was none, so what has read the records before is refused after it.
func TestExecutionOfOneTerm(t *testing.T) {
	k := &terms{now: 1}
	a := newAttempts(t, k)
	x := a.begin(1)
	k.now = 3
	if err := a.insert(x, 1, 0); !errors.Is(err, errOldTerm) {
		t.Fatalf("a unit of a later term, with records that were read in an earlier one: %v", err)
	}
	x.End()
	if x = a.begin(1); x.at.Term != 3 {
		t.Errorf("the next attempt is of term %d", x.at.Term)
	}
	if err := a.insert(x, 1, 0); err != nil {
		t.Fatal(err)
	}
	x.End()
	x = a.begin(1)
	defer x.End()
	if run, ok, err := x.Executed(0); !ok || err != nil || run.Kind != retryable.Inserted {
		t.Errorf("the record is %v, %v, %v", run, ok, err)
	}
}

// TestRecordsOfNewestNumber: a session has the records of its newest transaction number
// only, also where the process has forgotten what the store has.
func TestRecordsOfNewestNumber(t *testing.T) {
	a := newAttempts(t, nil)
	id, txn := int32(0), int64(0)
	for _, units := range []int32{1, 5, 5, 3, 1, 1} {
		for _, forgets := range []bool{false, true} {
			forget := func() {
				if forgets {
					a.n = Newest{}
				}
			}
			txn++
			forget()
			x := a.begin(txn)
			for i := range units {
				if err := a.insert(x, id, 2*i); err != nil {
					t.Fatal(err)
				}
				id++
			}
			x.End()
			if n := a.records(); n != int(units) {
				t.Errorf("%d units of number %d have %d records", units, txn, n)
			}
			forget()
			x = a.begin(txn)
			for i := range units {
				_, ok, err := x.Executed(2 * i)
				_, other, _ := x.Executed(2*i + 1)
				if !ok || other || err != nil {
					t.Errorf("statement %d: %v, the next one %v, %v", 2*i, ok, other, err)
				}
			}
			x.End()
		}
	}
}
