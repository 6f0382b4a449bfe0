package exec

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// walkAfter is how many records in a row must be asked for in rising order
// before they are read by one iterator that steps along, instead of a lookup
// each: entries with equal keys are in the order of their records, and times
// often rise with _id.
const walkAfter = 8

// fetch reads the document of each row and filters it.
type fetch struct {
	stats  Stats
	input  Stage
	source *source
	filter *filter
	closer io.Closer // of the document of the last row

	last   []byte // record asked for before
	rising int    // so many were above the one before
	walk   *storage.Iter
	along  bool // walk stands at last, or at the first record behind where that is gone
	misses int  // so many steps in a row did not reach the record
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
	return errors.Join(closeIter(&s.walk), s.input.Close())
}

// read reads the document of a record, nil where it is gone.
func (s *fetch) read(record []byte) (bson.Doc, io.Closer, error) {
	if bytes.Compare(record, s.last) > 0 {
		s.rising++
	} else {
		s.rising = 0
	}
	s.last = append(s.last[:0], record...)
	if s.rising < walkAfter {
		s.along = false
		return s.source.fetch(record)
	}
	if s.walk == nil {
		it, err := s.source.records(nil, nil)
		if err != nil {
			return nil, nil, err
		}
		s.walk = it
	}
	found := s.advance(record)
	s.along = true
	if !found {
		return nil, nil, s.walk.Err()
	}
	doc, err := s.walk.Value()
	if err != nil || s.source.hides(record, doc) {
		return nil, nil, err
	}
	return doc, nil, nil
}

// maxMisses is how many steps in vain are tried before the walk seeks each
// record.
const maxMisses = 4

// advance moves the walk to a record, and says whether that is there. The next
// record is often the next one that is there: a step costs less than a seek.
func (s *fetch) advance(record []byte) bool {
	if s.along && s.misses < maxMisses && s.walk.Valid() {
		c := bytes.Compare(s.walk.Key(), record)
		if c < 0 {
			if !s.walk.Next() {
				return false
			}
			c = bytes.Compare(s.walk.Key(), record)
		}
		if c >= 0 {
			s.misses = 0
			return c == 0
		}
		s.misses++
	}
	return s.walk.SeekGE(record) && bytes.Equal(s.walk.Key(), record)
}

func (s *fetch) Work(ctx context.Context, row *Row) (State, error) {
	s.release()
	if s.source.judges() && s.source.mayHide() {
		if err := s.source.learn(ctx); err != nil {
			return EOF, err
		}
	}
	state, err := s.input.Work(ctx, row)
	if err != nil || state != Advanced {
		return s.stats.count(state), err
	}
	if row.Doc == nil {
		doc, closer, err := s.read(row.Record)
		if err != nil {
			return EOF, err
		}
		if doc == nil {
			return s.stats.count(NeedTime), nil
		}
		row.Doc, s.closer = doc, closer
		s.source.judged(row)
	} else if s.source.mayHide() {
		if hidden, err := s.source.examine(ctx, row); err != nil || hidden {
			return s.stats.count(NeedTime), err
		}
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
