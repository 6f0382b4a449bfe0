package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// projection applies a projection to each document.
type projection struct {
	stats stage.Stats
	input stage.Stage
	spec  *project.Projection
	env   *expr.Env
	meta  *metaReader
	buf   []byte
}

func (s *projection) Stats() *stage.Stats   { return &s.stats }
func (s *projection) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *projection) Close() error          { return s.input.Close() }

func (s *projection) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	s.meta.about(row)
	if s.buf, err = s.spec.Append(s.buf[:0], s.env, row.Doc); err != nil {
		return stage.EOF, err
	}
	row.Doc = s.buf
	return s.stats.Count(stage.Advanced), nil
}

// returnKey returns the index key of each row, or an empty document if the row came
// from no index.
type returnKey struct {
	stats stage.Stats
	input stage.Stage
}

func (s *returnKey) Stats() *stage.Stats   { return &s.stats }
func (s *returnKey) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *returnKey) Close() error          { return s.input.Close() }

func (s *returnKey) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	if row.Doc, err = keyDocument(row); err != nil {
		return stage.EOF, err
	}
	return s.stats.Count(stage.Advanced), nil
}

// keyDocument returns the index key of the row, empty if it came from no index.
func keyDocument(r *stage.Row) (bson.Doc, error) {
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
