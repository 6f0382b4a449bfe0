package cosmos

import "sync"

// sequence numbers the writes of a container. A number is taken before its
// write commits and given back after; up to the lowest that is out, all writes
// are visible.
type sequence struct {
	mu   sync.Mutex
	last int64
	out  map[int64]struct{}
}

// take hands out n numbers and returns the first.
func (s *sequence) take(n int) int64 {
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

// done gives back what take returned: the write is visible, or has failed.
func (s *sequence) done(first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, first)
}

// settled is the number up to which nothing more becomes visible.
func (s *sequence) settled() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.last
	for first := range s.out {
		n = min(n, first-1)
	}
	return n
}

// latest is the greatest number handed out.
func (s *sequence) latest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
