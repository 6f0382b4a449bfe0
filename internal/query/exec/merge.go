package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// sortMerge merges sorted inputs.
type sortMerge struct {
	stats   stage.Stats
	inputs  []stage.Stage
	heads   []head
	keys    *sortkey.Generator
	pattern sortkey.Pattern
	seen    *dedup // or nil
}

// head is the next row of an input.
type head struct {
	row   stage.Row
	key   []byte // in the order of the sort
	state headState
}

type headState uint8

const (
	headEmpty headState = iota // the next row must be read from the input
	headFull
	headEnded
)

func (s *sortMerge) Stats() *stage.Stats   { return &s.stats }
func (s *sortMerge) Inputs() []stage.Stage { return s.inputs }
func (s *sortMerge) Close() error          { return closeAll(s.inputs) }

// save keeps copies of the current rows, whose bytes are the inputs'. The later fetch
// of their documents checks whether these still have the keys.
func (s *sortMerge) save() error {
	for i := range s.heads {
		h := &s.heads[i]
		h.row = h.row.Clone()
		h.row.Parked = h.row.Index != nil
	}
	return nil
}

func (s *sortMerge) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	for i := range s.heads {
		if s.heads[i].state == headEmpty {
			return s.fill(ctx, i)
		}
	}
	best := -1
	for i := range s.heads {
		if s.heads[i].state == headFull && (best < 0 || bytes.Compare(s.heads[i].key, s.heads[best].key) < 0) {
			best = i
		}
	}
	if best < 0 {
		return s.stats.Count(stage.EOF), nil
	}
	s.heads[best].state = headEmpty
	*row = s.heads[best].row
	if s.seen != nil {
		s.stats.DupsTested++
		dup, err := s.seen.add(row.Record)
		if err != nil {
			return stage.EOF, err
		}
		if dup {
			s.stats.DupsDropped++
			return s.stats.Count(stage.NeedTime), nil
		}
	}
	return s.stats.Count(stage.Advanced), nil
}

// fill reads the next row of one input.
func (s *sortMerge) fill(ctx context.Context, i int) (stage.State, error) {
	h := &s.heads[i]
	state, err := s.inputs[i].Work(ctx, &h.row)
	if err != nil {
		return stage.EOF, err
	}
	switch state {
	case stage.Advanced:
		h.state = headFull
		h.key, err = s.sortKey(h.key[:0], &h.row)
	case stage.EOF:
		h.state = headEnded
	}
	return s.stats.Count(stage.NeedTime), err
}

// sortKey appends the bytes by which a row is ordered: parts of its index key, inverted
// if index and sort have opposite directions.
func (s *sortMerge) sortKey(dst []byte, row *stage.Row) ([]byte, error) {
	if row.Index == nil {
		return s.keys.Append(dst, row.Doc)
	}
	for _, want := range s.pattern.Parts {
		pos := 0
		for _, p := range row.Index.Parts {
			n := keystring.Skip(row.Key[pos:], p.Descending)
			if p.Path == want.Path {
				mark := len(dst)
				dst = append(dst, row.Key[pos:pos+n]...)
				if p.Descending != want.Descending {
					for j := mark; j < len(dst); j++ {
						dst[j] = ^dst[j]
					}
				}
				break
			}
			pos += n
		}
	}
	return dst, nil
}

// subplan returns the rows of a plan whose branches were planned one by one.
type subplan struct {
	stats stage.Stats
	input stage.Stage
}

func (s *subplan) Stats() *stage.Stats   { return &s.stats }
func (s *subplan) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *subplan) Close() error          { return s.input.Close() }

func (s *subplan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	return s.stats.Count(state), nil
}

// andSorted returns the records that all inputs have. The inputs are in the order of
// the records. Each in turn is advanced to the current record; an input that is past it
// determines the next one.
//
// It saves nothing for a park: the current record is a copy, without document and key.
// An update or a delete between two batches may have removed the record from what an
// input has returned already, so there is a fetch with all conditions of the query
// above (plan.AndSorted), which reads the document in the current state.
type andSorted struct {
	stats  stage.Stats
	inputs []stage.Stage
	row    stage.Row // the current record, if agreed > 0; a copy
	agreed int       // how many consecutive inputs have it
	at     int       // the next input to advance
}

func (s *andSorted) Stats() *stage.Stats   { return &s.stats }
func (s *andSorted) Inputs() []stage.Stage { return s.inputs }
func (s *andSorted) Close() error          { return closeAll(s.inputs) }

func (s *andSorted) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	var next stage.Row
	state, err := s.inputs[s.at].Work(ctx, &next)
	if err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	c := 1
	if s.agreed > 0 {
		c = bytes.Compare(next.Record, s.row.Record)
	}
	switch {
	case c < 0: // it has to advance further
		return s.stats.Count(stage.NeedTime), nil
	case c == 0:
		s.agreed++
	default:
		next.Key, next.Bits, next.Index = nil, nil, nil
		s.row, s.agreed = next.Clone(), 1
	}
	s.at = (s.at + 1) % len(s.inputs)
	if s.agreed < len(s.inputs) {
		return s.stats.Count(stage.NeedTime), nil
	}
	*row, s.agreed = s.row, 0
	return s.stats.Count(stage.Advanced), nil
}

// or returns the rows of its inputs, one input after the other, each record once.
type or struct {
	stats  stage.Stats
	inputs []stage.Stage
	at     int
	seen   *dedup
}

func (s *or) Stats() *stage.Stats   { return &s.stats }
func (s *or) Inputs() []stage.Stage { return s.inputs }
func (s *or) Close() error          { return closeAll(s.inputs) }

func closeAll(stages []stage.Stage) error {
	var first error
	for _, in := range stages {
		if err := in.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s *or) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.at == len(s.inputs) {
		return s.stats.Count(stage.EOF), nil
	}
	state, err := s.inputs[s.at].Work(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	switch state {
	case stage.EOF:
		if err := s.inputs[s.at].Close(); err != nil { // there may be tens of thousands
			return stage.EOF, err
		}
		s.at++
		if s.at < len(s.inputs) {
			state = stage.NeedTime
		}
	case stage.Advanced:
		s.stats.DupsTested++
		dup, err := s.seen.add(row.Record)
		if err != nil {
			return stage.EOF, err
		}
		if dup {
			s.stats.DupsDropped++
			state = stage.NeedTime
		}
	}
	return s.stats.Count(state), nil
}
