package catalog

import "sync"

// Numbering numbers the writes of a collection, for code that keeps their order
// elsewhere, such as a change feed. A number is taken before its write commits. All
// writes below the lowest number still out are visible.
//
// One member hands out numbers. The others follow by the effects (numberedNote), which
// say what has become visible and up to where no number is out; a member begins to hand
// them out with Restart. The zero Numbering is ready for use.
type Numbering struct {
	mu   sync.Mutex
	last int64
	out  map[int64]struct{}

	// following is the state while another member hands out numbers: those up to floor
	// are settled; ahead has the visible ones above it, by their first number.
	following bool
	floor     int64
	ahead     map[int64]int64
	applied   int64 // the greatest number that has become visible
}

// Restart makes last the greatest number handed out, unless it is greater already. No
// number is out afterwards.
func (s *Numbering) Restart(last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.out, s.following, s.ahead = max(s.last, last), nil, false, nil
}

// Skip makes last the greatest number handed out, unless it is greater already, on a member
// that hands them out from now on at the latest. Numbers that are out stay so.
func (s *Numbering) Skip(last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, last)
	if s.following {
		s.out, s.following, s.ahead = nil, false, nil
	}
}

// Take hands out n numbers and returns the first.
func (s *Numbering) Take(n int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		s.out = map[int64]struct{}{}
	}
	first := s.last + 1
	s.last += int64(n)
	s.out[first] = struct{}{}
	return first
}

// Done returns the numbers from Take: the write is visible, or has failed.
func (s *Numbering) Done(first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, first)
}

// Settled returns the number up to which nothing more becomes visible.
func (s *Numbering) Settled() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following {
		return s.floor
	}
	n := s.last
	for first := range s.out {
		n = min(n, first-1)
	}
	return n
}

// Latest returns the greatest number handed out.
func (s *Numbering) Latest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// follow notes that another member's write of the numbers from first to last is
// visible, and that those up to settled are settled.
func (s *Numbering) follow(first, last, settled int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.following {
		s.following, s.floor, s.out, s.ahead = true, settled, nil, map[int64]int64{}
	}
	s.last, s.floor = max(s.last, last), max(s.floor, settled)
	s.ahead[first] = last
	for first, last := range s.ahead {
		if last <= s.floor {
			delete(s.ahead, first)
		}
	}
	for last, ok := s.ahead[s.floor+1]; ok; last, ok = s.ahead[s.floor+1] {
		delete(s.ahead, s.floor+1)
		s.floor = last
	}
}

// Numbering returns the collection's numbering of writes.
func (c *Collection) Numbering() *Numbering { return &c.live.numbering }

// Numbered says that the unit is the write of n numbers, from first on, of the
// collection's Numbering.
func (u *Unit) Numbered(c *Collection, first int64, n int) {
	u.e.note(&numberedNote{about: of(c), first: first, last: first + int64(n) - 1})
}

// numberedNote says which numbers of a collection's sequence are those of a unit.
type numberedNote struct {
	about
	first, last int64
	// In a decoded note: the number up to which no other write was in progress.
	settled int64
	foreign bool
}

func (n *numberedNote) kind() noteKind { return noteNumbered }
func (n *numberedNote) joins() bool    { return true }

func (n *numberedNote) apply(*Catalog) error {
	if n.l == nil {
		return errUnbound(&n.about, "the numbers")
	}
	s := &n.l.numbering
	if n.foreign {
		s.follow(n.first, n.last, n.settled)
	} else {
		s.Done(n.first)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = max(s.applied, n.last)
	return nil
}
