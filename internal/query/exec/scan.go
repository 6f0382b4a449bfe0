package exec

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec/keyrange"
	"github.com/mayflydb/mayfly/internal/query/exec/readahead"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// collScan reads the records of a collection in order.
type collScan struct {
	stats  stage.Stats
	node   *plan.CollScan
	source *source
	filter *stage.Filter
	it     *storage.Iter
	lower  []byte
	upper  []byte
	none   bool              // the range between lower and upper is empty
	ranges []layout.KeyRange // still to be read, after the current one; see catalog's Ranges
	last   []byte            // the last record, if the scan may have to find its position again
}

func (s *collScan) Stats() *stage.Stats   { return &s.stats }
func (s *collScan) Inputs() []stage.Stage { return nil }

func (s *collScan) Close() error { return closeIter(&s.it) }

func closeIter(it **storage.Iter) error {
	if *it == nil {
		return nil
	}
	err := (*it).Close()
	*it = nil
	return err
}

func (s *collScan) move() (bool, error) {
	if s.it == nil {
		return s.begin()
	}
	if s.node.Backward && s.it.Prev() || !s.node.Backward && s.it.Next() {
		return true, nil
	}
	return s.nextRange(), nil
}

// begin opens the iterator at the scan's position.
func (s *collScan) begin() (bool, error) {
	lower, upper := s.lower, s.upper
	if s.ranges = s.source.coll.Ranges(s.node.Backward); len(s.ranges) > 1 {
		at := s.last
		if at == nil {
			at = lower
		}
		i := max(0, slices.IndexFunc(s.ranges, func(r layout.KeyRange) bool {
			return at != nil && bytes.Compare(at, r.From) >= 0 && (r.To == nil || bytes.Compare(at, r.To) < 0)
		}))
		if lower == nil || bytes.Compare(lower, s.ranges[i].From) < 0 {
			lower = s.ranges[i].From
		}
		upper = s.ranges[i].To
		s.ranges = s.ranges[i:]
	}
	s.ranges = s.ranges[1:]
	it, err := s.source.records(lower, upper)
	if err != nil {
		return false, err
	}
	s.it = it
	if v := s.source.coll.Virtual(); v != nil && s.last != nil {
		if err := s.restoreVirtual(v); err != nil {
			return false, err
		}
	}
	return s.resume() || s.nextRange(), nil
}

// nextRange moves to the first record of the next range that has some.
func (s *collScan) nextRange() bool {
	for len(s.ranges) > 0 && s.it.Err() == nil {
		s.it.SetBounds(s.ranges[0].From, s.ranges[0].To)
		s.ranges = s.ranges[1:]
		if s.node.Backward && s.it.Last() || !s.node.Backward && s.it.First() {
			return true
		}
	}
	return false
}

func (s *collScan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.none {
		return s.stats.Count(stage.EOF), nil
	}
	ok, err := s.move()
	if err != nil {
		return stage.EOF, err
	}
	if !ok {
		return s.stats.Count(stage.EOF), s.it.Err()
	}
	value, err := s.it.Value()
	if err != nil {
		return stage.EOF, err
	}
	s.stats.DocsExamined++
	row.Fill(s.it.Key(), value)
	if s.source.mayHide() {
		if hidden, err := s.source.isRowExpired(ctx, row); err != nil || hidden {
			return s.stats.Count(stage.NeedTime), err
		}
	}
	if s.node.Tailable {
		s.last = append(s.last[:0], row.Record...)
	}
	pass, err := s.filter.Match(row.Doc)
	if err != nil || !pass {
		return s.stats.Count(stage.NeedTime), err
	}
	return s.stats.Count(stage.Advanced), nil
}

// indexScan reads the entries of an index within bounds.
type indexScan struct {
	stats    stage.Stats
	index    *plan.Index
	backward bool
	ranges   *keyrange.Ranges
	source   *source
	cover    *cover // rebuilds documents from keys, or nil
	seen     *dedup // or nil
	it       *storage.Iter
	begun    bool
	ended    bool
	seek     []byte        // where the next step seeks to, or nil
	filter   *stage.Filter // on what cover rebuilds, or nil
	keyOnly  bool          // no stage above uses the rebuilt document
	last     bool          // no stage above reads the documents

	record    []byte       // memory for record keys
	keys      []schema.Key // and for those of a document
	place     []byte       // the entry that a saved scan was at
	placeKey  int          // the length of its key string
	turns     int          // the source's, when place was
	again     bool         // that entry is returned again
	uncovered bool         // cover is no longer valid
}

func (s *indexScan) Stats() *stage.Stats   { return &s.stats }
func (s *indexScan) Inputs() []stage.Stage { return nil }
func (s *indexScan) Close() error          { return closeIter(&s.it) }

