package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestImport: documents of a range that is being received are stored with their entries in all
// indexes, and those whose _id is taken are not, whether the collection lies by its shard key or
// not. What is imported is large enough that members store it as tables, which the proof of
// effects compares.
func TestImport(t *testing.T) {
	for _, hashed := range []bool{true, false} {
		t.Run(fmt.Sprintf("hashed %t", hashed), func(t *testing.T) { testImport(t, hashed) })
	}
}

// openReceiving opens a catalog with an empty collection that is sharded by a key, all of whose
// ranges are being received.
func openReceiving(t *testing.T, ns schema.Namespace, key string) (*Catalog, *schema.ShardKey) {
	t.Helper()
	c := open(t, storage.NewMemFS())
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	k, err := schema.ParseShardKey(parse(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetSharding(t.Context(), ns, func(*Collection) (*schema.Sharding, error) {
		return &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1},
			Hidden: []schema.HiddenRange{{ShardRange: k.Whole(), Operation: 1, Receiving: true}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	return c, k
}

func testImport(t *testing.T, hashed bool) {
	ctx, ns := t.Context(), schema.Namespace{DB: "d", Coll: "c"}
	c, _ := openReceiving(t, ns, `{"k": "hashed"}`)
	if hashed {
		if err := c.LieByShardKey(ctx, ns); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.CreateIndexes(ctx, ns, specs(t, ns, `{"key": {"k": "hashed"}, "name": "k"}`, `{"key": {"a": 1}, "name": "a"}`, `{"key": {"k": 1, "u": 1}, "name": "u", "unique": true}`)); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	if coll.liesByShardKey() != hashed {
		t.Fatal("the collection does not lie as it should")
	}
	text := strings.Repeat("x", 2000)
	doc := func(id, k int) bson.Doc {
		return parse(t, fmt.Sprintf(`{"_id": %d, "k": %d, "a": [%d, "a%d"], "u": %d, "x": "%s"}`, id, k, id%7, id, id, text))
	}
	have := map[int32]string{}
	for batch := range 3 { // each begins with documents of the one before, with other keys
		var docs []bson.Doc
		var want []string
		for i := range 800 {
			id := batch*700 + i
			if i%50 == 49 { // twice in one batch
				id--
			}
			d := doc(id, i*(batch+1))
			docs = append(docs, d)
			if _, ok := have[int32(id)]; ok {
				want = append(want, d.String())
			} else {
				have[int32(id)] = d.String()
			}
		}
		var taken []bson.Doc
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) (err error) {
			u.Moving = true
			taken, err = u.Import(ctx, coll, docs)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range taken {
			got = append(got, d.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("batch %d: %d documents were taken, want %d", batch, len(got), len(want))
		}
	}
	mustValidate(t, c, coll)
	_, stored := records(t, c.engine, coll)
	for _, d := range stored {
		if want := have[bson.Doc(d).Lookup("_id").Int32()]; bson.Doc(d).String() != want {
			t.Fatalf("%s is stored, want %s", bson.Doc(d), want)
		}
	}
	if len(stored) != len(have) || coll.Count() != int64(len(have)) {
		t.Errorf("%d documents are stored, %d counted, want %d", len(stored), coll.Count(), len(have))
	}
}

// TestImportByHashOfID: of a collection that lies by the hash of _id one look at the records
// tells that none is taken; where something lies between them, and where the type of an _id
// does not say it, all are looked up.
func TestImportByHashOfID(t *testing.T) {
	ctx, ns := t.Context(), schema.Namespace{DB: "d", Coll: "c"}
	c, k := openReceiving(t, ns, `{"_id": "hashed"}`)
	if err := c.LieByShardKey(ctx, ns); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	place := func(d bson.Doc) string {
		at, err := k.Append(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		return string(at)
	}
	var all []bson.Doc
	for i := range 400 {
		all = append(all, parse(t, fmt.Sprintf(`{"_id": %d}`, i)))
	}
	slices.SortFunc(all, func(a, b bson.Doc) int { return strings.Compare(place(a), place(b)) })
	half := parse(t, `{"_id": 2.5}`)
	for _, s := range []struct {
		name  string
		docs  []bson.Doc
		taken int
	}{
		{"first", all[:100], 0},
		{"behind it", all[100:200], 0},
		{"the same again", all[100:200], 100},
		{"over the end", all[150:250], 50},
		{"around what is there", append(slices.Clone(all[300:301]), all[300:400]...), 1},
		{"a fraction", []bson.Doc{half}, 0},
		{"which is there as a decimal of another hash", []bson.Doc{parse(t, `{"_id": {"$numberDecimal": "2.5"}}`)}, 1},
		{"out of order", []bson.Doc{all[299], all[260], all[299]}, 1},
	} {
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
			u.Moving = true
			taken, err := u.Import(ctx, coll, s.docs)
			if len(taken) != s.taken {
				t.Errorf("%s: %d are taken, want %d", s.name, len(taken), s.taken)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	mustValidate(t, c, coll)
	if want := int64(250 + 100 + 1 + 2); coll.Count() != want {
		t.Errorf("%d documents, want %d", coll.Count(), want)
	}
}
