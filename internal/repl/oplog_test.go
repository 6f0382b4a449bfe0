package repl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// told are the documents of the oplog that a walk finds, in its order, each behind its
// key.
func (p *process) told(lower, upper []byte) (all []string) {
	p.ms.t.Helper()
	it, err := p.Catalog().Lookup(schema.Oplog).Virtual().Walk(lower, upper)
	if err != nil {
		p.ms.t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, at(p.ms.t, it))
	}
	if err := it.Close(); err != nil {
		p.ms.t.Fatal(err)
	}
	return all
}

// at is what a walk stands on.
func at(t testing.TB, it *storage.Iter) string {
	v, err := it.Value()
	if err != nil {
		t.Fatal(err)
	}
	if ts := bson.Doc(v).Lookup("ts").Timestamp(); ts != binary.BigEndian.Uint64(it.Key()) {
		t.Fatalf("%s has the key %x", bson.Doc(v), it.Key())
	}
	return string(it.Key()) + bson.Doc(v).String()
}

// Two members tell the same of what one has written: each operation once, under times
// that rise strictly, the last of which is the time of the write. An entry that was
// evaluated in another term tells nothing.
func TestOplog(t *testing.T) {
	ms := newMachines(t)
	a, b := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{
		{ID: 0, Host: "a:1", Priority: 1, Votes: 1}, {ID: 1, Host: "b:1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(0); err != nil {
		t.Fatal(err)
	}
	until(t, "b has a snapshot", func() bool { return b.count() == 1 })
	o := new(OpTime)
	ctx := WithOpTime(context.Background(), o)
	coll := a.Catalog().Lookup(testNamespace)
	if err := a.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		for i := range int32(5) {
			if err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", 10+i).Finish()); err != nil {
				return err
			}
		}
		for i := range int32(2) {
			key, old, err := u.LockID(ctx, coll, bson.Int32(10+i))
			if err == nil {
				u.SetReplacement(i == 1)
				err = u.Update(ctx, coll, key, old, new(bson.Builder).Int32("_id", 10+i).Int32("a", 1).Finish())
			}
			if err != nil {
				return err
			}
		}
		key, old, err := u.LockID(ctx, coll, bson.Int32(14))
		return errors.Join(err, u.Delete(ctx, coll, key, old))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Note(ctx, new(bson.Builder).String("a", "note").Finish()); err != nil {
		t.Fatal(err)
	}
	old := Evaluation{a.State().Term - 1, a.State().evaluation.epoch}
	if _, err := a.replica.Propose(old, []byte("never applied"), nil); !errors.Is(err, ErrDropped) {
		t.Fatal(err)
	}
	o, err := a.insert(20)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 2}); err != nil {
		t.Fatal(err)
	}
	all := a.told(nil, nil)
	var forms []string
	last := uint64(0)
	for _, s := range all {
		ts := binary.BigEndian.Uint64([]byte(s[:8]))
		if ts <= last {
			t.Errorf("%d behind %d", ts, last)
		}
		last = ts
		doc := bson.MustParse(s[8:])
		form := new(bson.Builder).Value("op", doc.Lookup("op")).Value("ns", doc.Lookup("ns")).Value("o", doc.Lookup("o")).Value("o2", doc.Lookup("o2")).Finish().String()
		if !strings.Contains(form, "periodic noop") && !strings.Contains(form, "Reconfig set") {
			forms = append(forms, form)
		}
	}
	if got := strings.Join(forms, "\n"); got != goldenOplog {
		t.Errorf("got\n%s", got)
	}
	if last != uint64(o.Last().Time) {
		t.Errorf("the last document has %d, and the write %s", last, o.Last().Time)
	}
	theirs := b.told(nil, nil)
	if n := len(theirs); n < 10 || strings.Join(theirs, "\n") != strings.Join(all[len(all)-n:], "\n") {
		t.Errorf("b tells\n%q\nand a\n%q", theirs, all)
	}
	checkWalk(t, a, all)
	a.kill()
	b.kill()
}

const goldenOplog = `{ op: "n", ns: "", o: { msg: "initiating set" } }
{ op: "c", ns: "admin.$cmd", o: { create: "system.version", idIndex: { v: 2, key: { _id: 1 }, name: "_id_" } } }
{ op: "i", ns: "admin.system.version", o: { _id: "featureCompatibilityVersion", version: "8.0" }, o2: { _id: "featureCompatibilityVersion" } }
{ op: "c", ns: "d.$cmd", o: { create: "c", idIndex: { v: 2, key: { _id: 1 }, name: "_id_" } } }
{ op: "i", ns: "d.c", o: { _id: 0 }, o2: { _id: 0 } }
{ op: "i", ns: "d.c", o: { _id: 10 }, o2: { _id: 10 } }
{ op: "i", ns: "d.c", o: { _id: 11 }, o2: { _id: 11 } }
{ op: "i", ns: "d.c", o: { _id: 12 }, o2: { _id: 12 } }
{ op: "i", ns: "d.c", o: { _id: 13 }, o2: { _id: 13 } }
{ op: "i", ns: "d.c", o: { _id: 14 }, o2: { _id: 14 } }
{ op: "u", ns: "d.c", o: { $v: 2, diff: { i: { a: 1 } } }, o2: { _id: 10 } }
{ op: "u", ns: "d.c", o: { _id: 11, a: 1 }, o2: { _id: 11 } }
{ op: "d", ns: "d.c", o: { _id: 14 } }
{ op: "n", ns: "", o: { a: "note" } }
{ op: "i", ns: "d.c", o: { _id: 20 }, o2: { _id: 20 } }`

