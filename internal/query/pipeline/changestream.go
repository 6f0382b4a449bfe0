package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ChangeStream is {$changeStream: …}: the events of the log, which the World reads. A
// standalone has none.
type ChangeStream struct{ arg bson.Value }

func parseChangeStream(arg bson.Value, _ *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(6188500, "$changeStream stage expects a document as argument, found: %s", arg.Type)
	}
	return &ChangeStream{arg}, nil
}

func (s *ChangeStream) source() {}

// Name is the stage's name.
func (s *ChangeStream) Name() string { return "$changeStream" }

// Serialize is the argument.
func (s *ChangeStream) Serialize() bson.Value { return s.arg }

// Open asks the World.
func (s *ChangeStream) Open(_ Iterator, r *Run) (Iterator, error) {
	return r.World.Source(context.Background(), s.Name(), s.arg)
}

// streamed are the stages that may be behind $changeStream: they make at most one document
// of each, as it comes.
var streamed = map[string]bool{
	"$match": true, "$project": true, "$addFields": true, "$set": true, "$unset": true, "$replaceRoot": true, "$replaceWith": true,
	"$redact": true, "$changeStreamSplitLargeEvent": true,
}

// checkChangeStream checks a pipeline that begins with $changeStream, and that no other one
// splits events. Errors: 40573 where there is no log, 20 for the stages behind it.
func (p *Pipeline) checkChangeStream(o *Options) error {
	if len(p.Stages) == 0 {
		return nil
	}
	if _, ok := p.Stages[0].(*ChangeStream); !ok {
		for _, s := range p.Stages {
			if _, ok := s.(*splitLargeEvent); ok {
				return mongoerr.New(mongoerr.IllegalOperation, "%s can only be used in a $changeStream pipeline", s.Name())
			}
		}
		return nil
	}
	if !o.ChangeStreams {
		return errChangeStream
	}
	for _, s := range p.Stages[1:] {
		if !streamed[s.Name()] {
			return mongoerr.New(mongoerr.IllegalOperation, "%s is not permitted in a $changeStream pipeline", s.Name())
		}
	}
	return nil
}

// SplitsEvents reports whether the pipeline's last stage splits large events. What reads the
// pipeline does it, since it makes the tokens.
func (p *Pipeline) SplitsEvents() bool {
	if len(p.Stages) == 0 {
		return false
	}
	_, ok := p.Stages[len(p.Stages)-1].(*splitLargeEvent)
	return ok
}

var errChangeStream = mongoerr.New(40573, "The $changeStream stage is only supported on replica sets")

// parseSplitLargeEvent checks {$changeStreamSplitLargeEvent: {}}, which only a
// change stream may have.
func parseSplitLargeEvent(arg bson.Value, _ *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument || !arg.Doc().IsEmpty() {
		return nil, mongoerr.New(7182800, "$changeStreamSplitLargeEvent spec should be an empty object")
	}
	return &splitLargeEvent{arg}, nil
}

type splitLargeEvent struct{ arg bson.Value }

func (s *splitLargeEvent) Name() string          { return "$changeStreamSplitLargeEvent" }
func (s *splitLargeEvent) Serialize() bson.Value { return s.arg }

// Open lets the events through; see SplitsEvents.
func (s *splitLargeEvent) Open(in Iterator, _ *Run) (Iterator, error) { return in, nil }
