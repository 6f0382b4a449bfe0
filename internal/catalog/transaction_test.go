package catalog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// transact begins a transaction of a new session, which the caller uses.
func transact(t *testing.T, c *Catalog, session byte) *Transaction {
	t.Helper()
	n, s := new(Newest), retryable.Session{ID: [16]byte{session}}
	if _, err := n.Txn(c, s); err != nil {
		t.Fatal(err)
	}
	x, err := c.BeginExecution(n, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := c.BeginTransaction(x)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func number(id int32) bson.Doc { return new(bson.Builder).Int32("_id", id).Finish() }

// TestTransactionWaitsForDDL holds that a statement waits for DDL as long as it was told, and
// that DDL does not wait for a transaction.
func TestTransactionWaitsForDDL(t *testing.T) {
	c := open(t, storage.NewMemFS())
	defer endProcess(t, c)
	coll, err := c.Create(t.Context(), schema.Namespace{DB: "db", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		insert := func(tr *Transaction, wait time.Duration, id int32) (time.Duration, error) {
			if !tr.Enter() {
				t.Fatal("the transaction is over")
			}
			defer tr.Leave()
			tr.SetLockWait(wait)
			begun := time.Now()
			err := tr.Draft().Insert(ctx, coll, number(id))
			tr.LeaveGates()
			return time.Since(begun), err
		}
		tr := transact(t, c, 1)
		defer tr.Abort()
		if _, err := insert(tr, 0, 1); err != nil {
			t.Fatal(err)
		}
		coll.live.gate.Lock() // DDL begins, in spite of the transaction
		if took, err := insert(tr, 5*time.Millisecond, 2); !mongoerr.Is(err, mongoerr.LockTimeout) || took != 5*time.Millisecond {
			t.Errorf("after %s: %v", took, err)
		}
		if took, err := insert(tr, 0, 2); !mongoerr.Is(err, mongoerr.LockTimeout) || took != 0 {
			t.Errorf("without a wait, after %s: %v", took, err)
		}
		ended := make(chan error)
		go func() {
			_, err := insert(tr, -1, 2)
			ended <- err
		}()
		time.Sleep(time.Hour)
		coll.live.gate.Unlock()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestFormingLeft holds that what a transaction has created is gone when its primary dies
// before the commit, and that nobody else saw it.
func TestFormingLeft(t *testing.T) {
	fs := storage.NewMemFS()
	c := open(t, fs)
	tr := transact(t, c, 1)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	ns := schema.Namespace{DB: "new", Coll: "c"}
	coll, err := tr.Create(t.Context(), ns, nil)
	if err == nil {
		err = errors.Join(tr.Draft().Insert(t.Context(), coll, number(1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	tr.LeaveGates()
	tr.Leave()
	if c.Lookup(ns) != nil || len(c.Databases()) > 0 || len(c.all()) != 1 {
		t.Errorf("others see %v in %v", c.all(), c.Databases())
	}
	tr.Abort()
	c = reopen(t, c, fs)
	defer endProcess(t, c)
	if err := c.StepUp(t.Context()); err != nil || len(c.all()) > 0 {
		t.Errorf("%v is left: %v", c.all(), err)
	}
}
