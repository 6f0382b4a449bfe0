package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/query/plan"
)

// express is the short way to one document: a lookup and a projection in one
// stage.
type express struct {
	stats Stats
	input Stage
	done  bool
}

func (b *builder) express(n *plan.Express) Stage {
	var in Stage
	if n.Write != "" {
		return &wouldWrite{stats: Stats{Node: n}, input: &idHack{stats: Stats{Node: n}, source: b.source, id: n.ID}, kind: n.Write}
	}
	if n.Scan != nil {
		in = b.build(n.Scan)
	} else {
		in = &idHack{stats: Stats{Node: n}, source: b.source, id: n.ID}
	}
	if n.Projection != nil {
		in = &projection{stats: Stats{Node: n}, input: in, spec: n.Projection, env: b.env, meta: b.meta}
	}
	return &express{stats: Stats{Node: n}, input: in}
}

func (s *express) Stats() *Stats   { return &s.stats }
func (s *express) Inputs() []Stage { return []Stage{s.input} }
func (s *express) Close() error    { return s.input.Close() }

func (s *express) Work(ctx context.Context, row *Row) (State, error) {
	for !s.done {
		state, err := s.input.Work(ctx, row)
		if err != nil {
			return EOF, err
		}
		if state == NeedTime {
			continue
		}
		s.done = true
		if state == Advanced {
			return s.stats.count(Advanced), nil
		}
	}
	return s.stats.count(EOF), nil
}