// checkWalk holds that every move of a walk, from and to everywhere and within all bounds, comes to
// what the list of all documents has there.
func checkWalk(t *testing.T, p *process, all []string) {
	key := func(i int) []byte { return []byte(all[i][:8]) }
	for i := range all {
		for _, j := range []int{i, (i + 3) % len(all), len(all) - 1} {
			if j < i {
				continue
			}
			if got := p.told(key(i), key(j)); strings.Join(got, "\n") != strings.Join(all[i:j], "\n") {
				t.Errorf("from %d to %d: %d documents", i, j, len(got))
			}
		}
	}
	it, err := p.Catalog().Lookup(schema.Oplog).Virtual().Walk(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, ok bool, i int) {
		t.Helper()
		switch {
		case ok != (i >= 0 && i < len(all)):
			t.Errorf("%s: found %v, and it is document %d", what, ok, i)
		case ok && at(t, it) != all[i]:
			t.Errorf("%s: %s is not document %d", what, at(t, it), i)
		}
	}
	for i := range all {
		behind := append(bytes.Clone(key(i)), 0)
		expect("at or behind", it.SeekGE(key(i)), i)
		expect("the next", it.Next(), i+1)
		expect("at or behind", it.SeekGE(key(i)), i)
		expect("the one before", it.Prev(), i-1)
		expect("behind", it.SeekGE(behind), i+1)
		expect("before", it.SeekLT(key(i)), i-1)
		expect("at or before", it.SeekLT(behind), i)
		expect("the next", it.Next(), i+1)
	}
	expect("the first", it.First(), 0)
	expect("before the first", it.Prev(), -1)
	expect("the last", it.Last(), len(all)-1)
	for i := len(all) - 2; i >= 0; i-- {
		expect(fmt.Sprintf("back to %d", i), it.Prev(), i)
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTruncatedIsNotRead: between the truncation of the log and the end of the round that tells
// of it, nobody reads on behind the hole.
func TestTruncatedIsNotRead(t *testing.T) {
	ms := newMachines(t)
	a := ms.member("a:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	a.KeptStates().SetHistory(time.Hour)
	if _, err := a.insert(1); err != nil {
		t.Fatal(err)
	}
	kept, err := a.StateAt(0)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	all := a.told(nil, nil)
	place := []byte(all[len(all)-1][:8])
	if _, err := a.insert(2); err != nil {
		t.Fatal(err)
	}
	later := a.State().Applied
	if _, err := a.insert(3); err != nil {
		t.Fatal(err)
	}
	err = a.replica.Do(t.Context(), func(g *Group) error {
		if err := g.Truncate(later.Index); err != nil {
			return err
		}
		if s, err := a.StateAt(later.Time); !mongoerr.Is(err, mongoerr.SnapshotTooOld) {
			t.Errorf("a state without what was truncated is read: %v, %v", s, err)
		}
		if gone, err := a.Catalog().Lookup(schema.Oplog).Virtual().Gone(place); err != nil || !gone {
			t.Errorf("a reader goes on behind what was truncated: %v", err)
		}
		if same, err := kept.Unchanged(a.catalog.Engine().Applied()); err != nil || same {
			t.Errorf("nothing has changed since the state: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Who waits at the end hears of what is written, and where the log was truncated a
// reader is told that its place is gone.
func TestOplogWindow(t *testing.T) {
	ms := newMachines(t)
	ms.window = Window{Bytes: 16 << 10}
	a := ms.member("a:1", storage.NewMemFS())
	v := a.Catalog().Lookup(schema.Oplog).Virtual()
	if all := a.told(nil, nil); len(all) > 0 {
		t.Errorf("a member of no set tells %q", all)
	}
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(-1); err != nil {
		t.Fatal(err)
	}
	all := a.told(nil, nil)
	place := []byte(all[len(all)-1][:8])
	gone := func(key []byte) bool {
		t.Helper()
		is, err := v.Gone(key)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if gone(place) {
		t.Error("the last document is gone")
	}
	arrivals := v.Arrivals()
	for i := range int32(400) {
		if _, err := a.insert(i); err != nil {
			t.Fatal(err)
		}
	}
	<-arrivals
	until(t, "the place is gone", func() bool { return gone(place) })
	all = a.told(nil, nil)
	if first := []byte(all[0][:8]); gone(first) || bytes.Compare(first, place) <= 0 {
		t.Errorf("it begins at %x, and %x is gone", first, place)
	}
	if got := a.told(place, nil); len(got) != len(all) {
		t.Errorf("from a place on that is gone %d of %d documents", len(got), len(all))
	}
	entries, size, most := v.Size()
	if entries < int64(len(all)) || size <= 0 || size > 17<<10 || most != 16<<10 {
		t.Errorf("%d entries, %d of %d bytes, %d documents", entries, size, most, len(all))
	}
	a.kill()
}
