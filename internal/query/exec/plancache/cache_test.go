package plancache

import (
	"container/list"
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestCacheBytes holds that the plans of a collection take no more than they
// may, those used last among them.
func TestCacheBytes(t *testing.T) {
	var l Cache
	l.mu.entries = map[string]*list.Element{}
	big := bson.Doc(make([]byte, maxBytes/4))
	for i := range 10 {
		p := &Entry{Key: fmt.Sprint(i), Query: big}
		l.mu.entries[p.Key] = l.mu.order.PushFront(p)
		l.mu.bytes += p.Size()
		l.trimLocked()
	}
	if n := l.mu.order.Len(); n != 3 || len(l.mu.entries) != n || l.mu.entries["9"] == nil || l.mu.bytes > maxBytes {
		t.Errorf("%d entries of %d bytes", n, l.mu.bytes)
	}
}