// open makes the iterator. A scan of several ranges has no end of its own: it
// ends at the first key behind the last range, which it examines as the
// server's does.
func (s *indexScan) open() (*storage.Iter, error) {
	lower, upper := s.ranges.Lower, s.ranges.Upper
	if s.ranges.Exact {
		return s.source.entries(s.index, lower, upper)
	}
	if s.backward {
		return s.source.entries(s.index, nil, upper)
	}
	return s.source.entries(s.index, lower, nil)
}

func (s *indexScan) begin() (bool, error) {
	it, err := s.open()
	if err != nil {
		return false, err
	}
	s.it, s.begun = it, true
	s.stats.Seeks++
	if s.backward {
		return it.Last(), nil
	}
	return it.First(), nil
}

func (s *indexScan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.ranges.None || s.ended {
		return s.stats.Count(stage.EOF), nil
	}
	ok, err := s.step()
	if err != nil {
		return stage.EOF, err
	}
	if !ok {
		return s.stats.Count(stage.EOF), s.it.Err()
	}
	s.stats.KeysExamined++
	if s.ranges.Exact {
		return s.emit(ctx, row)
	}
	inside, seek := s.ranges.Check(s.it.Key(), s.backward)
	switch {
	case inside:
		return s.emit(ctx, row)
	case seek == nil:
		s.ended = true
		return s.stats.Count(stage.EOF), nil
	}
	s.seek = seek
	return s.stats.Count(stage.NeedTime), nil
}

// isPlain reports whether the scan returns every entry between its bounds unchanged.
func (s *indexScan) isPlain() bool {
	return s.ranges.Exact && !s.ranges.None && s.seen == nil && s.cover == nil && s.filter == nil && !s.last
}

// plainScan reads entries ahead from a scan that isPlain.
type plainScan struct {
	*indexScan
	low catalog.Gone // by which entries are dead
}

// plain returns the started scan as one to read ahead from.
func (s *indexScan) plain() plainScan { return plainScan{s, s.source.low} }

// Read adds entries to b until it has n, or size bytes of them, or there are no more.
// It skips dead ones.
func (s plainScan) Read(ctx context.Context, b *readahead.Batch, n, size int) error {
	ix, works := s.index.Handle.(*catalog.Index), uint32(0)
	for i := 1; !b.Has(n, size); i++ {
		if i%stage.CtxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ok, err := s.step()
		if err != nil {
			return err
		}
		if !ok {
			b.Tail = works + 1
			return s.it.Err()
		}
		value, err := s.it.Value()
		if err != nil {
			return err
		}
		key, record, bits := s.split(ix, value)
		if record == nil {
			return storage.ErrCorruption
		}
		if works++; !s.low.Dead(record) {
			b.Add(key, record, bits, works)
			works = 0
		}
	}
	return nil
}

// split splits the current entry into its parts.
func (s *indexScan) split(ix *catalog.Index, value []byte) (key, record, bits []byte) {
	key, record, bits, _ = s.source.split(&s.record, ix, s.it, value)
	return key, record, bits
}

// step moves to the next key to examine.
func (s *indexScan) step() (bool, error) {
	seek := s.seek
	s.seek = nil
	switch {
	case !s.begun:
		return s.begin()
	case s.it == nil:
		return s.resume()
	case seek != nil:
		s.stats.Seeks++
		if s.backward {
			return s.it.SeekLT(seek), nil
		}
		return s.it.SeekGE(seek), nil
	case s.backward:
		return s.it.Prev(), nil
	}
	return s.it.Next(), nil
}

func (s *indexScan) emit(ctx context.Context, row *stage.Row) (stage.State, error) {
	dead, err := s.source.entry(row, &s.record, s.index, s.it)
	if err != nil {
		return stage.EOF, err
	}
	if dead {
		s.stats.KeysExamined--
		return s.stats.Count(stage.NeedTime), nil
	}
	if s.seen != nil {
		s.stats.DupsTested++
		if dup, err := s.duplicate(row); err != nil || dup {
			s.stats.DupsDropped++
			return s.stats.Count(stage.NeedTime), err
		}
	}
	if s.cover != nil {
		exact := false
		if !s.uncovered {
			if row.Doc, exact, err = s.cover.document(row.Key, row.Bits); err != nil {
				return stage.EOF, err
			}
		}
		if !exact {
			if found, err := s.fetch(row); err != nil || !found {
				return s.stats.Count(stage.NeedTime), err
			}
		}
	}
	if s.filter != nil {
		if pass, err := s.filter.Match(row.Doc); err != nil || !pass {
			return s.stats.Count(stage.NeedTime), err
		}
	}
	if s.last && s.source.checksDocuments() && s.source.mayHide() {
		if seen, err := s.isVisible(ctx, row); err != nil || !seen {
			return s.stats.Count(stage.NeedTime), err
		}
	}
	if s.filter != nil && s.keyOnly && !s.uncovered {
		row.Doc = nil
	}
	return s.stats.Count(stage.Advanced), nil
}

