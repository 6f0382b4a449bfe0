package pipeline

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Sort is {$sort: pattern}; a limit behind it may be joined to it.
type Sort struct {
	Pattern sortkey.Pattern
	Limit   int64 // 0: none
	keyed   bool  // a later stage reads {$meta: "sortKey"}
}

func parseSort(arg bson.Value, _ *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(15973, "the $sort key specification must be an object")
	}
	pattern, err := sortkey.Parse(arg.Doc())
	if err != nil {
		return nil, err
	}
	if arg.Doc().Has("$natural") {
		return nil, mongoerr.New(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
	}
	if pattern.IsEmpty() {
		return nil, mongoerr.New(15976, "$sort stage must have at least one sort key")
	}
	return &Sort{Pattern: pattern}, nil
}

// Name is the stage's name.
func (s *Sort) Name() string { return "$sort" }

// Serialize is the pattern, and the limit that was joined to the sort.
func (s *Sort) Serialize() bson.Value {
	b := new(bson.Builder).Doc("sortKey", s.Pattern.Spec())
	if s.Limit > 0 {
		b.Int64("limit", s.Limit)
	}
	return bson.Document(b.Finish())
}

// Open sorts all documents before it delivers the first.
func (s *Sort) Open(in Iterator, r *Run) (Iterator, error) {
	if s.keyed {
		r.Env.Meta = r.meta
	}
	return &sorting{in: in, r: r, keyed: s.keyed, keys: sortkey.NewGenerator(s.Pattern, r.Env.Collator, r.Env.Meta), rows: r.sorter(s.Limit)}, nil
}

type sorting struct {
	in     Iterator
	r      *Run
	keys   *sortkey.Generator
	rows   *extsort.Sorter
	loaded bool
	keyed  bool
}

func (s *sorting) Close() {
	s.in.Close()
	s.rows.Close()
}

func (s *sorting) load(ctx context.Context) error {
	var key []byte
	for {
		d, err := s.in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			return s.rows.Sort()
		}
		if key, err = s.keys.Append(key[:0], d); err != nil {
			return err
		}
		if err := s.r.check(ctx); err != nil {
			return err
		}
		about := s.r.Meta
		if s.keyed {
			if about, err = s.withKey(about, d); err != nil {
				return err
			}
		}
		if err := s.rows.Add(key, about, d); err != nil {
			return err
		}
	}
}

// withKey adds the sort key of d to its metadata.
func (s *sorting) withKey(about, d bson.Doc) (bson.Doc, error) {
	v, err := s.keys.Values(d)
	if err != nil {
		return nil, err
	}
	var b bson.Builder
	for name, known := range about.All() {
		if name != "sortKey" {
			b.Value(name, known)
		}
	}
	return b.Value("sortKey", v).Finish(), nil
}

func (s *sorting) Next(ctx context.Context) (bson.Doc, error) {
	if !s.loaded {
		s.loaded = true
		if err := s.load(ctx); err != nil {
			return nil, memoryError(err, "Sort")
		}
	}
	row, _, err := s.rows.Next()
	s.r.Meta = row.Record
	return row.Doc, err
}

// memoryError names the stage that ran out of memory.
func memoryError(err error, stage string) error {
	if errors.Is(err, extsort.ErrMemory) {
		return mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "%s exceeded memory limit of %d bytes, but did not opt in to external sorting. Aborting operation. Pass allowDiskUse:true to opt in.", stage, extsort.MaxMemory)
	}
	return err
}
