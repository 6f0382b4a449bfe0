package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// TestNumberingFollowed: on a member that follows, what is settled is visible, and
// nothing below it becomes so later.
func TestNumberingFollowed(t *testing.T) {
	var s Numbering
	s.Restart(100) // what was stored when it began
	var out strings.Builder
	for _, n := range []struct{ first, last, settled int64 }{
		{201, 202, 200}, // another one counts from 200 on
		{205, 206, 202}, // 203 and 204 are out
		{203, 204, 202},
		{209, 210, 208}, // 207 and 208 were taken in vain
		{212, 212, 210},
	} {
		s.follow(n.first, n.last, n.settled)
		fmt.Fprintf(&out, "%d-%d settled %d, latest %d, ahead %d\n", n.first, n.last, s.Settled(), s.Latest(), len(s.ahead))
	}
	if out.String() != `201-202 settled 202, latest 202, ahead 0
205-206 settled 202, latest 206, ahead 1
203-204 settled 206, latest 206, ahead 0
209-210 settled 210, latest 210, ahead 0
212-212 settled 210, latest 212, ahead 1
` {
		t.Errorf("got\n%s", out.String())
	}
	s.Restart(1000)
	first := s.Take(3)
	if first != 1001 || s.Settled() != 1000 {
		t.Errorf("counting from %d, %d is settled", first, s.Settled())
	}
	s.Done(first)
	if s.Settled() != 1003 {
		t.Errorf("%d is settled", s.Settled())
	}
}
