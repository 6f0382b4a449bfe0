package bson

// NumberSet is a set of numbers below one that Init says: the places of fields
// in a list. Up to 64 of them take no memory of their own.
type NumberSet struct {
	low  uint64
	more []bool
}

// Init empties the set and makes room for the numbers below n.
func (s *NumberSet) Init(n int) {
	*s = NumberSet{}
	if n > 64 {
		s.more = make([]bool, n)
	}
}

// Add puts i into the set.
func (s *NumberSet) Add(i int) {
	if s.more != nil {
		s.more[i] = true
	} else {
		s.low |= 1 << i
	}
}

// Has reports whether i is in the set.
func (s *NumberSet) Has(i int) bool {
	if s.more != nil {
		return s.more[i]
	}
	return s.low&(1<<i) != 0
}
