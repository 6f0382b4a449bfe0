package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/query/exec/stage"
)

// eof has no rows.
type eof struct{ stats stage.Stats }

func (s *eof) Stats() *stage.Stats   { return &s.stats }
func (s *eof) Inputs() []stage.Stage { return nil }
func (s *eof) Close() error          { return nil }
func (s *eof) Work(context.Context, *stage.Row) (stage.State, error) {
	return s.stats.Count(stage.EOF), nil
}

// skip skips the first n rows.
type skip struct {
	stats stage.Stats
	input stage.Stage
	n     int64
	// entries is the input if a fetch above reads it directly once all rows are skipped
	// (see fetch.skips); total is the original n.
	entries *indexScan
	total   int64
}

// Stats counts what passed, also what a fetch took from the scan itself.
func (s *skip) Stats() *stage.Stats {
	if s.entries != nil {
		in := s.entries.Stats()
		skipped := s.total - s.n
		s.stats.Works, s.stats.Advanced, s.stats.NeedTime, s.stats.EOF = in.Works, in.Advanced-skipped, in.NeedTime+skipped, in.EOF
	}
	return &s.stats
}

func (s *skip) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *skip) Close() error          { return s.input.Close() }

func (s *skip) Work(ctx context.Context, row *stage.Row) (state stage.State, err error) {
	if in, ok := s.input.(*sorter); ok && s.n > 0 && in.passes() {
		state, err = in.pass()
	} else {
		state, err = s.input.Work(ctx, row)
	}
	if err == nil && state == stage.Advanced && s.n > 0 {
		s.n--
		state = stage.NeedTime
	}
	return s.stats.Count(state), err
}

// limit ends after n rows.
type limit struct {
	stats stage.Stats
	input stage.Stage
	n     int64
}

func (s *limit) Stats() *stage.Stats   { return &s.stats }
func (s *limit) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *limit) Close() error          { return s.input.Close() }

func (s *limit) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.n == 0 {
		return s.stats.Count(stage.EOF), nil
	}
	state, err := s.input.Work(ctx, row)
	if state == stage.Advanced {
		s.n--
	}
	return s.stats.Count(state), err
}

// count counts its input, or returns a known count.
type count struct {
	stats       stage.Stats
	input       stage.Stage // nil: known holds the answer
	known       int64
	skip, limit int64 // limit 0: none
	n           int64
	done        bool
}

func (s *count) Stats() *stage.Stats { return &s.stats }

func (s *count) Inputs() []stage.Stage {
	if s.input == nil {
		return nil
	}
	return []stage.Stage{s.input}
}

func (s *count) Close() error {
	if s.input == nil {
		return nil
	}
	return s.input.Close()
}

func (s *count) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	switch {
	case s.done:
		return s.stats.Count(stage.EOF), nil
	case s.input == nil:
		s.n = max(s.known-s.skip, 0)
		if s.limit > 0 {
			s.n = min(s.n, s.limit)
		}
	case s.limit > 0 && s.n == s.limit:
	default:
		state, err := s.input.Work(ctx, row)
		if err != nil || state != stage.EOF {
			if state == stage.Advanced {
				if s.skip > 0 {
					s.skip--
				} else {
					s.n++
				}
			}
			return s.stats.Count(stage.NeedTime), err
		}
	}
	s.done = true
	return s.stats.Count(stage.EOF), nil
}
