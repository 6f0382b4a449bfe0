package catalog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
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

// prepareSome makes a collection with a unique index, and prepares a transaction of session 1
// that has updated, deleted and inserted there.
func prepareSome(t *testing.T, c *Catalog) (*Collection, *Transaction) {
	t.Helper()
	coll, tr := draftSome(t, c)
	defer tr.Leave()
	if readOnly, err := tr.Prepare(t.Context(), "s0", nil); err != nil || readOnly {
		t.Fatal(readOnly, err)
	}
	return coll, tr
}

// draftSome is prepareSome for a transaction that is in progress, and in use.
func draftSome(t *testing.T, c *Catalog) (*Collection, *Transaction) {
	t.Helper()
	ns := schema.Namespace{DB: "db", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, []bson.Doc{parse(t, `{"key": {"a": 1}, "name": "a", "unique": true}`)}); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		_, err := u.InsertMany(t.Context(), coll, []bson.Doc{parse(t, `{"_id": 1, "a": 1}`), parse(t, `{"_id": 2, "a": 2}`)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	tr := transact(t, c, 1)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	u := tr.Draft()
	for _, w := range [][2]string{{`{"_id": 1}`, `{"_id": 1, "a": 5}`}, {`{"_id": 2}`, ""}, {"", `{"_id": 3, "a": 3}`}} {
		if err := writeText(t, u, coll, w[0], w[1]); err != nil {
			t.Fatal(err)
		}
		tr.LeaveGates()
	}
	if err := tr.ExecuteFor(t.Context(), otherSession, 4, retryable.Run{Kind: retryable.Modified, First: 7, Count: 1, Doc: parse(t, `{"value": 1}`)}); err != nil {
		t.Fatal(err)
	}
	return coll, tr
}

// otherSession is one for which prepareSome executes statement 7 of operation 4.
var otherSession = retryable.Session{ID: [16]byte{9}}

// executedForOther returns what is stored of that, and stores a later statement, which leaves it.
func executedForOther(t *testing.T, c *Catalog, n *Newest) string {
	t.Helper()
	if _, err := n.Txn(c, otherSession); err != nil {
		t.Fatal(err)
	}
	x, err := c.BeginExecution(n, otherSession, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer x.End()
	run, ok, err := x.Executed(7)
	if err != nil {
		t.Fatal(err)
	}
	x.Did(retryable.Updated, int32(len(x.done)), nil)
	if err := x.Commit(t.Context(), c.Begin(), storage.Buffered); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(ok, run.Kind, run.Doc)
}

// writeText inserts, updates or deletes.
func writeText(t *testing.T, u *Unit, coll *Collection, old, doc string) error {
	t.Helper()
	if old == "" {
		return u.Insert(t.Context(), coll, parse(t, doc))
	}
	record, found, err := u.LockID(t.Context(), coll, parse(t, old).Lookup("_id"))
	if err != nil {
		return err
	}
	if doc == "" {
		return u.Delete(t.Context(), coll, record, found)
	}
	return u.Update(t.Context(), coll, record, found, parse(t, doc))
}

// documents lists what a collection has, in the order of _id.
func documents(t *testing.T, c *Catalog, coll *Collection) string {
	t.Helper()
	it, err := c.engine.NewIter(coll.Ident, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var all []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bson.Doc(v).String())
	}
	return strings.Join(all, " ")
}

// waits tries writes that must wait for a prepared transaction, and others that must not.
func isWaiting(t *testing.T, c *Catalog, coll *Collection) {
	t.Helper()
	errWaited := errors.New("waited")
	for _, w := range []struct {
		old, doc string
		waits    bool
	}{
		{`{"_id": 1}`, `{"_id": 1, "a": 7}`, true}, // its document
		{`{"_id": 2}`, "", true},
		{"", `{"_id": 3, "a": 8}`, true}, // its _id
		{"", `{"_id": 4, "a": 3}`, true}, // a key that it has taken
		{"", `{"_id": 4, "a": 1}`, true}, // keys that it frees
		{"", `{"_id": 4, "a": 2}`, true},
		{"", `{"_id": 9, "a": 9}`, false},
		{`{"_id": 9}`, "", false},
	} {
		ctx, end := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errWaited)
		err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return writeText(t, u, coll, w.old, w.doc) })
		end()
		if errors.Is(err, errWaited) != w.waits || err != nil && !w.waits {
			t.Errorf("%s -> %s: %v", w.old, w.doc, err)
		}
	}
}

