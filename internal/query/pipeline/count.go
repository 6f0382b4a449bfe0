package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Count is {$count: field}.
type Count struct{ Field string }

func parseCount(arg bson.Value, _ *parsing) (Stage, error) {
	switch {
	case arg.Type != bson.TypeString:
		return nil, mongoerr.New(40156, "the count field must be a non-empty string")
	case arg.Str() == "":
		return nil, mongoerr.New(40157, "the count field must be a non-empty string")
	case arg.Str() == "_id":
		return nil, mongoerr.New(9039800, "the count field cannot be '_id'")
	case arg.Str()[0] == '$':
		return nil, mongoerr.New(40158, "the count field cannot be a $-prefixed path")
	case strings.Contains(arg.Str(), "\x00"):
		return nil, mongoerr.New(40159, "the count field cannot contain a null byte")
	case strings.Contains(arg.Str(), "."):
		return nil, mongoerr.New(40160, "the count field cannot contain '.'")
	}
	return &Count{arg.Str()}, nil
}

// Name is the stage's name.
func (c *Count) Name() string { return "$count" }

// Serialize is the field.
func (c *Count) Serialize() bson.Value { return bson.String(c.Field) }

// Open counts the documents; none give no result.
func (c *Count) Open(in Iterator, r *Run) (Iterator, error) {
	return &counting{in: in, r: r, field: c.Field}, nil
}

type counting struct {
	in    Iterator
	r     *Run
	field string
	done  bool
}

func (c *counting) Close() { c.in.Close() }

func (c *counting) Next(ctx context.Context) (bson.Doc, error) {
	if c.done {
		return nil, nil
	}
	c.done = true
	n := int64(0)
	for {
		d, err := c.in.Next(ctx)
		if err != nil {
			return nil, err
		}
		if d == nil {
			break
		}
		if err := c.r.check(ctx); err != nil {
			return nil, err
		}
		n++
	}
	if n == 0 {
		return nil, nil
	}
	return new(bson.Builder).Int(c.field, n).Finish(), nil
}
