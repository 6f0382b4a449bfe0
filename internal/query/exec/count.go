package exec

import "context"

// countScan counts the keys of one range; each unit of work is one of them, and
// the end counts as one that was examined, as on the server.
type countScan struct{ indexScan }

func (s *countScan) Work(ctx context.Context, row *Row) (State, error) {
	state, err := s.indexScan.Work(ctx, row)
	if state == EOF && err == nil && !s.ranges.none {
		s.stats.KeysExamined++
	}
	return state, err
}
