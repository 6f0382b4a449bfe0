package exec

import (
	"container/list"
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestTag holds that a sort gives back what its rows knew besides their document.
func TestTag(t *testing.T) {
	for _, m := range []*Meta{
		nil,
		{Score: 1.5, Scored: true},
		{Distance: 7, Point: bson.Document(new(bson.Builder).Double("x", 1).Finish())},
		{Key: new(bson.Builder).Int32("a", 1).Finish()},
	} {
		record, got := untag(m.tag([]byte("record")))
		if string(record) != "record" || fmt.Sprint(m == nil) != fmt.Sprint(got == nil) {
			t.Fatalf("%+v came back as %q, %+v", m, record, got)
		}
		if m != nil && (got.Score != m.Score || got.Scored != m.Scored || got.Distance != m.Distance || got.Point.String() != m.Point.String() || got.Key.String() != m.Key.String()) {
			t.Errorf("%+v came back as %+v", m, got)
		}
	}
}

// TestPlanCacheBytes holds that the plans of a collection take no more than they
// may, those used last among them.
func TestPlanCacheBytes(t *testing.T) {
	var l learned
	l.mu.entries = map[string]*list.Element{}
	big := bson.Doc(make([]byte, maxCachedBytes/4))
	for i := range 10 {
		p := &CachedPlan{Key: fmt.Sprint(i), Query: big}
		l.mu.entries[p.Key] = l.mu.order.PushFront(p)
		l.mu.bytes += p.Size()
		l.trimLocked()
	}
	if n := l.mu.order.Len(); n != 3 || len(l.mu.entries) != n || l.mu.entries["9"] == nil || l.mu.bytes > maxCachedBytes {
		t.Errorf("%d entries of %d bytes", n, l.mu.bytes)
	}
}
