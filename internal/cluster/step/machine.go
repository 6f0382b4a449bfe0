package step

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// State is an operation in progress, as one primary knows it. It is a value: the state
// that Step returns shares nothing with the one it was given.
type State struct {
	Operation
	// Got holds the replies to the requests of phase Trying.
	Got Answers
	// Cause is why the operation is undone, nil if it is not.
	Cause error

	stage   int
	seq     int32 // number of the last request of the phase
	asked   []Send
	writing Phase // the phase that is being written, or 0
	began   bool
	hurried bool
}

// Send is a request in flight, with its number in the fence.
type Send struct {
	Seq int32
	Request
}

// EventKind is a kind of event.
type EventKind uint8

// The events.
const (
	// Begin: a primary has created the operation, or found it.
	Begin EventKind = iota
	// Answered: a shard has answered the request Seq with Reply, or with Err, which
	// means that it has done nothing.
	Answered
	// Lost: the request Seq was not answered. It may have been executed, or may be later.
	Lost
	// Written: the requested write has happened. Told is the result of a commit.
	Written
	// Refused: the write cannot happen because of the contents of config.* (Err).
	Refused
	// Cancel: the operation is to be undone (Err) if that is still possible.
	Cancel
	// Hurry: the operation is not to wait until its commit is cheap.
	Hurry
)

// Event is one event.
type Event struct {
	Kind EventKind
	// Phase and Seq name the request that was answered or lost. A late answer to a request
	// of an earlier phase changes nothing.
	Phase Phase
	Seq   int32
	Reply bson.Doc
	Told  bson.Doc
	Err   error
}

// Action is what the driver does next: send requests, or write a phase.
type Action struct {
	Send []Send
	// Again says that the requests were sent before: the driver pauses first.
	Again bool
	// Write is the phase to write, or 0: Committed together with the change of config.*,
	// Undone, or Ended, which removes the document.
	Write Phase
}

// Step advances an operation by one event.
func Step(s State, e Event) (State, Action) {
	s.asked, s.Got = slices.Clone(s.asked), slices.Clip(s.Got)
	switch e.Kind {
	case Begin:
		if s.began {
			return s, Action{}
		}
		s.began = true
		return s.enter(0) // (invariant again)
	case Answered:
		return s.answered(e)
	case Lost:
		if i := s.find(e); i >= 0 {
			return s, Action{Send: s.asked[i : i+1 : i+1], Again: true}
		}
	case Written:
		return s.written(e)
	case Refused:
		if s.writing == Committed {
			return s.undo(e.Err)
		}
	case Cancel:
		if s.began && s.Phase == Trying && s.writing == 0 {
			return s.undo(e.Err)
		}
	case Hurry:
		s.hurried = true
	}
	return s, Action{}
}

// find returns the place in asked of the request that an event is about, -1 for none.
func (s *State) find(e Event) int {
	if e.Phase != s.Phase {
		return -1
	}
	return slices.IndexFunc(s.asked, func(a Send) bool { return a.Seq == e.Seq })
}

// enter sends the requests of the next stage that has any. After the last stage it
// requests the write that ends the phase (invariant one-write).
func (s State) enter(stage int) (State, Action) {
	of := plans[s.Kind][s.Phase]
	for s.stage = stage; s.stage < len(of); s.stage++ {
		requests := of[s.stage](&s.Operation, s.Got)
		if len(requests) == 0 {
			continue
		}
		for _, r := range requests {
			s.seq++ // (invariant fence)
			s.asked = append(s.asked, Send{s.seq, r})
		}
		return s, Action{Send: slices.Clone(s.asked)}
	}
	s.writing = Ended
	if s.Phase == Trying {
		s.writing = Committed
	}
	return s, Action{Write: s.writing}
}

// undo drops the requests in flight and requests the write of phase Undone.
func (s State) undo(cause error) (State, Action) {
	s.Cause, s.asked, s.writing = cause, nil, Undone
	return s, Action{Write: Undone}
}

func (s State) answered(e Event) (State, Action) {
	i := s.find(e)
	if i < 0 {
		return s, Action{}
	}
	r := s.asked[i]
	ready, err, accept := true, e.Err, r.ready
	if s.hurried && r.hurried != nil {
		accept = r.hurried
	}
	if r.unknown != nil && mongoerr.Is(err, mongoerr.CommandNotFound) {
		err = r.unknown()
	} else if err == nil && accept != nil {
		ready, err = accept(e.Reply)
	}
	switch {
	case err != nil && s.Phase == Trying:
		return s.undo(err)
	case err != nil, !ready: // (invariant forward)
		return s, Action{Send: []Send{r}, Again: true}
	}
	if s.Phase == Trying {
		s.Got = append(s.Got, Answer{Shard: r.Shard, Name: r.Name(), Reply: e.Reply.Clone()})
	}
	if s.asked = slices.Delete(s.asked, i, i+1); len(s.asked) > 0 {
		return s, Action{}
	}
	return s.enter(s.stage + 1)
}

func (s State) written(e Event) (State, Action) {
	if s.writing == 0 {
		return s, Action{}
	}
	if s.writing == Committed {
		s.Told = e.Told
	}
	s.Phase, s.writing, s.seq = s.writing, 0, 0
	if s.Phase == Ended {
		return s, Action{}
	}
	return s.enter(0)
}

// number is the integer field of a reply, 0 if it has none.
func number(d bson.Doc, name string) int64 {
	n, _ := bson.ExactInt64(d.Lookup(name))
	return n
}

// failure is the error of a shard's background work, as reported in a reply: failed is its
// text, code its code, 96 without one.
func failure(reply bson.Doc) error {
	if v := reply.Lookup("failed"); v.Type == bson.TypeString {
		code := mongoerr.OperationFailed
		if n := number(reply, "code"); n != 0 {
			code = mongoerr.Code(n)
		}
		return mongoerr.New(code, "%s", v.Str())
	}
	return nil
}