// decide ends the prepared transaction of session 1.
func decide(t *testing.T, c *Catalog, commit uint64) {
	t.Helper()
	s := retryable.Session{ID: [16]byte{1}}
	tr, n := c.Prepared(s), new(Newest)
	if tr == nil || !tr.Enter() {
		t.Fatal("there is no prepared transaction")
	}
	err := tr.Decide(t.Context(), n, commit, nil)
	tr.Leave()
	if err != nil {
		t.Fatal(err)
	}
	want := retryable.Committed
	if commit == 0 {
		want = retryable.Aborted
	}
	if kind, _, err := c.Outcome(n, s, 1); err != nil || kind != want {
		t.Errorf("the session's record is %d %v", kind, err)
	}
	if err := eachPart(c.engine, nil, nil, func(retryable.Session, uint32, []byte) error { return errors.New("a record is left") }); err != nil {
		t.Error(err)
	}
	if c.Prepared(s) != nil || c.CountPrepared() != 0 || len(c.Undecided()) != 0 {
		t.Error("it is still prepared")
	}
}

// TestPrepared holds that a prepared transaction keeps what it needs until it is decided, in
// the process that prepared it and in a later one, and then has all of its effect or none.
func TestPrepared(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, commit := range []uint64{0, 7} {
			t.Run(fmt.Sprint(restart, commit), func(t *testing.T) {
				fs := storage.NewMemFS()
				c := open(t, fs)
				coll, tr := prepareSome(t, c)
				if restart {
					c = reopen(t, c, fs)
					coll = c.Lookup(coll.Namespace)
				} else if !tr.Enter() {
					t.Fatal("it is over")
				} else {
					if readOnly, err := tr.Prepare(t.Context(), "s0", nil); readOnly || err != nil {
						t.Errorf("asked again: %v %v", readOnly, err)
					}
					tr.Leave()
				}
				if all := c.Undecided(); len(all) != 1 || all[0].Txn != 1 || all[0].Coordinator != "s0" {
					t.Errorf("%v", all)
				}
				isWaiting(t, c, coll)
				other := new(Newest)
				if got := executedForOther(t, c, other); !strings.HasPrefix(got, "false") {
					t.Errorf("before the decision, the other session has %s", got)
				}
				before := documents(t, c, coll)
				if want := `{ _id: 1, a: 1 } { _id: 2, a: 2 }`; before != want {
					t.Errorf("prepared: %s", before)
				}
				decide(t, c, commit)
				want := before
				if commit != 0 {
					want = `{ _id: 1, a: 5 } { _id: 3, a: 3 }`
				}
				if got := documents(t, c, coll); got != want {
					t.Errorf("decided: %s", got)
				}
				for range 2 {
					got, want := executedForOther(t, c, other), "false0{}"
					if commit != 0 {
						want = "true5{ value: 1 }"
					}
					if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
						t.Errorf("the other session has %s", got)
					}
				}
				mustValidate(t, c, coll)
				if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return writeText(t, u, coll, `{"_id": 1}`, `{"_id": 1, "a": 7}`) }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestPreparedPinsGates holds that DDL waits for a prepared transaction, and lets others write
// meanwhile.
func TestPreparedPinsGates(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll, _ := prepareSome(t, c)
	dropped := make(chan error, 1)
	go func() {
		_, err := c.Drop(t.Context(), coll.Namespace)
		dropped <- err
	}()
	for coll.live.gate.inside.Load() >= 0 { // until DDL keeps others out
		time.Sleep(time.Millisecond)
	}
	if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return writeText(t, u, coll, "", `{"_id": 9, "a": 9}`) }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-dropped:
		t.Fatalf("the collection was dropped: %v", err)
	default:
	}
	decide(t, c, 7)
	if err := <-dropped; err != nil {
		t.Error(err)
	}
}

