package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Limit is {$limit: N}.
type Limit struct{ N int64 }

// Skip is {$skip: N}.
type Skip struct{ N int64 }

func parseLimit(arg bson.Value, _ *parsing) (Stage, error) {
	n, err := wholeNumber("$limit", arg)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, mongoerr.New(15958, "the limit must be positive")
	}
	return &Limit{n}, nil
}

func parseSkip(arg bson.Value, _ *parsing) (Stage, error) {
	n, err := wholeNumber("$skip", arg)
	if err != nil {
		return nil, err
	}
	return &Skip{n}, nil
}

// wholeNumber reads a number that is not negative and has no fraction.
func wholeNumber(stage string, v bson.Value) (int64, error) {
	code := mongoerr.Code(5107200)
	if stage == "$limit" {
		code = 5107201
	}
	if !v.IsNumber() {
		return 0, mongoerr.New(code, "invalid argument to %s stage: Expected a number in: %s: %s", stage, stage, v)
	}
	n, ok := bson.ExactInt64(v)
	if !ok {
		return 0, mongoerr.New(code, "invalid argument to %s stage: Cannot represent as a 64-bit integer: %s: %s", stage, stage, v)
	}
	if n < 0 {
		return 0, mongoerr.New(code, "invalid argument to %s stage: Expected a non-negative number in: %s: %s", stage, stage, v)
	}
	return n, nil
}

// Name is the stage's name.
func (l *Limit) Name() string { return "$limit" }

// Serialize is the number.
func (l *Limit) Serialize() bson.Value { return bson.Int64(l.N) }

// Open ends after N documents.
func (l *Limit) Open(in Iterator, _ *Run) (Iterator, error) { return &limited{in, l.N}, nil }

type limited struct {
	in   Iterator
	left int64
}

func (l *limited) Close() { l.in.Close() }

func (l *limited) Next(ctx context.Context) (bson.Doc, error) {
	if l.left == 0 {
		return nil, nil
	}
	l.left--
	return l.in.Next(ctx)
}

// Name is the stage's name.
func (s *Skip) Name() string { return "$skip" }

// Serialize is the number.
func (s *Skip) Serialize() bson.Value { return bson.Int64(s.N) }

// Open leaves out the first N documents.
func (s *Skip) Open(in Iterator, r *Run) (Iterator, error) {
	left := s.N
	return &mapped{in, r, func(d bson.Doc) (bson.Doc, error) {
		if left > 0 {
			left--
			return nil, nil
		}
		return d, nil
	}}, nil
}
