package cosmos

import (
	"math"
	"slices"
	"testing"
)

// TestBounds: the texts of hashes have the order of the hashes, lie between the ends, and
// are read back.
func TestBounds(t *testing.T) {
	hashes := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -2, -1, 0, 1, 2, 1<<62 - 1, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	var texts []string
	for _, h := range hashes {
		text := boundText(h)
		texts = append(texts, text)
		if back, err := parseBound(text); err != nil || *back != h {
			t.Errorf("%d is %s, which is read as %v (%v)", h, text, back, err)
		}
		if text <= lowest || text >= highest || text[0] > '3' {
			t.Errorf("%d is %s, which is not between the ends", h, text)
		}
	}
	if !slices.IsSorted(texts) {
		t.Errorf("not in order: %v", texts)
	}
	for _, bad := range []string{"", "FF", "0", boundText(5)[:16] + "1", "4" + boundText(5)[1:], "x" + boundText(5)[1:]} {
		if h, err := parseBound(bad); err == nil {
			t.Errorf("%s is read as %d", bad, *h)
		}
	}
}
