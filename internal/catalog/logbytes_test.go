package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// measuring is a Committer that counts the bytes of what it commits.
type measuring struct{ bytes int }

func (*measuring) Writable() error { return nil }

func (k *measuring) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	k.bytes = len(e.AppendEncoded(nil))
	return e.Commit(ctx, d)
}

// TestLogBytes holds how many bytes of log a write of documents of 289 bytes takes, each
// with an entry in one index: without operations, and with them. A document is there
// once.
func TestLogBytes(t *testing.T) {
	k := new(measuring)
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := Open(e, Options{Committer: k, Operations: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"n": 1}, "name": "n"}`)); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	id := int32(0)
	document := func(id int32, x string) bson.Doc {
		return new(bson.Builder).Int32("_id", id).Int32("n", id%16).String("text", strings.Repeat("x", 256)+x).Finish()
	}
	if n := len(document(0, "a")); n != 289 {
		t.Fatalf("a document has %d bytes", n)
	}
	insert := func(n int) func(u *Unit) error {
		return func(u *Unit) error {
			for range n {
				id++
				if err := u.Insert(t.Context(), coll, document(id, "a")); err != nil {
					return err
				}
			}
			return nil
		}
	}
	update := func(u *Unit) error {
		record, old, err := u.LockID(t.Context(), coll, bson.Int32(id))
		if err != nil {
			return err
		}
		return u.Update(t.Context(), coll, record, old, document(id, "b"))
	}
	remove := func(u *Unit) error {
		record, old, err := u.LockID(t.Context(), coll, bson.Int32(id))
		if err != nil {
			return err
		}
		id--
		return u.Delete(t.Context(), coll, record, old)
	}
	var out strings.Builder
	for _, s := range []struct {
		name string
		docs int
		do   func(u *Unit) error
	}{{"insert", 1, insert(1)}, {"insert 1000", 1000, insert(1000)}, {"update", 1, update}, {"delete", 1, remove}} {
		var bytes [2]int
		for i := range bytes {
			c.operations = i == 1
			if err := c.Run(t.Context(), storage.Buffered, s.do); err != nil {
				t.Fatal(err)
			}
			bytes[i] = k.bytes / s.docs
			if s.name == "update" { // back again
				c.operations = false
				if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
					record, old, err := u.LockID(t.Context(), coll, bson.Int32(id))
					if err != nil {
						return err
					}
					return u.Update(t.Context(), coll, record, old, document(id, "a"))
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		fmt.Fprintf(&out, "%s: %d, with operations %d\n", s.name, bytes[0], bytes[1])
	}
	const want = `insert: 341, with operations 371
insert 1000: 306, with operations 314
update: 320, with operations 355
delete: 54, with operations 97
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
