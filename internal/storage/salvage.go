package storage

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Each calls f with every key that can be read and its newest value, in the order of
// keyspaces and keys: the readable parts of all tables, and the logs before the first
// damage, merged as the store would. A key whose newest value cannot be read is
// among Losses afterwards. Where the store is Unlisted, sums may be too great: what a
// table has may be in another, too. f must not keep key and value. Errors: f's, ctx's, and
// those of the file system.
func (x *Examination) Each(ctx context.Context, f func(id Ident, key, value []byte) error) error {
	writes, spans, err := x.readLogs()
	if err != nil {
		return err
	}
	spans = append(spans, x.spans...)
	slices.SortFunc(spans, func(a, b span) int { return bytes.Compare(a.start, b.start) })
	m := &merge{ctx: ctx, losses: &x.Losses, spans: spans}
	m.sources = append(m.sources, &merging{source: &logSource{writes: writes}})
	for i := range x.parts {
		if p := &x.parts[i]; len(p.runs) > 0 {
			m.sources = append(m.sources, &merging{source: &tableSource{x: x, ctx: ctx, part: p}})
		}
	}
	defer m.close()
	return m.run(f)
}

// readLogs reads the writes of the logs, in the order of keys, the newest first.
func (x *Examination) readLogs() (writes []logWrite, spans []span, err error) {
	in := inspection{fs: x.fs, dir: x.dir}
	for _, l := range x.logs {
		b, err := in.read(l.name())
		if err != nil {
			return nil, nil, err
		}
		eachRecord(b, 0, l.valid, l.num, true, func(record []byte, _ int64) {
			eachWrite(bytes.Clone(record), func(w logWrite) {
				if w.kind == pebble.InternalKeyKindRangeDelete {
					spans = append(spans, span{w.key, w.value, w.seq})
					return
				}
				writes = append(writes, w)
			})
		})
	}
	slices.SortFunc(writes, func(a, b logWrite) int {
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(b.seq, a.seq)
	})
	return writes, spans, nil
}

// version is one version of a key.
type version struct {
	logWrite
	err error // why the value cannot be read
}

// source is a sequence of versions, in the order of keys, the newest of a key
// first.
type source interface {
	// next moves to the next version; nil at the end. It is valid until the next call.
	next() (*version, error)
	// lower is a key below which there is none.
	lower() []byte
	// age breaks ties between versions whose sequence numbers are lost: the greater
	// is the newer.
	age() uint64
	close() error
}

// logSource is the writes of all logs.
type logSource struct {
	writes []logWrite
	now    version
}

func (s *logSource) lower() []byte { return nil }
func (s *logSource) age() uint64   { return math.MaxUint64 }
func (s *logSource) close() error  { return nil }

func (s *logSource) next() (*version, error) {
	if len(s.writes) == 0 {
		return nil, nil
	}
	s.now.logWrite, s.writes = s.writes[0], s.writes[1:]
	return &s.now, nil
}

// tableSource reads a table, which is open from its first key to its last.
type tableSource struct {
	x     *Examination
	ctx   context.Context
	part  *tablePart
	t     *table
	it    sstable.Iterator
	run   int  // of the part, that is being read
	begun bool // the iterator stands in the run
	now   version
	buf   []byte
}

func (s *tableSource) lower() []byte { return s.part.smallest }
func (s *tableSource) age() uint64   { return s.part.file }

func (s *tableSource) next() (*version, error) {
	if s.t == nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	p := s.part
	for s.run < len(p.runs) {
		run := p.runs[s.run]
		found, err := s.step(run)
		if err != nil {
			return nil, err
		}
		if !found || run.to != nil && bytes.Compare(s.now.key, run.to) > 0 {
			s.run, s.begun = s.run+1, false
			continue
		}
		if !p.whole {
			if c := bytes.Compare(s.now.key, p.largest); c > 0 || c == 0 && p.exclusive {
				break
			}
		}
		return &s.now, nil
	}
	return nil, s.close()
}

func (s *tableSource) open() (err error) {
	if s.t, err = openTable(s.ctx, s.x.fs, s.x.dir, s.part.name); err != nil {
		return err
	}
	s.it, err = s.t.r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	return err
}

// step moves within a run, or to its first key; false at the end.
func (s *tableSource) step(run tableRun) (found bool, err error) {
	from := run.from
	if !s.part.whole && bytes.Compare(from, s.part.smallest) < 0 {
		from = s.part.smallest
	}
	k := seekOrNext(s.it.SeekGE, s.it.Next, from, s.begun)
	s.begun = true
	if k == nil {
		if run.to != nil {
			return false, nil // what follows cannot be read, which is known
		}
		return false, s.it.Error()
	}
	s.now.key = append(s.now.key[:0], k.K.UserKey...)
	s.now.seq, s.now.kind = max(uint64(k.SeqNum()), s.part.seq), k.Kind()
	s.now.value, _, s.now.err = k.Value(s.buf[:0])
	return true, nil
}