// TestPrepareRefuses holds which transactions are not prepared, and that nothing is left of
// them.
func TestPrepareRefuses(t *testing.T) {
	c := open(t, storage.NewMemFS())
	defer endProcess(t, c)
	coll, err := c.Create(t.Context(), schema.Namespace{DB: "db", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	prepare := func(f func(tr *Transaction)) (bool, error) {
		tr := transact(t, c, 1)
		if !tr.Enter() {
			t.Fatal("the transaction is over")
		}
		f(tr)
		readOnly, err := tr.Prepare(t.Context(), "s0", nil)
		tr.Leave()
		tr.AbortAndDrop(t.Context())
		if c.CountPrepared() != 0 || coll.live.gate.inside.Load() != 0 {
			t.Error("something is left")
		}
		return readOnly, err
	}
	if readOnly, err := prepare(func(*Transaction) {}); !readOnly || err != nil {
		t.Errorf("without writes: %v %v", readOnly, err)
	}
	if _, err := prepare(func(tr *Transaction) {
		if _, err := tr.Create(t.Context(), schema.Namespace{DB: "db", Coll: "new"}, nil); err != nil {
			t.Fatal(err)
		}
	}); !mongoerr.Is(err, mongoerr.OperationNotSupportedInTransaction) {
		t.Errorf("with a new collection: %v", err)
	}
	if _, err := prepare(func(tr *Transaction) {
		if err := writeText(t, tr.Draft(), coll, "", `{"_id": 1}`); err != nil {
			t.Fatal(err)
		}
		tr.LeaveGates()
		if _, err := c.Drop(t.Context(), coll.Namespace); err != nil {
			t.Fatal(err)
		}
	}); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("dropped meanwhile: %v", err)
	}
}

// TestPreparedBytes holds the bytes of prepare records, and of what effects say about them
// (docs/format).
func TestPreparedBytes(t *testing.T) {
	s := retryable.Session{ID: [16]byte{1}, UID: [32]byte{2}}
	h := preparedHead{time: 5<<32 | 1, txn: 300, second: 1700000000, parts: 2, coordinator: "s0", colls: []storage.Ident{300}}
	w := draftWrite{coll: &Collection{id: 300}, old: parse(t, `{"_id": 1}`), doc: parse(t, `{"_id": 1}`), replaces: true}
	for _, x := range []struct {
		what, want string
		got        []byte
	}{
		{"head", "010000000500000001ac0280c49fd50c0202733001ac02", h.append(nil)},
		{"write", "ac02070e0e000000105f69640001000000000e0e000000105f6964000100000000", w.append(nil)},
		{"note of a prepare", "010000000000000000000000000000000200000000000000000000000000000000000000000000000000000000000000010000000500000001ac0280c49fd50c0202733001ac02", (&preparedNote{session: s, head: h}).append(nil)},
		{"note of a decision", "010000000000000000000000000000000200000000000000000000000000000000000000000000000000000000000000ac028180808050", (&decidedNote{session: s, txn: 300, commit: 5<<32 | 1}).append(nil)},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s is %s", x.what, got)
		}
	}
	in := storage.EncodingReader{Rest: w.append(nil)}
	if again, id := readWrite(&in); in.Bad || len(in.Rest) > 0 || id != 300 || again.old.String() != w.old.String() || again.doc.String() != w.doc.String() || !again.replaces || again.evicts {
		t.Errorf("a write is read as %v of %d", again, id)
	}
	c := open(t, storage.NewMemFS())
	e := &Effect{c: c, u: c.engine.Begin()}
	e.prepared = &preparedNote{about: about{id: storage.IdentPrepared}, session: s, head: h}
	e.note(e.prepared)
	if err := e.u.Seal(); err != nil {
		t.Fatal(err)
	}
	b := e.AppendEncoded(nil)
	e.u.Abort()
	if b[0] != preparedEffectVersion {
		t.Errorf("an effect with a prepare record has version %d", b[0])
	}
	again, err := c.Decode(b)
	if err != nil || again.prepared == nil || again.prepared.session != s || !reflect.DeepEqual(again.prepared.head, h) {
		t.Errorf("it is read as %v: %v", again, err)
	}
}

