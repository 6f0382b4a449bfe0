package exec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/schema"
)

// walkAfter is how many consecutive records must be in ascending order before one
// iterator reads them, instead of a lookup each: entries with equal keys are in the
// order of their records, and times often ascend with _id.
const walkAfter = 8

// fetch reads the document of each row and filters it.
type fetch struct {
	stats    stage.Stats
	input    stage.Stage
	source   *source
	filter   *stage.Filter
	closer   io.Closer // of the document of the last row
	prefetch prefetch
	// skips is the skip over the first entries of the scan, until it is done.
	// Prefetching starts after it.
	skips *skip
	had   int64 // rows that came with their document from a stage below

	last   []byte // previous record
	rising int    // length of the ascending run
	walk   readahead.Walk
}

func (s *fetch) Stats() *stage.Stats   { return &s.stats }
func (s *fetch) Inputs() []stage.Stage { return []stage.Stage{s.input} }

func (s *fetch) release() {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
}

func (s *fetch) Close() error {
	s.release()
	s.prefetch.endBackground()
	s.prefetch.memory.Release()
	return errors.Join(s.walk.Close(), s.input.Close())
}

// read reads the document of a record, nil if it was removed.
func (s *fetch) read(record []byte) (bson.Doc, io.Closer, error) {
	if bytes.Compare(record, s.last) > 0 {
		s.rising++
	} else {
		s.rising = 0
		s.walk.Begin()
	}
	s.last = append(s.last[:0], record...)
	if s.rising < walkAfter {
		return s.source.fetch(record)
	}
	doc, err := s.readNext(record)
	return doc, nil, err
}

// readNext reads the document of a record after the previous one, nil if it was removed.
func (s *fetch) readNext(record []byte) (bson.Doc, error) {
	found, err := s.source.walk(&s.walk, record)
	if err != nil || !found {
		return nil, err
	}
	doc, err := s.walk.Iter.Value()
	if err != nil || s.source.isExpired(record, doc) {
		return nil, err
	}
	return doc, nil
}

// probeIndexes is the source's, where documents may be hidden.
func (s *fetch) probeIndexes(ctx context.Context) error {
	if s.source.checksDocuments() && s.source.mayHide() {
		return s.source.probeIndexes(ctx)
	}
	return nil
}

func (s *fetch) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	s.release()
	if s.source.checksDocuments() {
		if err := s.probeIndexes(ctx); err != nil {
			return stage.EOF, err
		}
	}
	ready := s.prefetch.ready()
	if !ready {
		if !s.prefetch.pending() && s.prefetch.Tail <= 1 {
			if err := s.fill(ctx); err != nil {
				return stage.EOF, err
			}
		}
		if s.prefetch.idle() {
			return s.stats.Count(stage.NeedTime), nil
		}
		ready = s.prefetch.pending()
	}
	if ready {
		if err := s.take(row); err != nil {
			return stage.EOF, err
		}
	} else if state, err := s.next(ctx, row); err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	s.prefetch.delivered++
	if row.Doc == nil {
		return s.stats.Count(stage.NeedTime), nil
	}
	s.prefetch.bytes += int64(len(row.Doc))
	s.stats.DocsExamined++
	pass, err := s.filter.Match(row.Doc)
	if err != nil || !pass {
		return s.stats.Count(stage.NeedTime), err
	}
	return s.stats.Count(stage.Advanced), nil
}

// next reads the next row of the input and its document, nil if that was removed.
func (s *fetch) next(ctx context.Context, row *stage.Row) (stage.State, error) {
	s.endBatch()
	state, err := s.input.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return state, err
	}
	if row.Doc != nil && row.Key == nil {
		s.had++
	}
	if row.Doc == nil {
		row.Doc, s.closer, err = s.read(row.Record)
		s.prefetch.Rising = s.rising >= walkAfter
		s.source.setDue(row)
		if err == nil && row.Parked && row.Doc != nil {
			var has bool
			if has, err = hasKey(row); !has {
				row.Doc = nil
			}
		}
		return state, err
	}
	s.prefetch.Rising = true
	if s.source.mayHide() {
		var hidden bool
		if hidden, err = s.source.isRowExpired(ctx, row); hidden {
			row.Doc = nil
		}
	}
	return state, err
}

// hasKey reports whether the document of a row still has the key by which it was found.
func hasKey(row *stage.Row) (bool, error) {
	keys, _, err := row.Index.Handle.(*catalog.Index).Keys(row.Doc, nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(keys, func(k schema.Key) bool { return bytes.Equal(k.Bytes, row.Key) }), nil
}

// idHack reads the one document with an _id.
type idHack struct {
	stats  stage.Stats
	source *source
	id     bson.Value
	record []byte
	memory [32]byte // of record, where that is short
	closer io.Closer
	done   bool
}

func (s *idHack) Stats() *stage.Stats   { return &s.stats }
func (s *idHack) Inputs() []stage.Stage { return nil }

func (s *idHack) Close() error {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
	return nil
}

func (s *idHack) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.done {
		return s.stats.Count(stage.EOF), nil
	}
	s.done = true
	record, doc, closer, err := s.source.byID(s.memory[:0], s.id)
	if err != nil || doc == nil {
		return s.stats.Count(stage.EOF), err
	}
	s.closer, s.record = closer, record
	s.stats.KeysExamined, s.stats.DocsExamined = 1, 1
	*row = stage.Row{Record: record, Doc: doc}
	s.source.setDue(row)
	return s.stats.Count(stage.Advanced), nil
}
