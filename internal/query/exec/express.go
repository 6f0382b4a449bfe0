package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/query/plan"
)

// express is the short way to one document: a lookup and a projection in one
// stage.
type express struct {
	stats  Stats
	inputs [1]Stage
	done   bool
	read   idHack // the input of a lookup by _id without more to it
}

func (b *builder) express(n *plan.Express) Stage {
	var in Stage
	if n.Write != "" {
		return &wouldWrite{stats: Stats{Node: n}, input: &idHack{stats: Stats{Node: n}, source: b.source, id: n.ID}, kind: n.Write}
	}
	s := new(express)
	if b.memory != nil {
		s = &b.memory.express
	}
	*s = express{stats: Stats{Node: n}}
	if n.Scan != nil {
		in = b.build(n.Scan)
	} else {
		s.read = idHack{stats: Stats{Node: n}, source: b.source, id: n.ID}
		in = &s.read
	}
	if n.Projection != nil {
		in = &projection{stats: Stats{Node: n}, input: in, spec: n.Projection, env: b.env, meta: b.meta}
	}
	s.inputs[0] = in
	return s
}

func (s *express) Stats() *Stats   { return &s.stats }
func (s *express) Inputs() []Stage { return s.inputs[:] }
func (s *express) Close() error    { return s.inputs[0].Close() }

func (s *express) Work(ctx context.Context, row *Row) (State, error) {
	for !s.done {
		state, err := s.inputs[0].Work(ctx, row)
		if err != nil {
			return EOF, err
		}
		if state == NeedTime {
			continue
		}
		s.done = true
		if state == Advanced {
			return s.stats.Count(Advanced), nil
		}
	}
	return s.stats.Count(EOF), nil
}
