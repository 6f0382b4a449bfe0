package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/storage"
)

// TestApplyAll applies effects of each kind in runs of up to so many: at the end of each
// run the member is what the first one was then, and where its last effect was applied
// already, nothing happens.
func TestApplyAll(t *testing.T) {
	l := &logging{t: t}
	l.c = openLogging(t, l)
	for _, s := range eachNote() {
		if err := s.do(t, l.c); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	for most := 1; most <= len(l.effects); most++ {
		c := openLogging(t, l)
		for at := 0; at < len(l.effects); {
			n := min(most, len(l.effects)-at)
			run := make([]Logged, n)
			for i := range run {
				run[i].At.Index = uint64(at + i + 1)
			}
			for range 2 {
				for i := range run {
					var err error
					if run[i].Effect, err = c.Decode(l.effects[at+i]); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.ApplyAll(run); err != nil {
					t.Fatalf("%d effects from %d on: %v", n, at, err)
				}
			}
			at += n
			if got, want := liveState(t, c), l.states[at-1]; !slices.Equal(got, want) {
				t.Fatalf("after %d effects, %d at a time: the state is\n%s\nand should be\n%s", at, most, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if applied := c.engine.Applied(); applied != uint64(at) {
				t.Fatalf("after %d effects the store says %d", at, applied)
			}
		}
	}
}

// TestTogether holds which effects share a batch: those before and behind one that needs
// the store as it leaves it do not.
func TestTogether(t *testing.T) {
	c := open(t, storage.NewMemFS())
	u := c.engine.Begin()
	defer u.Abort()
	plain, alone := &Effect{c: c, u: u, notes: []note{&cappedNote{}, &executedNote{}}}, &Effect{c: c, u: u, notes: []note{&windowsNote{}}}
	all := []Logged{{Effect: plain}, {}, {Effect: plain}, {Effect: alone}, {Effect: alone}, {}, {Effect: plain}}
	var got []int
	for rest := all; len(rest) > 0; rest = rest[together(rest):] {
		got = append(got, together(rest))
	}
	if want := []int{3, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v together, not %v", got, want)
	}
}
