package timeseries

import (
	"math"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestFieldTwice holds that the first value of a field that a measurement has twice is the
// one that counts, in a bucket as in queries.
func TestFieldTwice(t *testing.T) {
	o := &schema.Timeseries{TimeField: "t", MetaField: "m", RoundingSeconds: 60, MaxSpanSeconds: 3600}
	at := bson.MustParseValue(`{"$date": "2024-01-01T00:00:00Z"}`)
	var ms []bson.Doc
	for i := range int32(3) {
		ms = append(ms, new(bson.Builder).Value("t", at).Int32("a", i).String("a", "b").Value("t", bson.Null).Finish())
	}
	b, err := Open(Pack(ID(0), Start(at.Date(), o), bson.Value{}, ms, o), o)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := b.Rows(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		got := rows.Doc(i)
		if !bson.Equal(got.Lookup("a"), m.Lookup("a")) || !bson.Equal(got.Lookup("t"), at) {
			t.Errorf("%s came back as %s", m, got)
		}
	}
}

// TestAcceptsFarTimes holds that no bucket is for times further apart than its span, also
// where the milliseconds between them are no int64.
func TestAcceptsFarTimes(t *testing.T) {
	o := &schema.Timeseries{MaxSpanSeconds: 3600}
	for _, x := range []struct {
		start, t int64
		want     bool
	}{
		{math.MinInt64, 0, false}, {math.MinInt64, math.MaxInt64, false}, {-1, math.MaxInt64, false},
		{math.MinInt64, math.MinInt64 + 3599999, true}, {math.MinInt64, math.MinInt64 + 3600000, false}, {math.MaxInt64 - 1, math.MaxInt64, true},
	} {
		if got := Accepts(x.start, x.t, o); got != x.want {
			t.Errorf("a bucket that begins at %d accepts %d: %v", x.start, x.t, got)
		}
	}
}
