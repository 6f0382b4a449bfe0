package exec

import (
	"context"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// textOr sums up the weights of each document over the entries of all terms, and then
// reads the documents, in the order in which they were found.
type textOr struct {
	stats      stage.Stats
	inputs     []stage.Stage
	source     *source
	filter     *stage.Filter
	weightAt   int // where the weight stands in a key
	descending []bool
	scores     map[string]float64 // by record
	found      []string
	bytes      int
	reading    int // the input being read
	next       int // the next document
	closer     io.Closer
	memory     memory.Holding
}

func (b *builder) textOr(n *plan.TextOr) *textOr {
	s := &textOr{stats: stage.Stats{Node: n}, source: b.source, filter: stage.NewFilter(n.Filter, b.env), scores: map[string]float64{}, memory: b.source.hold()}
	s.descending = directions(n.Index)
	for i, p := range n.Index.Parts {
		if p.Path == schema.TextTerm {
			s.weightAt = i + 1
		}
	}
	for _, in := range n.Terms {
		s.inputs = append(s.inputs, b.build(in))
	}
	return s
}

func (s *textOr) Stats() *stage.Stats   { return &s.stats }
func (s *textOr) Inputs() []stage.Stage { return s.inputs }

func (s *textOr) release() {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
}

// save releases the document of the last row, which has been returned.
func (s *textOr) save() error { s.release(); return nil }

func (s *textOr) Close() error {
	s.release()
	s.scores, s.found = nil, nil
	s.memory.Release()
	var first error
	for _, in := range s.inputs {
		if err := in.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s *textOr) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	s.release()
	if s.reading < len(s.inputs) {
		if err := s.read(ctx); err != nil {
			return stage.EOF, err
		}
		return s.stats.Count(stage.NeedTime), nil
	}
	if s.next == len(s.found) {
		return s.stats.Count(stage.EOF), nil
	}
	record := s.found[s.next]
	s.next++
	doc, closer, err := s.source.fetch([]byte(record))
	if err != nil {
		return stage.EOF, err
	}
	if doc == nil {
		return s.stats.Count(stage.NeedTime), nil
	}
	s.closer = closer
	s.stats.DocsExamined++
	pass, err := s.filter.Match(doc)
	if err != nil || !pass {
		return s.stats.Count(stage.NeedTime), err
	}
	*row = stage.Row{Record: []byte(record), Doc: doc, Meta: &stage.Meta{Score: s.scores[record], Scored: true}}
	s.source.setDue(row)
	return s.stats.Count(stage.Advanced), nil
}

// read does one unit of work on the entries of a term.
func (s *textOr) read(ctx context.Context) error {
	var row stage.Row
	state, err := s.inputs[s.reading].Work(ctx, &row)
	switch {
	case err != nil:
		return err
	case state == stage.EOF:
		s.reading++
		return s.inputs[s.reading-1].Close() // there may be a hundred thousand of them
	case state == stage.NeedTime:
		return nil
	}
	values, _, err := keystring.Decode(row.Key, row.Bits, s.descending)
	if err != nil {
		return err
	}
	record := string(row.Record)
	if _, known := s.scores[record]; !known {
		s.found = append(s.found, record)
		s.bytes += 2*len(record) + textOverhead
		if s.bytes > extsort.MaxMemory {
			return mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "TEXT_OR exceeded memory limit of %d bytes", extsort.MaxMemory)
		}
		if err := s.memory.Set(s.bytes); err != nil {
			return err
		}
	}
	s.scores[record] += bson.ToDouble(values[s.weightAt])
	return nil
}

// textOverhead is the memory of a textOr for a document in addition to its record, in
// bytes.
const textOverhead = 80

// textMatch checks the parts of a text search that the index does not decide.
type textMatch struct {
	stats stage.Stats
	node  *plan.TextMatch
	input stage.Stage
	// rejected counts documents that had a term and do not match.
	rejected int64
}

func (s *textMatch) Stats() *stage.Stats   { return &s.stats }
func (s *textMatch) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *textMatch) Close() error          { return s.input.Close() }

func (s *textMatch) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	ok, err := s.node.Index.Text.MatchText(s.node.Query, row.Doc, true)
	if err != nil {
		return stage.EOF, err
	}
	if !ok {
		s.rejected++
		return s.stats.Count(stage.NeedTime), nil
	}
	return s.stats.Count(stage.Advanced), nil
}
