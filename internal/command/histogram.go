package command

import (
	"sort"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// histogramBounds are the lower bounds of a histogram's buckets, in microseconds, as in
// MongoDB: powers of two, and from 1 ms to 2 s also the midpoints between them.
var histogramBounds = func() (bounds []int64) {
	bounds = append(bounds, 0)
	for b := int64(2); b <= 1<<40; b *= 2 {
		bounds = append(bounds, b)
		if b >= 1<<11 && b < 1<<21 {
			bounds = append(bounds, b+b/2)
		}
	}
	return bounds
}()

// histogram counts operations by duration. The zero value is empty; the buckets are
// allocated with the first operation.
type histogram struct {
	total   latency
	buckets atomic.Pointer[[]atomic.Int64]
}

func (h *histogram) add(took time.Duration) {
	h.total.add(took)
	buckets := h.buckets.Load()
	if buckets == nil {
		fresh := make([]atomic.Int64, len(histogramBounds))
		h.buckets.CompareAndSwap(nil, &fresh)
		buckets = h.buckets.Load()
	}
	micros := max(0, took.Microseconds())
	at := sort.Search(len(histogramBounds), func(i int) bool { return histogramBounds[i] > micros }) - 1
	(*buckets)[at].Add(1)
}

// append writes the non-empty buckets as the array histogram.
func (h *histogram) append(b *bson.Builder) {
	b.OpenArray("histogram")
	if buckets := h.buckets.Load(); buckets != nil {
		n := 0
		for i := range *buckets {
			if count := (*buckets)[i].Load(); count > 0 {
				b.OpenDoc(bson.Index(n)).Int64("micros", histogramBounds[i]).Int64("count", count).Close()
				n++
			}
		}
	}
	b.Close()
}
