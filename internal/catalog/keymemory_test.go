package catalog

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestKeysTakeMemory writes a document whose keys are a thousand times its size
// where there is no memory for them: each write, and the build of an index, ends
// with 146 and changes nothing. With memory all go through.
func TestKeysTakeMemory(t *testing.T) { synctest.Test(t, keysTakeMemory) }

func keysTakeMemory(t *testing.T) {
	c := open(t, storage.NewMemFS())
	c.memory = memory.NewBudget(memory.MinBudget)
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	// scarce runs f while all but a little memory is another's.
	scarce := func(f func() error) error {
		var others memory.Account
		others.Open(c.memory)
		defer others.Close()
		held := others.Hold(nil)
		for n := memory.MinBudget; held.Set(n-1<<20) != nil; n -= 1 << 20 {
			continue
		}
		return f()
	}
	write := func(f func(u *Unit) error) error {
		var account memory.Account
		account.Open(c.memory)
		defer account.Close()
		u := c.Begin()
		u.Memory = account.Hold(nil)
		if err := f(u); err != nil {
			u.Abort()
			return err
		}
		return u.Commit(t.Context(), storage.Buffered)
	}
	var elements bson.Builder
	for i := range 1000 {
		elements.Int32(bson.Index(i), int32(i))
	}
	doc := new(bson.Builder).Int32("_id", 1).Value("a", bson.ArrayOf(elements.Finish())).String("b", strings.Repeat("b", 8000)).Finish()
	var key RecordKey
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"insert without an index", func() error {
			return write(func(u *Unit) error { return u.Insert(t.Context(), c.Lookup(ns), doc) })
		}},
		{"build", func() error {
			_, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"a": 1, "b": 1}, "name": "ab"}`))
			return err
		}},
		{"update", func() error {
			return write(func(u *Unit) error { return u.Update(t.Context(), c.Lookup(ns), key, doc, parse(t, `{"_id": 1}`)) })
		}},
		{"update back", func() error {
			return write(func(u *Unit) error { return u.Update(t.Context(), c.Lookup(ns), key, parse(t, `{"_id": 1}`), doc) })
		}},
		{"delete", func() error {
			return write(func(u *Unit) error { return u.Delete(t.Context(), c.Lookup(ns), key, doc) })
		}},
		{"insert", func() error {
			return write(func(u *Unit) error { return u.Insert(t.Context(), c.Lookup(ns), doc) })
		}},
	} {
		if err := scarce(step.run); key == nil && err != nil || key != nil && !mongoerr.Is(err, mongoerr.ExceededMemoryLimit) {
			t.Errorf("%s, without memory: %v", step.name, err)
		}
		mustValidate(t, c, c.Lookup(ns))
		if key == nil { // its keys are few
			keys, _ := records(t, c.engine, c.Lookup(ns))
			key = keys[0]
			continue
		}
		if err := step.run(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		mustValidate(t, c, c.Lookup(ns))
	}
	if n := c.memory.Stats().Operations.Held; n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}
