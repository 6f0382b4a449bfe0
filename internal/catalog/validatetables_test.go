package catalog

import (
	"context"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestFullValidationReadsTables flips a bit in each byte of each table of a collection whose
// blocks are all in the cache: a full validation names the file.
func TestFullValidationReadsTables(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	c := open(t, fs)
	coll, err := c.Create(ctx, schema.Namespace{DB: "d", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(c, coll, nil, parse(t, `{"_id": 1, "a": "x"}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Validate(ctx, coll, true); err != nil || !v.Valid {
		t.Fatalf("before: %v, %v", v, err)
	}
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		flipped++
		f, err := fs.OpenReadWrite(fs.PathJoin("db", name), "unspecified")
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		for at := range info.Size() {
			if _, err := f.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{b[0] ^ 4}, at); err != nil {
				t.Fatal(err)
			}
			v, err := c.Validate(ctx, coll, true)
			if err != nil {
				t.Fatal(err)
			}
			if v.Valid || !strings.Contains(strings.Join(v.Errors, "\n"), name) {
				t.Errorf("a bit of %s flipped at %d of %d: valid %v, errors %q", name, at, info.Size(), v.Valid, v.Errors)
			}
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
	}
	if flipped == 0 {
		t.Error("there is no table")
	}
}
