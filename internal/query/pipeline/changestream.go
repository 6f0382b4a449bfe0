package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ChangeStream is {$changeStream: …}, which a standalone refuses.
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

// Open fails with 40573.
func (s *ChangeStream) Open(Iterator, *Run) (Iterator, error) { return nil, errChangeStream }

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

func (s *splitLargeEvent) Open(Iterator, *Run) (Iterator, error) {
	return nil, errNoChangeStream(s)
}

func errNoChangeStream(s Stage) error {
	return mongoerr.New(mongoerr.IllegalOperation, "%s can only be used in a $changeStream pipeline", s.Name())
}
