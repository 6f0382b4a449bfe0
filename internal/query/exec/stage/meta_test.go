package stage

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestTag holds that a sort gives back what its rows knew apart from their document.
func TestTag(t *testing.T) {
	for _, m := range []*Meta{
		nil,
		{Score: 1.5, Scored: true},
		{Distance: 7, Point: bson.Document(new(bson.Builder).Double("x", 1).Finish())},
		{Key: new(bson.Builder).Int32("a", 1).Finish()},
	} {
		record, got := Untag(m.Tag([]byte("record")))
		if string(record) != "record" || fmt.Sprint(m == nil) != fmt.Sprint(got == nil) {
			t.Fatalf("%+v came back as %q, %+v", m, record, got)
		}
		if m != nil && (got.Score != m.Score || got.Scored != m.Scored || got.Distance != m.Distance || got.Point.String() != m.Point.String() || got.Key.String() != m.Key.String()) {
			t.Errorf("%+v came back as %+v", m, got)
		}
	}
}