// TestPrepareChecksOwner holds that what a shard owned when a statement ran, and does not own any
// more, is neither prepared nor committed.
func TestPrepareChecksOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, storage.NewMemFS())
		ns := schema.Namespace{DB: "d", Coll: "c"}
		if _, err := c.Create(t.Context(), ns, nil); err != nil {
			t.Fatal(err)
		}
		change := func(f func(s *schema.Sharding, whole schema.ShardRange)) {
			t.Helper()
			if _, err := c.SetSharding(t.Context(), ns, func(*Collection) (*schema.Sharding, error) { return entryOf(t, f), nil }); err != nil {
				t.Fatal(err)
			}
		}
		nothing := func(*schema.Sharding, schema.ShardRange) {}
		gone := errors.New("the database has moved")
		for _, x := range []struct {
			what    string
			sharded bool
			then    func()
			fits    func(error) bool
		}{
			{"as it was", true, func() {}, func(err error) bool { return err == nil }},
			{"given away", true, func() {
				change(func(s *schema.Sharding, whole schema.ShardRange) {
					s.Version.Major++
					s.Hidden = []schema.HiddenRange{{ShardRange: whole}}
				})
			}, func(err error) bool { return errors.Is(err, storage.ErrConflict) }},
			{"being given away", true, func() {
				change(func(s *schema.Sharding, whole schema.ShardRange) { s.Blocked = &schema.BlockedRange{ShardRange: whole} })
			}, func(err error) bool { return mongoerr.Is(err, mongoerr.LockTimeout) }},
			{"moved with its database", false, func() {}, func(err error) bool { return errors.Is(err, gone) }},
		} {
			for _, commits := range []bool{false, true} {
				if x.sharded {
					change(nothing)
				} else if _, err := c.SetSharding(t.Context(), ns, func(*Collection) (*schema.Sharding, error) { return nil, nil }); err != nil {
					t.Fatal(err)
				}
				session := byte(1)
				if commits {
					session = 2
				}
				tr := transact(t, c, session)
				if !tr.Enter() {
					t.Fatal("the transaction is over")
				}
				u := tr.Draft()
				if !x.sharded {
					u.Guard = &Guard{Admit: func(*Collection) error { return nil }, Again: func(*Collection) error { return gone }}
				}
				if err := u.Insert(t.Context(), c.Lookup(ns), parse(t, `{"_id": 1, "k": 1}`)); err != nil {
					t.Fatal(err)
				}
				tr.LeaveGates()
				x.then()
				ctx, end := context.WithTimeoutCause(t.Context(), time.Minute, LockTimeout("a gate", time.Minute))
				var err error
				if commits {
					err = tr.Commit(ctx, storage.Buffered)
				} else {
					_, err = tr.Prepare(ctx, "s0", nil)
				}
				end()
				tr.Leave()
				if !x.fits(err) {
					t.Errorf("%s, commits %v: %v", x.what, commits, err)
				}
				switch {
				case err != nil:
				case commits:
					if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return writeText(t, u, c.Lookup(ns), `{"_id": 1}`, "") }); err != nil {
						t.Fatal(err)
					}
				default:
					decide(t, c, 0)
				}
				tr.Abort()
			}
		}
	})
}

