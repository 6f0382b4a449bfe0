package repl

import (
	"testing"
	"time"
)

// Strangers who try again and again fill no log: so many lines at once, and one more each
// second.
func TestRefusalLines(t *testing.T) {
	var r refusals
	now := time.Now()
	lines := func(n int) (written int) {
		for range n {
			if r.line(now) {
				written++
			}
		}
		return written
	}
	for _, c := range []struct {
		later time.Duration
		want  int
	}{{0, maxRefusals}, {0, 0}, {refusalEvery / 2, 0}, {refusalEvery / 2, 1}, {3 * refusalEvery, 3}, {time.Hour, maxRefusals}} {
		now = now.Add(c.later)
		if n := lines(2 * maxRefusals); n != c.want {
			t.Errorf("%v later: %d lines, not %d", c.later, n, c.want)
		}
	}
}
