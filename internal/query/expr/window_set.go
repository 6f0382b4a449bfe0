package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

func init() {
	registerWindow("$addToSet", func(Accumulator) slidingState { return &slidingSet{} })
	registerWindow("$setUnion", func(Accumulator) slidingState { return &slidingSet{elements: true} })
}

// slidingSet is the distinct values of a sliding window, or the distinct
// elements of its arrays, in the order in which they came.
type slidingSet struct {
	elements    bool
	members     map[string]*member
	first, last *member
	key         []byte
	bytes       int
}

// member is a value of a set, how often it is in the window, and its
// neighbours.
type member struct {
	value          bson.Value
	count          int
	previous, next *member
}

// memberBytes is about what a member costs besides its key.
const memberBytes = 112

func (s *slidingSet) keyOf(env *Env, v bson.Value) []byte {
	s.key = keystring.Append(s.key[:0], v, false, env.Collator)
	return s.key
}

// each calls f for what v contributes.
func (s *slidingSet) each(v bson.Value, f func(bson.Value)) {
	switch {
	case v.IsMissing():
	case !s.elements:
		f(v)
	default:
		for it := v.Doc().Iter(); it.Next(); {
			f(it.Value)
		}
	}
}

func (s *slidingSet) add(env *Env, _ *queue, v bson.Value) error {
	if s.elements {
		if err := needArray("$setUnion", v); err != nil {
			return err
		}
	}
	s.each(v, func(x bson.Value) { s.insert(string(s.keyOf(env, x)), x) })
	return overBudget("$addToSet or $setUnion", s.bytes)
}

func (s *slidingSet) insert(key string, v bson.Value) {
	if m := s.members[key]; m != nil {
		m.count++
		return
	}
	if s.members == nil {
		s.members = map[string]*member{}
	}
	m := &member{value: v, count: 1, previous: s.last}
	if s.last != nil {
		s.last.next = m
	} else {
		s.first = m
	}
	s.last = m
	s.members[key] = m
	s.bytes += len(key) + memberBytes
}

func (s *slidingSet) remove(env *Env, _ *queue, v bson.Value) error {
	s.each(v, func(x bson.Value) { s.drop(string(s.keyOf(env, x))) })
	return nil
}

func (s *slidingSet) drop(key string) {
	m := s.members[key]
	if m.count--; m.count > 0 {
		return
	}
	if m.previous != nil {
		m.previous.next = m.next
	} else {
		s.first = m.next
	}
	if m.next != nil {
		m.next.previous = m.previous
	} else {
		s.last = m.previous
	}
	delete(s.members, key)
	s.bytes -= len(key) + memberBytes
}

func (s *slidingSet) result(*queue) (bson.Value, error) {
	var l list
	for m := s.first; m != nil; m = m.next {
		if err := l.append(nil, "$addToSet", m.value); err != nil {
			return bson.Value{}, err
		}
	}
	return l.value(), nil
}

func (s *slidingSet) size() int { return 96 + s.bytes }