// TestPreparedEverywhereTheSame holds that what a prepared transaction does depends on no clock:
// a document that had expired when it was prepared, and had to go for a key, goes, also where
// it has not expired.
func TestPreparedEverywhereTheSame(t *testing.T) {
	fs := storage.NewMemFS()
	at := func(year int) (*storage.Engine, *Catalog) {
		clock := NewClock(func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) })
		return openProved(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, Options{Clock: clock})
	}
	_, c := at(2030)
	ns := schema.Namespace{DB: "db", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, parse(t, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, []bson.Doc{parse(t, `{"key": {"a": 1}, "name": "a", "unique": true}`), parse(t, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		return u.Insert(t.Context(), c.Lookup(ns), parse(t, `{"_id": 1, "a": 1, "at": {"$date": "2025-01-01T00:00:00Z"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	tr := transact(t, c, 1)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	if err := tr.Draft().Insert(t.Context(), c.Lookup(ns), parse(t, `{"_id": 2, "a": 1, "at": {"$date": "2040-01-01T00:00:00Z"}}`)); err != nil {
		t.Fatal(err)
	}
	tr.LeaveGates()
	if _, err := tr.Prepare(t.Context(), "s0", nil); err != nil {
		t.Fatal(err)
	}
	tr.Leave()
	endProcess(t, c)
	e, later := at(2020)
	t.Cleanup(func() { later.Close(); e.Close() })
	decide(t, later, 7)
	if got := documents(t, later, later.Lookup(ns)); !strings.HasPrefix(got, "{ _id: 2,") || strings.Contains(got, "_id: 1") {
		t.Errorf("%s", got)
	}
	mustValidate(t, later, later.Lookup(ns))
}

// TestPreparedKeepsRanges holds that no range is dropped beside a prepared transaction, that the
// monitor does not wait for it, and that the range goes afterwards.
func TestPreparedKeepsRanges(t *testing.T) {
	c, coll := openWindowed(t)
	insertDated(t, c, coll, 1, 2, 1_000)
	tr := transact(t, c, 1)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	if err := writeText(t, tr.Draft(), coll, `{"_id": 1}`, `{"_id": 1, "at": {"$date": {"$numberLong": "1000"}}, "x": 1}`); err != nil {
		t.Fatal(err)
	}
	tr.LeaveGates()
	if _, err := tr.Prepare(t.Context(), "s0", nil); err != nil {
		t.Fatal(err)
	}
	tr.Leave()
	drop := func() int64 {
		t.Helper()
		d, err := c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: 1_000_000})
		if err != nil {
			t.Fatal(err)
		}
		return d.Docs
	}
	if n := drop(); n != 0 {
		t.Errorf("%d documents were dropped beside a prepared transaction", n)
	}
	decide(t, c, 7)
	if n := drop(); n != 1 {
		t.Errorf("%d documents were dropped afterwards", n)
	}
}

// TestDecidedBeside holds that what a coordinator writes with its decision is one effect with
// the transaction's commit, or nothing, and that DDL on its collection waits from the prepare on
// and does not keep the decision waiting.
func TestDecidedBeside(t *testing.T) {
	l := &logging{t: t}
	l.c = openLogging(t, l)
	c := l.c
	c.operations = true
	var colls [2]*Collection
	for i, name := range []string{"c", "decisions"} {
		var err error
		if colls[i], err = c.Create(t.Context(), schema.Namespace{DB: "db", Coll: name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	coll, beside := colls[0], colls[1]
	tr := transact(t, c, 1)
	if !tr.Enter() {
		t.Fatal("the transaction is over")
	}
	defer tr.Leave()
	if err := writeText(t, tr.Draft(), coll, "", `{"_id": 1}`); err != nil {
		t.Fatal(err)
	}
	if readOnly, err := tr.Prepare(t.Context(), "s0", beside); err != nil || readOnly {
		t.Fatal(readOnly, err)
	}
	indexed := make(chan error, 1)
	go func() {
		_, _, err := c.CreateIndexes(t.Context(), beside.Namespace, []bson.Doc{parse(t, `{"key": {"a": 1}, "name": "a"}`)})
		indexed <- err
	}()
	for beside.live.gate.inside.Load() >= 0 { // until DDL keeps others out
		time.Sleep(time.Millisecond)
	}
	before, insert := len(l.effects), func(u *Unit) error { return u.Insert(t.Context(), beside, parse(t, `{"_id": 1, "a": 5}`)) }
	errNo := errors.New("no")
	if err := tr.Decide(t.Context(), new(Newest), 7, func(u *Unit) error { return errors.Join(insert(u), errNo) }); !errors.Is(err, errNo) {
		t.Fatal(err)
	}
	if got := documents(t, c, coll) + documents(t, c, beside); got != "" || len(l.effects) != before || !tr.IsPrepared() || c.CountPrepared() != 1 {
		t.Errorf("after a refusal there are %s, and %d effects more", got, len(l.effects)-before)
	}
	select {
	case err := <-indexed:
		t.Fatalf("an index was built: %v", err)
	case <-time.After(20 * time.Millisecond): // it does not happen
	}
	if err := tr.Decide(t.Context(), new(Newest), 7, insert); err != nil {
		t.Fatal(err)
	}
	if err := <-indexed; err != nil {
		t.Fatal(err)
	}
	var decided *Effect
	for _, b := range l.effects[before:] {
		if e, err := c.Decode(b); err != nil {
			t.Fatal(err)
		} else if _, _, ok, err := DecodeDecision(b); err != nil {
			t.Fatal(err)
		} else if ok {
			decided = e
		}
	}
	if decided == nil || decided.OperationCounts() != (OperationCounts{Inserted: 2}) {
		t.Errorf("the effect of the decision is %+v", decided)
	}
	if got := documents(t, c, coll) + documents(t, c, beside); got != `{ _id: 1 }{ _id: 1, a: 5 }` {
		t.Errorf("decided: %s", got)
	}
	mustValidate(t, c, c.Lookup(beside.Namespace))
}
