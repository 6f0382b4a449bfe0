package pipeline

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// Sample is {$sample: {size: N}}: N documents by chance.
type Sample struct{ Size int64 }

func parseSample(arg bson.Value, _ *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(28745, "the $sample stage specification must be an object")
	}
	size := bson.Value{}
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key != "size" {
			return nil, mongoerr.New(28748, "unrecognized option to $sample: %s", it.Key)
		}
		if !it.Value.IsNumber() {
			return nil, mongoerr.New(28746, "size argument to $sample must be a number")
		}
		size = it.Value
	}
	if size.IsMissing() {
		return nil, mongoerr.New(28749, "$sample stage must specify a size")
	}
	n := bson.ClampToInt64(size)
	if n <= 0 {
		return nil, mongoerr.New(28747, "size argument to $sample must be a positive integer")
	}
	return &Sample{n}, nil
}

// Name is the stage's name.
func (s *Sample) Name() string { return "$sample" }

// Serialize is the size.
func (s *Sample) Serialize() bson.Value {
	return bson.Document(new(bson.Builder).Int64("size", s.Size).Finish())
}

// Open sorts the documents by chance and keeps the first ones.
func (s *Sample) Open(in Iterator, r *Run) (Iterator, error) {
	return &sampling{in: in, r: r, rows: r.sorter(s.Size)}, nil
}

type sampling struct {
	in     Iterator
	r      *Run
	rows   *extsort.Sorter
	loaded bool
}

func (s *sampling) Close() {
	s.in.Close()
	s.rows.Close()
}

func (s *sampling) load(ctx context.Context) error {
	for {
		d, err := s.in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			return s.rows.Sort()
		}
		if err := s.r.check(ctx); err != nil {
			return err
		}
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], rand.Uint64())
		if err := s.rows.Add(key[:], s.r.Meta, d); err != nil {
			return memoryError(err, "$sample")
		}
	}
}

func (s *sampling) Next(ctx context.Context) (bson.Doc, error) {
	if !s.loaded {
		s.loaded = true
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	row, _, err := s.rows.Next()
	s.r.Meta = row.Record
	return row.Doc, err
}
