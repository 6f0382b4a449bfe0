package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

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
		return s.stats.count(state), err
	}
	row.Doc = bson.Empty
	if row.Index == nil {
		return s.stats.count(Advanced), nil
	}
	values, _, err := keystring.Decode(row.Key, row.Bits, directions(row.Index))
	if err != nil {
		return EOF, err
	}
	var b bson.Builder
	for i, p := range row.Index.Parts {
		b.Value(p.Path, values[i])
	}
	row.Doc = b.Finish()
	return s.stats.count(Advanced), nil
}
