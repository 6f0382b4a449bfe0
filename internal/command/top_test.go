package command

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestTopKeepsNoInvalidNames: a reply of top could not hold a name with a zero
// byte.
func TestTopKeepsNoInvalidNames(t *testing.T) {
	d := NewDispatcher(quiet())
	d.Registry.Register(&Command{Name: "names", Run: func(_ context.Context, op *Op) error {
		op.SetCollection(op.Body.Lookup("names").Str())
		return nil
	}})
	for _, name := range []string{"good", "bad\x00", ""} {
		body := new(bson.Builder).String("names", name).Finish()
		r := d.Dispatch(t.Context(), &Request{Client: &Client{}, DB: "db", Body: body})
		r.Release()
	}
	var b bson.Builder
	d.Top.Append(&b)
	if totals := b.Finish(); totals.Len() != 1 || !totals.Has("db.good") {
		t.Errorf("totals: %s", totals)
	}
}

// TestTopMakesRoom: among however many names, the newest is kept, and no more
// than the bound.
func TestTopMakesRoom(t *testing.T) {
	var top Top
	kept := func() (n int64) {
		top.collections.Range(func(any, any) bool { n++; return true })
		return n
	}
	for i := range maxTop + 100 {
		name := "db.c" + bson.Index(i)
		top.Scanned(name, false)
		if _, scans := top.Scans(name); scans != 1 {
			t.Fatalf("%s is not kept", name)
		}
	}
	if n := kept(); n > maxTop || n != top.count.Load() {
		t.Errorf("%d are kept, %d counted", n, top.count.Load())
	}
}
