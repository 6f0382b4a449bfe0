package cosmos

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// TestEventsOf: shards send what is in the partition that is asked for, of a key of two values also
// what begins with the first, and what is about the collection.
func TestEventsOf(t *testing.T) {
	event := func(key ...bson.Value) bson.Doc {
		return new(bson.Builder).String("operationType", "insert").OpenDoc("documentKey").Value("_id", itemID(key, "i")).Close().Finish()
	}
	matches := func(f *match.Filter, d bson.Doc) bool {
		ok, err := f.Match(d)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	a, b, one := bson.String("a"), bson.String("b"), bson.Double(1)
	low, high := int64(-1<<62), int64(1<<62)
	for _, x := range []struct {
		name string
		key  []bson.Value
		in   keyRange
		is   []bson.Doc
		not  []bson.Doc
	}{
		{name: "a string", key: []bson.Value{a}, is: []bson.Doc{event(a)}, not: []bson.Doc{event(b), event(one), event(none), event(bson.Null)}},
		{name: "a number", key: []bson.Value{bson.Int32(1)}, is: []bson.Doc{event(one)}, not: []bson.Doc{event(a), event(none)}},
		{name: "no value", key: []bson.Value{none}, is: []bson.Doc{event(none)}, not: []bson.Doc{event(bson.Null), event(a)}},
		{name: "null", key: []bson.Value{bson.Null}, is: []bson.Doc{event(bson.Null)}, not: []bson.Doc{event(none), event(a)}},
		{name: "two values", key: []bson.Value{a, b}, is: []bson.Doc{event(a, b)}, not: []bson.Doc{event(a, a), event(b, b)}},
		{name: "the first of two", key: []bson.Value{a}, is: []bson.Doc{event(a, b), event(a, a)}, not: []bson.Doc{event(b, a)}},
		{name: "a range", in: keyRange{low: &low, high: &high}, is: nil},
	} {
		m, err := match.Parse(eventsOf(x.key, x.in), nil)
		if err != nil {
			t.Fatal(err)
		}
		x.is = append(x.is, bson.MustParse(`{operationType: "drop", ns: {db: "d", coll: "c"}}`))
		for _, d := range x.is {
			if !matches(m, d) {
				t.Errorf("%s: %s does not match %s", x.name, d, eventsOf(x.key, x.in))
			}
		}
		for _, d := range x.not {
			if matches(m, d) {
				t.Errorf("%s: %s matches %s", x.name, d, eventsOf(x.key, x.in))
			}
		}
	}
	if f := eventsOf(nil, keyRange{}); f != nil {
		t.Errorf("all: %s", f)
	}
}
