package schema

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Places in arrays within arrays take no longer than the arrays are long: made
// for each element of each array, this document would have 100^6 keys.
func TestKeysOfNestedPlaces(t *testing.T) {
	nested := bson.Int32(7)
	for range 6 {
		list := make([]bson.Value, 100)
		for i := range list {
			list[i] = bson.Document(bson.Empty)
		}
		list[0] = nested
		nested = bson.Array(list...)
	}
	ix := testIndex(t, `{key: {"a.0.0.0.0.0.0": 1}}`)
	keys, _, err := ix.Keys(new(bson.Builder).Value("a", nested).Finish(), nil)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	plain, _, err := ix.Keys(parse(t, `{a: {"0": {"0": {"0": {"0": {"0": {"0": 7}}}}}}}`), nil)
	if err != nil || string(plain[0].Bytes) != string(keys[0].Bytes) {
		t.Fatalf("%x, not %x: %v", keys[0].Bytes, plain[0].Bytes, err)
	}
	_, _, err = ix.Keys(parse(t, `{a: [1, {"0": 2}]}`), nil)
	if !mongoerr.Is(err, 16746) || !strings.Contains(err.Error(), "'0'") {
		t.Fatal(err)
	}
}
