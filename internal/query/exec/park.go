package exec

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// A cursor that waits for its client is parked: it keeps its position but no snapshot.
// When it continues, it reads the current state, so it sees writes ahead of its
// position, as MongoDB's yielding cursors do.

// saver is a stage that holds resources of the store between two units of work: an
// iterator, or the bytes of a row that it has not returned yet.
type saver interface {
	// save releases them, and keeps copies of what the next unit of work needs. The
	// stage's source may read another state by then.
	save() error
}

// saveAll saves a tree of stages.
func saveAll(s stage.Stage) error {
	if s, ok := s.(saver); ok {
		if err := s.save(); err != nil {
			return err
		}
	}
	for _, in := range s.Inputs() {
		if err := saveAll(in); err != nil {
			return err
		}
	}
	return nil
}

// Park releases the store until Unpark. A cursor on an earlier state (Query.At) keeps
// reading that.
//
// A cursor over a collection whose documents move (Collection.Moves), or that
// is sharded, keeps its snapshot: what goes is still there for it.
func (c *Cursor) Park() error {
	if c.keeps = c.r.coll != nil && (c.r.coll.Moves() || c.r.coll.Sharding() != nil); c.keeps {
		return nil
	}
	if err := saveAll(c.r.winner.stage); err != nil {
		return err
	}
	c.r.hand.Shrink(len(c.row.Doc)) // it may not have fitted into the client's batch
	c.row = stage.Row{}
	if c.r.query.At == nil {
		c.r.release()
	}
	return nil
}

// Unpark takes the latest state of the store. Errors: 175 if the collection
// or an index that the plan reads is gone, 136 if a scan of a capped
// collection has lost its place.
func (c *Cursor) Unpark(ctx context.Context) error {
	r := c.r
	if r.coll != nil {
		if err := r.coll.Check(); err != nil {
			return err
		}
		if r.coll.IsTimeseries() {
			r.source.loadTimeseriesVisibility(r.x.Catalog, r.coll)
			return nil
		}
		c.arrivals = r.coll.Arrivals()
		if c.keeps {
			return nil
		}
		if err := r.coll.CheckTurns(r.source.turns); err != nil {
			return err
		}
		r.source.turns = r.coll.Turns()
	}
	var before catalog.Watermark
	if r.query.At == nil {
		if r.coll != nil {
			before = r.coll.Watermark()
		}
		r.snapshot = r.x.Catalog.Engine().NewSnapshot()
		r.source.reader = r.snapshot
	}
	r.source.pending = pendingVisibility{}
	r.source.loadVisibility(r.x.Catalog, before)
	if err := restoreAll(r.winner.stage); err != nil {
		return err
	}
	if c.tails() && r.winner.err == nil {
		r.winner.ended = false
	}
	return nil
}

// restorer is a stage that checks whether it can continue after save.
type restorer interface{ restore() error }

func restoreAll(s stage.Stage) error {
	if s, ok := s.(restorer); ok {
		if err := s.restore(); err != nil {
			return err
		}
	}
	for _, in := range s.Inputs() {
		if err := restoreAll(in); err != nil {
			return err
		}
	}
	return nil
}

// tails reports whether the plan may have more rows after its end.
func (c *Cursor) tails() bool {
	return c.r.query.Tailable && has(c.r.winner.node, func(n plan.Node) bool {
		s, ok := n.(*plan.CollScan)
		return ok && !s.Backward
	})
}

// Await returns when the collection may have documents that the cursor has not
// seen, or when ctx ends. REQUIRES: an Unpark before.
func (c *Cursor) Await(ctx context.Context) {
	if !invariant.Check(c.arrivals != nil, "exec: Await comes after Unpark") {
		return
	}
	select {
	case <-c.arrivals:
	case <-ctx.Done():
	}
}

// Exhausted reports whether the cursor knows, without another Next, that it is at
// its end.
func (c *Cursor) Exhausted() bool {
	r := &c.r.runner
	return r.at == len(r.candidate.rows) && (r.candidate.ended || exhausted(r.candidate.stage))
}

