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

func testImport(t *testing.T, hashed bool) {
	c := open(t, storage.NewMemFS())
	ctx := t.Context()
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(ctx, ns, nil); err != nil {
		t.Fatal(err)
	}
	k, err := schema.ParseShardKey(parse(t, `{"k": "hashed"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetSharding(ctx, ns, func(*Collection) (*schema.Sharding, error) {
		return &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1},
			Hidden: []schema.HiddenRange{{ShardRange: k.Whole(), Operation: 1, Receiving: true}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
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
