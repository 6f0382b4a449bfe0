package schema

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestHighestBound: documents with MaxKey in all fields are in the range that ends with the
// highest bound, which is stored as MaxKey in all fields.
func TestHighestBound(t *testing.T) {
	for _, tc := range []struct{ key, low, doc string }{
		{`{k: 1}`, `{k: 5}`, `{k: {"$maxKey": 1}}`},
		{`{k: 1, l: 1}`, `{k: {"$maxKey": 1}, l: 7}`, `{k: {"$maxKey": 1}, l: {"$maxKey": 1}}`},
		{`{h: "hashed", k: 1}`, `{h: {"$numberLong": "9223372036854775807"}, k: 5}`, ``},
	} {
		k, err := ParseShardKey(bson.MustParse(tc.key))
		if err != nil {
			t.Fatal(err)
		}
		low, ok := k.ParseBound(bson.MustParse(tc.low))
		high, okToo := k.ParseBound(k.Doc(k.Max()))
		if !ok || !okToo || high.Compare(k.Max()) != 0 || high.Compare(low) <= 0 {
			t.Errorf("%s: the highest bound is read as %x", tc.key, high.Key)
		}
		last := ShardRange{low, k.Max()}
		stored := new(bson.Builder).Doc("min", k.Doc(last.Min)).Doc("max", k.Doc(last.Max)).Finish()
		if r, ok := k.ParseRange(stored); !ok || !r.Same(last) || len(k.Whole().Without(r)) != 1 {
			t.Errorf("%s: the last range is read as %s", tc.key, stored)
		}
		if tc.doc == "" {
			continue
		}
		at, err := k.Append(nil, bson.MustParse(tc.doc))
		if err != nil || !last.Holds(at) || !k.Whole().Holds(at) || !(ShardRanges{{k.Min(), low}, last}).Hold(at) {
			t.Errorf("%s: the last range does not hold %s: %v", tc.key, tc.doc, err)
		}
		if b, err := k.BoundOf(bson.MustParse(tc.doc)); err != nil || b.Compare(k.Max()) != 0 {
			t.Errorf("%s: a range begins at %s: %v", tc.key, k.Doc(b), err)
		}
	}
}