// isVisible checks the document of a row that no stage above reads. If the index HasDocuments,
// it is already read.
func (s *indexScan) isVisible(ctx context.Context, row *stage.Row) (bool, error) {
	if s.cover == nil && s.index.Handle.(*catalog.Index).HasDocuments() {
		hidden, err := s.source.isRowExpired(ctx, row)
		return !hidden, err
	}
	if err := s.source.probeIndexes(ctx); err != nil {
		return false, err
	}
	if hidden, ok := s.source.visibility.isRecordExpired(row.Record); ok {
		s.source.setDue(row)
		return !hidden, nil
	}
	s.source.visibility.checked += readCost
	doc, closer, err := s.source.fetch(row.Record)
	if err != nil || doc == nil {
		return false, err
	}
	s.stats.DocsExamined++
	s.source.setDue(row)
	return true, closer.Close()
}

// fetch reads the document of a row whose key is not sufficient.
func (s *indexScan) fetch(row *stage.Row) (bool, error) {
	doc, closer, err := s.source.fetch(row.Record)
	if err != nil || doc == nil {
		return false, err
	}
	s.stats.DocsExamined++
	row.Doc = doc.Clone()
	return true, closer.Close()
}

// maxSeen bounds the record keys that one scan remembers, in bytes.
const maxSeen = 100 << 20

// dedup remembers the records that were already returned.
type dedup struct {
	seen  map[string]struct{}
	bytes int
	limit int
	own   bool // of one scan, from its beginning

	memory memory.Holding
}

// newDedup makes a dedup that uses the memory of the operation that reads s.
func newDedup(s *source) *dedup {
	return &dedup{seen: make(map[string]struct{}), limit: maxSeen, memory: s.hold()}
}

// add adds a record and reports whether it was there already: errDedupMemory if it was
// not and there is no memory for it.
func (d *dedup) add(record []byte) (bool, error) {
	if _, ok := d.seen[string(record)]; ok {
		return true, nil
	}
	if d.bytes+len(record)+32 > d.limit {
		return false, errDedupMemory
	}
	// An entry of a map takes about as much again.
	if err := d.memory.Set(2 * (d.bytes + len(record) + 32)); err != nil {
		return false, err
	}
	d.bytes += len(record) + 32
	d.seen[string(record)] = struct{}{}
	return false, nil
}

// forget removes a record.
func (d *dedup) forget(record []byte) {
	if _, ok := d.seen[string(record)]; ok {
		delete(d.seen, string(record))
		d.bytes -= len(record) + 32
	}
}

// countScan counts the keys of one range; each unit of work is one of them, and
// the end counts as one that was examined, as on the server.
type countScan struct{ indexScan }

func (s *countScan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	state, err := s.indexScan.Work(ctx, row)
	if state == stage.EOF && err == nil && !s.ranges.None {
		s.stats.KeysExamined++
	}
	return state, err
}

// duplicate reports whether the document of a row was returned before. If there are too
// many records to remember, the document itself decides: the scan returns it only with
// the first of its keys in scan order.
func (s *indexScan) duplicate(row *stage.Row) (bool, error) {
	dup, err := s.seen.add(row.Record)
	if err != errDedupMemory || !s.seen.own {
		return dup, err
	}
	doc, closer, err := s.source.stored(row.Record)
	if err != nil || doc == nil {
		return true, err
	}
	keys, _, err := s.index.Handle.(*catalog.Index).Form.Keys(doc, s.keys[:0])
	if err == nil {
		s.keys = keys
		dup = !bytes.Equal(s.first(keys), row.Key)
	}
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return dup, err
}

// first returns the first of sorted keys in scan order, nil for none.
func (s *indexScan) first(keys []schema.Key) []byte {
	inside := func(k schema.Key) bool {
		r := s.ranges
		if bytes.Compare(k.Bytes, r.Lower) < 0 || r.Upper != nil && bytes.Compare(k.Bytes, r.Upper) >= 0 {
			return false
		}
		in, _ := r.Check(k.Bytes, s.backward)
		return r.Exact || in
	}
	if s.backward {
		for _, k := range slices.Backward(keys) {
			if inside(k) {
				return k.Bytes
			}
		}
		return nil
	}
	if i := slices.IndexFunc(keys, inside); i >= 0 {
		return keys[i].Bytes
	}
	return nil
}