// seekOrNext moves an iterator; its result has a type of an internal package.
func seekOrNext[K any, Flags ~uint8](seek func([]byte, Flags) K, next func() K, from []byte, begun bool) K {
	if begun {
		return next()
	}
	return seek(from, 0)
}

func (s *tableSource) close() error {
	if s.t == nil {
		return nil
	}
	if s.it != nil {
		_ = s.it.Close() // its errors are known
	}
	err := s.t.close()
	s.it, s.t = nil, nil
	return err
}

// merge merges the versions of all sources with a heap.
type merge struct {
	ctx     context.Context
	losses  *[]Loss
	sources []*merging
	spans   []span // in the order of their starts
	active  []span // of those that have begun, which cover the key that is read
}

// merging is a source in the heap; now is nil until it is read.
type merging struct {
	source
	now *version
}

func (m *merge) Len() int      { return len(m.sources) }
func (m *merge) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }
func (m *merge) Push(any)      {}

func (m *merge) Pop() any {
	m.sources = m.sources[:len(m.sources)-1]
	return nil
}

func (m *merge) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	if c := bytes.Compare(a.key(), b.key()); c != 0 {
		return c < 0
	}
	switch {
	case a.now == nil || b.now == nil:
		return a.now == nil && b.now != nil
	case a.now.seq != b.now.seq:
		return a.now.seq > b.now.seq
	}
	return a.age() > b.age()
}

func (g *merging) key() []byte {
	if g.now == nil {
		return g.lower()
	}
	return g.now.key
}

// advance moves the first source to its next version, and restores the heap.
func (m *merge) advance() (err error) {
	g := m.sources[0]
	if g.now, err = g.next(); err != nil {
		return err
	}
	if g.now == nil {
		heap.Pop(m)
		return nil
	}
	heap.Fix(m, 0)
	return nil
}

// covered returns the greatest sequence number of a range deletion over a key.
// Keys must come in order.
func (m *merge) covered(key []byte) (seq uint64) {
	n := 0
	for n < len(m.spans) && bytes.Compare(m.spans[n].start, key) <= 0 {
		n++
	}
	m.active = append(m.active, m.spans[:n]...)
	m.spans = m.spans[n:]
	m.active = slices.DeleteFunc(m.active, func(s span) bool { return bytes.Compare(s.end, key) <= 0 })
	for _, s := range m.active {
		seq = max(seq, s.seq)
	}
	return seq
}

// run calls f with the newest value of each key.
func (m *merge) run(f func(id Ident, key, value []byte) error) error {
	heap.Init(m)
	var r resolver
	for n := 0; len(m.sources) > 0; n++ {
		if n%1000 == 0 && m.ctx.Err() != nil {
			return context.Cause(m.ctx)
		}
		if g := m.sources[0]; g.now != nil {
			if !r.begun || !bytes.Equal(r.key, g.now.key) {
				if err := m.emit(&r, f); err != nil {
					return err
				}
				r.begin(g.now.key, m.covered(g.now.key))
			}
			if err := r.add(g.now); err != nil {
				return err
			}
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	return m.emit(&r, f)
}

func (m *merge) emit(r *resolver, f func(id Ident, key, value []byte) error) error {
	id, key := splitKey(r.key)
	switch {
	case !r.begun:
		return nil
	case r.err != nil:
		*m.losses = append(*m.losses, Loss{Damage: Damage{Lost: r.err.Error()}, First: id, Last: id, Lower: bytes.Clone(key), Upper: bytes.Clone(key), Keys: true})
		return nil
	case r.merged != nil:
		return f(id, key, r.merged.value)
	case r.found:
		return f(id, key, r.value)
	}
	return nil
}

func (m *merge) close() {
	for _, g := range m.sources {
		_ = g.close() // it was only read
	}
}

// resolver finds the value of one key among its versions, the newest first.
type resolver struct {
	key, value []byte
	covered    uint64 // versions below were deleted with a range
	begun      bool
	found      bool // value is the key's
	done       bool // older versions do not count
	merged     *valueMerger
	last       uint64 // sequence number of the version before
	err        error
}

func (r *resolver) begin(key []byte, covered uint64) {
	*r = resolver{key: append(r.key[:0], key...), value: r.value[:0], covered: covered, begun: true, last: math.MaxUint64}
}

func (r *resolver) add(v *version) error {
	// What is both in a table and in its log comes twice.
	if r.done || v.seq > 0 && v.seq == r.last {
		return nil
	}
	r.last = v.seq
	if v.seq < r.covered {
		r.done = true
		return nil
	}
	switch v.kind {
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindSingleDelete:
		r.done = true
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete, pebble.InternalKeyKindMerge:
		if v.err != nil {
			r.err, r.done = v.err, true
			return nil
		}
		r.done = v.kind != pebble.InternalKeyKindMerge
		switch {
		case r.merged != nil:
			return r.merged.merge(v.value)
		case r.done:
			r.value, r.found = append(r.value, v.value...), true
		default:
			r.merged = &valueMerger{value: bytes.Clone(v.value)}
		}
	default:
		return fmt.Errorf("%w: a key has kind %d, which no unit writes", ErrCorruption, v.kind)
	}
	return nil
}
