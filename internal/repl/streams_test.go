package repl

import (
	"testing"
	"time"
)

// Streams that are answered seldom never rest. More of them than may be answered one by one
// rest so long that all together are answered as often as is allowed; one that comes to them
// rests no longer than they do.
func TestStreamsRest(t *testing.T) {
	m := &Member{}
	m.SetMaxStreams(1000)
	m.SetAnswers(10_000)
	now := time.Now()
	const streams, second = 100, 1000
	var all [streams]*Stream
	for i := range all {
		all[i], _ = m.Follow(0)
	}
	for range 10 { // all are woken by one event, each 20 ms
		now = now.Add(20 * time.Millisecond)
		for _, f := range all {
			if until := f.Answered(now); until.After(now) {
				t.Fatalf("rests for %v, though there was room", until.Sub(now))
			}
		}
	}
	var rests [streams]time.Time
	answers := 0
	for range 10 * second { // as often as they may, for ten seconds
		now = now.Add(time.Millisecond)
		for i, f := range all {
			if rests[i].After(now) {
				continue
			}
			answers++
			if rests[i] = f.Answered(now); rests[i].Sub(now) > 20*time.Millisecond {
				t.Fatalf("rests for %v", rests[i].Sub(now))
			}
		}
	}
	if answers < 90_000 || answers > 101_000 {
		t.Errorf("%d answers in ten seconds", answers)
	}
}

// A stream whose reader does not wait until it has rested does not put the others off for long.
func TestStreamsRestBounded(t *testing.T) {
	m := &Member{}
	m.SetMaxStreams(2)
	m.SetAnswers(10)
	hasty, _ := m.Follow(0)
	now := time.Now()
	for range 60_000 {
		now = now.Add(time.Millisecond)
		hasty.Answered(now)
	}
	other, _ := m.Follow(0)
	if rest := other.Answered(now).Sub(now); rest > longestRest {
		t.Errorf("rests for %v", rest)
	}
	now = now.Add(2 * longestRest)
	if rest := other.Answered(now).Sub(now); rest > 0 {
		t.Errorf("rests for %v, though the hasty one is long over", rest)
	}
}
