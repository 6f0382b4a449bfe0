package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// projection shapes each document.
type projection struct {
	stats Stats
	input Stage
	spec  *project.Projection
	env   *expr.Env
	meta  *metaReader
	buf   []byte
}

func (s *projection) Stats() *Stats   { return &s.stats }
func (s *projection) Inputs() []Stage { return []Stage{s.input} }
func (s *projection) Close() error    { return s.input.Close() }

func (s *projection) Work(ctx context.Context, row *Row) (State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil || state != Advanced {
		return s.stats.Count(state), err
	}
	s.meta.about(row)
	if s.buf, err = s.spec.Append(s.buf[:0], s.env, row.Doc); err != nil {
		return EOF, err
	}
	row.Doc = s.buf
	return s.stats.Count(Advanced), nil
}

// returnKey answers with the key of the index entry that led to each row, or
// with an empty document where no index did.
type returnKey struct {
	stats Stats
	input Stage
}

func (s *returnKey) Stats() *Stats   { return &s.stats }
func (s *returnKey) Inputs() []Stage { return []Stage{s.input} }
func (s *returnKey) Close() error    { return s.input.Close() }

func (s *returnKey) Work(ctx context.Context, row *Row) (State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil || state != Advanced {
		return s.stats.Count(state), err
	}
	if row.Doc, err = row.keyDocument(); err != nil {
		return EOF, err
	}
	return s.stats.Count(Advanced), nil
}

// keyDocument is the key of the index entry that led to the row, empty where no
// index did.
func (r *Row) keyDocument() (bson.Doc, error) {
	if r.Meta != nil && r.Meta.Key != nil {
		return r.Meta.Key, nil
	}
	if r.Index == nil || r.Key == nil || r.Index.Plugin == "text" { // a term is not what the index is on
		return bson.Empty, nil
	}
	values, _, err := keystring.Decode(r.Key, r.Bits, directions(r.Index))
	if err != nil {
		return nil, err
	}
	var b bson.Builder
	for i, p := range r.Index.Parts {
		b.Value(p.Path, values[i])
	}
	return b.Finish(), nil
}
