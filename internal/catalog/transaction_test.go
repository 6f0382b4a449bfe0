package catalog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/memory"
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

// TestNumberIsNotUsedAgain: the number of a document of a capped collection that was deleted is
// not another one's after a change of primary: a cursor may be behind it.
func TestNumberIsNotUsedAgain(t *testing.T) {
	c, ctx := open(t, storage.NewMemFS()), t.Context()
	defer endProcess(t, c)
	coll, err := c.Create(ctx, schema.Namespace{DB: "db", Coll: "c"}, parse(t, `{"capped": true, "size": 100000}`))
	if err != nil {
		t.Fatal(err)
	}
	insert := func(id int32) RecordKey {
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.Insert(ctx, coll, number(id)) }); err != nil {
			t.Fatal(err)
		}
		keys, _ := records(t, c.engine, coll)
		return keys[len(keys)-1]
	}
	insert(1)
	last := insert(2)
	if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
		old, err := u.LockRecord(ctx, coll, last)
		if err != nil {
			return err
		}
		return u.Delete(ctx, coll, last, old)
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.StepUp(ctx); err != nil {
		t.Fatal(err)
	}
	if next := insert(3); bytes.Compare(next, last) <= 0 {
		t.Errorf("%x is the place of a document that was inserted after %x", next, last)
	}
}

// TestTransactionTooLarge holds that a transaction writes what memory has room for three times
// (146), and a gigabyte at most (257), and that a write that is too much has done nothing to
// others: when the transaction is over they write what it had locked.
func TestTransactionTooLarge(t *testing.T) {
	c := open(t, storage.NewMemFS())
	defer endProcess(t, c)
	c.memory = memory.NewBudget(memory.MinBudget)
	coll, err := c.Create(t.Context(), schema.Namespace{DB: "db", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	large := func(id int32) bson.Doc {
		return new(bson.Builder).Int32("_id", id).String("pad", strings.Repeat("x", 1<<20)).Finish()
	}
	insert := func(tr *Transaction, id int32) error {
		defer tr.LeaveGates()
		return tr.Draft().Insert(t.Context(), coll, large(id))
	}
	const left = 20 << 20
	var others memory.Account
	others.Open(c.memory)
	held := others.Hold(nil)
	most := memory.MinBudget
	for ; held.Set(most) != nil; most -= 1 << 20 {
		continue
	}
	held.Release()
	if err := held.Set(most - left); err != nil {
		t.Fatal(err)
	}
	before := c.memory.Stats().Operations.Held
	tr := transact(t, c, 1)
	tr.Enter()
	written := 0
	for err = nil; err == nil && written < left>>20; written++ {
		err = insert(tr, int32(written))
	}
	if _, bytes := tr.Written(); !mongoerr.Is(err, mongoerr.ExceededMemoryLimit) || copiesDrafted*bytes < left/2 {
		t.Errorf("after %d MB: %v", written, err)
	}
	tr.Leave()
	tr.Abort()
	if n := c.memory.Stats().Operations.Held; n != before {
		t.Errorf("when it is over %d bytes are held, and %d were before", n, before)
	}
	// Those that write nothing take memory, too: there are so many at most.
	var idle []*Transaction
	for err = nil; err == nil && len(idle) <= left/idleBytes; {
		n, s := new(Newest), retryable.Session{ID: [16]byte{3, byte(len(idle)), byte(len(idle) >> 8)}}
		if _, err := n.Txn(c, s); err != nil {
			t.Fatal(err)
		}
		x, failed := c.BeginExecution(n, s, 1)
		if failed != nil {
			t.Fatal(failed)
		}
		if tr, err = c.BeginTransaction(x); err == nil {
			idle = append(idle, tr)
		}
	}
	if !mongoerr.Is(err, mongoerr.ExceededMemoryLimit) || len(idle) < left/idleBytes/2 {
		t.Errorf("after %d idle ones: %v", len(idle), err)
	}
	for _, tr := range idle {
		tr.Abort()
	}
	if n := c.memory.Stats().Operations.Held; n != before {
		t.Errorf("when all are over %d bytes are held, and %d were before", n, before)
	}
	others.Close()

	tr = transact(t, c, 2)
	tr.Enter()
	if err := insert(tr, 0); err != nil {
		t.Fatal(err)
	}
	tr.bytes = maxTransactionBytes - 1<<10 // as if it had written so much
	if err := insert(tr, 1); !mongoerr.Is(err, mongoerr.TransactionTooLarge) {
		t.Errorf("above a gigabyte: %v", err)
	}
	tr.Leave()
	tr.Abort()
	if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return u.Insert(t.Context(), coll, large(0)) }); err != nil {
		t.Error(err)
	}
}
