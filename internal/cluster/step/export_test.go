package step

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Plant has a plan leave out requests or, where told is not nil, tell shards before
// the commit; it returns what undoes that. It is for tests that show that a bug is
// found.
func Plant(kind string, leave func(o *Operation, p Phase, r Request) bool, told bson.Doc) (undo func()) {
	right, wrong := plans[kind], plan{}
	for p, of := range right {
		if p == Trying && told != nil {
			of = slices.Concat(of, right[Committed])
		}
		for _, f := range of {
			wrong[p] = append(wrong[p], func(o *Operation, got Answers) []Request {
				as := *o
				if told != nil {
					as.Told = told
				}
				return slices.DeleteFunc(f(&as, got), func(r Request) bool { return leave != nil && leave(o, p, r) })
			})
		}
	}
	plans[kind] = wrong
	return func() { plans[kind] = right }
}

// AppendText appends all of a state that distinguishes it.
func AppendText(b []byte, s State) []byte {
	b = append(b, byte(s.Phase), byte(s.stage), byte(s.seq), byte(s.writing), byte(len(s.Got)))
	for _, a := range s.asked {
		b = append(b, byte(a.Seq))
	}
	if s.Cause != nil {
		b = append(b, 'c')
	}
	return append(b, '|')
}

// Asks says whether the request seq is under way.
func Asks(s State, seq int32) bool { return s.find(Event{Phase: s.Phase, Seq: seq}) >= 0 }
