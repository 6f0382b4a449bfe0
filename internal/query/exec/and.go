package exec

import (
	"bytes"
	"context"
)

// andSorted answers with the records that all inputs have. They deliver
// theirs in the order of the records; one after the other is asked for the
// record at hand, and one that is beyond it says which is next.
//
// It saves nothing for a park: the record at hand is a copy, without document and
// key. An update or a delete between two batches may have taken it out of what an
// input has delivered already, so a fetch with all conditions of the query stands
// above (plan.AndSorted): it reads the document in the state of that moment.
type andSorted struct {
	stats  Stats
	inputs []Stage
	row    Row // the record at hand, where agreed > 0; its bytes are ours
	agreed int // how many inputs in a row have it
	at     int // the input that is asked next
}

func (s *andSorted) Stats() *Stats   { return &s.stats }
func (s *andSorted) Inputs() []Stage { return s.inputs }
func (s *andSorted) Close() error    { return closeAll(s.inputs) }

func (s *andSorted) Work(ctx context.Context, row *Row) (State, error) {
	var next Row
	state, err := s.inputs[s.at].Work(ctx, &next)
	if err != nil || state != Advanced {
		return s.stats.Count(state), err
	}
	c := 1
	if s.agreed > 0 {
		c = bytes.Compare(next.Record, s.row.Record)
	}
	switch {
	case c < 0: // it has to come nearer
		return s.stats.Count(NeedTime), nil
	case c == 0:
		s.agreed++
	default:
		next.Key, next.Bits, next.Index = nil, nil, nil
		s.row, s.agreed = next.clone(), 1
	}
	s.at = (s.at + 1) % len(s.inputs)
	if s.agreed < len(s.inputs) {
		return s.stats.Count(NeedTime), nil
	}
	*row, s.agreed = s.row, 0
	return s.stats.Count(Advanced), nil
}
