package server

import "testing"

// TestCollectorPercent: a small heap has Go's rule, a large one no room for a
// second cache, and a larger one never less room than a smaller.
func TestCollectorPercent(t *testing.T) {
	const mega = 1 << 20
	last := uint64(0)
	for live := uint64(mega); live < 1<<40; live += live/7 + 1 {
		p := collectorPercent(live)
		room := live * uint64(p) / 100
		switch {
		case p < 1:
			t.Errorf("%d MB live: %d %%", live/mega, p)
		case live <= heapFree && p != 100:
			t.Errorf("%d MB live: %d %%, not Go's own rule", live/mega, p)
		case room > heapFree+live/heapShare:
			t.Errorf("%d MB live: %d MB more", live/mega, room/mega)
		case room+live/100+1 < last: // whole parts of a hundred
			t.Errorf("%d MB live: %d MB more, where fewer had %d", live/mega, room/mega, last/mega)
		}
		last = room
	}
}
