package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// role is to whom a step happens; who that is shows when it begins.
type role uint8

const (
	thePrimary role = iota
	aSecondary
	anyMember
	roles
)

func (r role) String() string { return [...]string{"the primary", "a secondary", "any member"}[r] }

// step is one disturbance of a schedule.
type step struct {
	at, lasts time.Duration
	kind      *disturbance
	role      role
	strength  float64 // from 0 to 1
	luck      uint64  // what else is left to chance
}

func (s step) String() string {
	return fmt.Sprintf("%6.1f s: %s for %.1f s, %v, strength %.2f", s.at.Seconds(), s.kind.name, s.lasts.Seconds(), s.role, s.strength)
}

// schedule is what happens to a set.
type schedule []step

func (p schedule) String() string {
	lines := make([]string, len(p))
	for i, s := range p {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

// A step begins so long after the one before, and lasts so long, by chance. Steps overlap
// now and then; after all kinds have had their turn there is calm.
const (
	minGap, maxGap   = 2 * time.Second, 4 * time.Second
	minLast, maxLast = 300 * time.Millisecond, 4 * time.Second
	calm             = 4 * time.Second
)

// newSchedule makes the schedule of a seed: all kinds in an order by chance, and again.
func newSchedule(seed uint64, length time.Duration) (p schedule) {
	r := rand.New(rand.NewPCG(seed, 0))
	between := func(a, b time.Duration) time.Duration { return a + time.Duration(r.Int64N(int64(b-a))) }
	for at := time.Second; ; at += calm {
		for _, k := range r.Perm(len(disturbances)) {
			if at >= length {
				return p
			}
			p = append(p, step{at: at, lasts: between(minLast, maxLast), kind: &disturbances[k], role: role(r.IntN(int(roles))), strength: r.Float64(), luck: r.Uint64()})
			at += between(minGap, maxGap)
		}
	}
}

// run does what the schedule says.
func (p schedule) run(s *set) {
	begun := time.Now()
	var work sync.WaitGroup
	for _, st := range p {
		time.Sleep(time.Until(begun.Add(st.at)))
		if s.t.Failed() {
			break
		}
		work.Go(func() { st.run(s, begun) })
	}
	work.Wait()
}

// run does one step, on a member to whom nothing else happens at this moment.
func (st step) run(s *set, begun time.Time) {
	m, release := s.take(st)
	if m == nil {
		s.t.Logf("%6.1f s: %s: left out", time.Since(begun).Seconds(), st.kind.name)
		return
	}
	defer release()
	lift := st.kind.begin(s, m, st)
	if lift == nil {
		s.t.Logf("%6.1f s: %s: cannot be now", time.Since(begun).Seconds(), st.kind.name)
		return
	}
	s.t.Logf("%6.1f s: %s, member %d", time.Since(begun).Seconds(), st.kind.name, m.number)
	time.Sleep(st.lasts)
	lift()
}

// take finds a member for a step; for one that needs the primary it waits a while.
func (s *set) take(st step) (m *member, release func()) {
	primary := s.primary()
	for end := time.Now().Add(maxGap); primary == nil && st.role != anyMember && time.Now().Before(end); primary = s.primary() {
		time.Sleep(50 * time.Millisecond)
	}
	for i := range s.members {
		m := s.members[(int(st.luck%members)+i)%members]
		if st.role != anyMember && (m == primary) != (st.role == thePrimary) || st.kind.only != nil && !st.kind.only(m) {
			continue
		}
		if m.taken.CompareAndSwap(false, true) {
			return m, func() { m.taken.Store(false) }
		}
	}
	return nil, nil
}

// primary is the member that says it is the primary; nil where none does.
func (s *set) primary() *member {
	answers := make([]bool, members)
	var work sync.WaitGroup
	for i, m := range s.members {
		work.Go(func() {
			var h struct {
				Primary bool `bson:"isWritablePrimary"`
			}
			ctx, cancel := context.WithTimeout(s.t.Context(), 500*time.Millisecond)
			defer cancel()
			answers[i] = m.admin(ctx, &h, hello) == nil && h.Primary
		})
	}
	work.Wait()
	for i, yes := range answers {
		if yes {
			return s.members[i]
		}
	}
	return nil
}
