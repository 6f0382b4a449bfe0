package exec

import (
	"context"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
)

// fetch reads the document of each row and filters it.
type fetch struct {
	stats  Stats
	input  Stage
	source *source
	filter *filter
	closer io.Closer // of the document of the last row
}

func (s *fetch) Stats() *Stats   { return &s.stats }
func (s *fetch) Inputs() []Stage { return []Stage{s.input} }

func (s *fetch) release() {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
}

func (s *fetch) Close() error {
	s.release()
	return s.input.Close()
}

func (s *fetch) Work(ctx context.Context, row *Row) (State, error) {
	s.release()
	state, err := s.input.Work(ctx, row)
	if err != nil || state != Advanced {
		return s.stats.count(state), err
	}
	if row.Doc == nil {
		doc, closer, err := s.source.fetch(row.Record)
		if err != nil {
			return EOF, err
		}
		if doc == nil {
			return s.stats.count(NeedTime), nil
		}
		row.Doc, s.closer = doc, closer
		s.source.judged(row)
	} else if h := s.source.hiding; h != nil {
		if h.hides(row.Doc) {
			return s.stats.count(NeedTime), nil
		}
		row.due = h.due
	}
	s.stats.DocsExamined++
	pass, err := s.filter.match(row.Doc)
	if err != nil || !pass {
		return s.stats.count(NeedTime), err
	}
	return s.stats.count(Advanced), nil
}

// idHack reads the one document with an _id.
type idHack struct {
	stats  Stats
	source *source
	id     bson.Value
	record []byte
	memory [32]byte // of record, where that is short
	closer io.Closer
	done   bool
}

func (s *idHack) Stats() *Stats   { return &s.stats }
func (s *idHack) Inputs() []Stage { return nil }

func (s *idHack) Close() error {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
	return nil
}

func (s *idHack) Work(ctx context.Context, row *Row) (State, error) {
	if s.done {
		return s.stats.count(EOF), nil
	}
	s.done = true
	record, doc, closer, err := s.source.byID(s.memory[:0], s.id)
	if err != nil || doc == nil {
		return s.stats.count(EOF), err
	}
	s.closer, s.record = closer, record
	s.stats.KeysExamined, s.stats.DocsExamined = 1, 1
	*row = Row{Record: record, Doc: doc}
	s.source.judged(row)
	return s.stats.count(Advanced), nil
}
