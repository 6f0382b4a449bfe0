package catalog

import (
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestReadWindows reads windows and drops them with a row elsewhere: as they were read, and not if
// anything was written in them meanwhile, in whatever way (invariant read-window).
func TestReadWindows(t *testing.T) {
	const n, due = 100, 20 * windowWidthMS
	fits := func(bson.Doc) bool { return true }
	replace := func(t *testing.T, c *Catalog, coll *Collection, at int64) {
		err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
			record, old, err := u.LockID(t.Context(), coll, bson.Int32(3))
			if err != nil {
				return err
			}
			return u.Update(t.Context(), coll, record, old, new(bson.Builder).Int32("_id", 3).Date("at", at).String("x", "y").Finish())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, write := range map[string]func(t *testing.T, c *Catalog, coll *Collection){
		"nothing":       nil,
		"a new one":     func(t *testing.T, c *Catalog, coll *Collection) { insertDated(t, c, coll, n, n+1, windowWidthMS) },
		"a delete":      func(t *testing.T, c *Catalog, coll *Collection) { deleteDated(t, c, coll, 3) },
		"in place":      func(t *testing.T, c *Catalog, coll *Collection) { replace(t, c, coll, windowWidthMS) },
		"a later date":  func(t *testing.T, c *Catalog, coll *Collection) { replace(t, c, coll, 100*due) },
		"a date before": func(t *testing.T, c *Catalog, coll *Collection) { replace(t, c, coll, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			k, coll := openListing(t)
			c := k.c
			insertDated(t, c, coll, 0, n, windowWidthMS)
			insertDated(t, c, coll, 1000, 1001, 100*due)
			rows, err := c.Create(t.Context(), schema.Namespace{DB: "d", Coll: "rows"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			coll = coll.Latest()
			row := new(bson.Builder).Int32("_id", 1).Finish()
			read := func(write func(t *testing.T, c *Catalog, coll *Collection)) (Dropped, error) {
				r, err := c.ReadWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: due})
				if err != nil || r == nil {
					t.Fatal(r, err)
				}
				defer r.Close()
				if other, err := c.ReadWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: due}); other != nil || err != nil {
					t.Fatal("two read at once", err)
				}
				p, err := r.Next(1<<20, 1<<30, fits)
				if err != nil || p == nil {
					t.Fatal(p, err)
				}
				if next, err := r.Next(1<<20, 1<<30, fits); next != nil || err != nil {
					t.Fatal("there is more", err)
				}
				if write != nil {
					write(t, c, coll)
				}
				return r.Drop(t.Context(), p, nil, func(u *Unit) error { return u.Insert(t.Context(), rows, row) })
			}
			d, err := read(write)
			if write != nil {
				if !errors.Is(err, ErrWindowsWritten) || d.Docs != 0 || rows.Count() != 0 || len(k.told()) > 1 {
					t.Fatalf("%+v, %d rows, told %v: %v", d, rows.Count(), k.told(), err)
				}
				if d, err = read(nil); err != nil { // as it is now; what is not due moves first
					t.Fatal(err)
				}
			}
			want := map[string]int64{"a new one": n + 1, "a delete": n - 1, "a later date": n - 1}[name]
			if want == 0 {
				want = n
			}
			if err != nil || d.Docs != want || rows.Count() != 1 || coll.Count() != n+1+map[string]int64{"a new one": 1, "a delete": -1}[name]-want {
				t.Errorf("%+v, %d rows, %d left: %v", d, rows.Count(), coll.Count(), err)
			}
			mustValidate(t, c, coll)
		})
	}
}