func exhausted(s stage.Stage) bool {
	switch s := s.(type) {
	case *limit:
		return s.n == 0 || exhausted(s.input)
	case *sorter:
		return s.loaded && s.rows.Done()
	case *idHack:
		return s.done
	case *or:
		return s.at == len(s.inputs)
	case *express:
		return s.done
	case *skip, *fetch, *projection, *returnKey, *subplan:
		return exhausted(s.Inputs()[0])
	}
	return s.Stats().EOF
}

// save keeps the position.
func (s *collScan) save() error {
	if s.it != nil && !s.node.Tailable && s.it.Valid() {
		s.last = append(s.last[:0], s.it.Key()...)
	}
	return closeIter(&s.it)
}

// restore checks that a scan of a capped collection can continue after the record that
// it has read last. If that was evicted, so may have been others that the scan would
// miss.
func (s *collScan) restore() error {
	if !s.source.coll.Capped || s.last == nil || s.source.coll.Virtual() != nil {
		return nil // of a virtual one begin asks, when it has its walk
	}
	doc, closer, err := s.source.stored(s.last)
	if err != nil {
		return err
	}
	if doc == nil {
		return mongoerr.New(mongoerr.CappedPositionLost,
			"CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId(%d)", layout.Sequence(s.last))
	}
	return closer.Close()
}

// resume moves past the saved position.
func (s *collScan) resume() bool {
	switch {
	case s.last == nil && s.node.Backward:
		return s.it.Last()
	case s.last == nil:
		return s.it.First()
	case s.node.Backward:
		return s.it.SeekLT(s.last)
	}
	return s.it.SeekGE(after(s.last))
}

// after returns the smallest key after key.
func after(key []byte) []byte { return append(bytes.Clone(key), 0) }

func (s *indexScan) save() error {
	switch {
	case s.it == nil:
	case s.it.Valid():
		value, err := s.it.Value()
		if err != nil {
			return err
		}
		key, _, _ := s.split(s.index.Handle.(*catalog.Index), value)
		s.place = append(s.place[:0], s.it.Key()...)
		s.placeKey, s.turns = len(key), s.source.turns
	default:
		s.ended = true
	}
	return closeIter(&s.it)
}

// restore checks that the index still exists. If it has become multikey, a document may
// have several entries, which do not cover it.
func (s *indexScan) restore() error {
	ix := s.index.Handle.(*catalog.Index)
	if err := ix.Check(); err != nil {
		return err
	}
	if !s.index.IsMultikey() && ix.Multikey().Any() {
		s.uncovered = s.cover != nil
		if s.seen == nil {
			s.seen = newDedup(s.source)
		}
	}
	return nil
}

// resume opens the iterator after the position that save or back has kept.
func (s *indexScan) resume() (bool, error) {
	it, err := s.open()
	if err != nil {
		return false, err
	}
	s.it = it
	s.stats.Seeks++
	place := s.place
	if s.again == s.backward {
		place = after(place)
	}
	s.again = false
	if handle := s.index.Handle.(*catalog.Index); s.turns != s.source.turns && !handle.IsID() {
		// An entry with the same key may have moved before the position.
		if place = s.place[:s.placeKey]; s.backward {
			place = keystring.Successor(bytes.Clone(place))
		}
	}
	s.turns = s.source.turns
	if s.backward {
		return it.SeekLT(place), nil
	}
	return it.SeekGE(place), nil
}

// back moves the scan back to just after an entry that it has returned, so that later
// entries are returned again; with again also the entry itself.
func (s *indexScan) back(key, record []byte, again bool) error {
	s.place, s.again = append(s.place[:0], key...), again
	s.placeKey, s.turns = len(key), s.source.turns
	if s.index.Handle.(*catalog.Index).ByPrefix == nil {
		s.place = append(s.place, record...)
	}
	s.ended, s.seek = false, nil
	return closeIter(&s.it)
}

// forget removes a record from those that the scan has returned.
func (s *indexScan) forget(record []byte) {
	if s.seen != nil {
		s.seen.forget(record)
	}
}

// save releases the document of the last row, which has been returned, and the
// prefetched ones. The input is saved after that.
func (s *fetch) save() error {
	s.release()
	return errors.Join(s.prefetch.drop(), s.walk.Close())
}

// save releases the document, which has been returned.
func (s *idHack) save() error { return s.Close() }
