package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// express is the fast path to one document: a lookup and a projection in one stage.
type express struct {
	stats  stage.Stats
	inputs [1]stage.Stage
	done   bool
	read   idHack // the input of a plain lookup by _id
}

func (b *builder) express(n *plan.Express) stage.Stage {
	var in stage.Stage
	if n.Write != "" {
		return &wouldWrite{stats: stage.Stats{Node: n}, input: &idHack{stats: stage.Stats{Node: n}, source: b.source, id: n.ID}, kind: n.Write}
	}
	s := new(express)
	if b.memory != nil {
		s = &b.memory.express
	}
	*s = express{stats: stage.Stats{Node: n}}
	if n.Scan != nil {
		in = b.build(n.Scan)
	} else {
		s.read = idHack{stats: stage.Stats{Node: n}, source: b.source, id: n.ID}
		in = &s.read
	}
	if n.Projection != nil {
		in = &projection{stats: stage.Stats{Node: n}, input: in, spec: n.Projection, env: b.env, meta: b.meta}
	}
	s.inputs[0] = in
	return s
}

func (s *express) Stats() *stage.Stats   { return &s.stats }
func (s *express) Inputs() []stage.Stage { return s.inputs[:] }
func (s *express) Close() error          { return s.inputs[0].Close() }

func (s *express) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	for !s.done {
		state, err := s.inputs[0].Work(ctx, row)
		if err != nil {
			return stage.EOF, err
		}
		if state == stage.NeedTime {
			continue
		}
		s.done = true
		if state == stage.Advanced {
			return s.stats.Count(stage.Advanced), nil
		}
	}
	return s.stats.Count(stage.EOF), nil
}
