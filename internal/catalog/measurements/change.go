package measurements

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Change is what a unit changes in a table. Only Show and Apply make the change,
// on the member whose unit it was and on any other one.
type Change interface {
	Kind() Kind
	// Append appends the encoding of the change, and Read reads it.
	Append(dst []byte) []byte
	Read(r *storage.EncodingReader)
	// Show makes the part that must be visible before the unit is. o are the
	// options of the collection.
	Show(t *Table, o *schema.Timeseries)
	// Apply makes the rest, once the unit is visible.
	Apply(t *Table, o *schema.Timeseries) error
}

// Kind is a kind of change. Its number is in the encoding of effects, and never
// reused.
type Kind uint8

// The kinds.
const (
	kindStaged Kind = iota
	kindFrozen
	kindFlushed
	kindReopened
	kindRest
	Kinds
)

// New returns an empty change of a kind below Kinds, for Read.
func (k Kind) New() Change {
	return [...]Change{&Staged{}, &Frozen{}, &Flushed{}, &Reopened{}, &Rest{}}[k]
}

// maxMetaDepth is how deep a meta value in a change may be.
const maxMetaDepth = 300

// atVisible is embedded in changes that do nothing before their unit is visible.
type atVisible struct{}

func (atVisible) Show(*Table, *schema.Timeseries) {}

// Staged says that the measurements of a record are staged.
type Staged struct {
	atVisible
	Number uint64 // of the record
	// Where the change was not read: the measurements, and the keys of their sources
	// one behind the other, which end there; and memory for the key of the record.
	ms     []timeseries.Measurement
	keys   []byte
	ends   []int
	record [1 + numberBytes]byte
}

// Kind is Change's.
func (*Staged) Kind() Kind { return kindStaged }

// Append is Change's.
func (n *Staged) Append(dst []byte) []byte { return binary.AppendUvarint(dst, n.Number) }

// Read is Change's.
func (n *Staged) Read(r *storage.EncodingReader) { n.Number = r.Uvarint() }

// Apply is Change's.
func (n *Staged) Apply(t *Table, o *schema.Timeseries) error {
	if n.ms == nil {
		if err := n.load(t, o); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from := 0
	for i, m := range n.ms {
		t.stageLocked(o, n.keys[from:n.ends[i]], m, false)
		from = n.ends[i]
	}
	t.seq = max(t.seq, n.Number)
	t.stats.Commits++
	t.stats.Measurements += int64(len(n.ms))
	return nil
}

// load takes the measurements from their record.
func (n *Staged) load(t *Table, o *schema.Timeseries) error {
	key := appendStaged(nil, n.Number)
	v, closer, err := t.engine.Get(t.id, key)
	if err != nil {
		return err
	}
	defer closer.Close()
	return new(Progress).each(key, bytes.Clone(v), o, func(source []byte, m timeseries.Measurement) error {
		n.ms = append(n.ms, m)
		n.keys = append(n.keys, source...)
		n.ends = append(n.ends, len(n.keys))
		return nil
	})
}

// Frozen says that what is staged is frozen: all that is in records with numbers
// below the cut.
type Frozen struct {
	atVisible
	Cut uint64
}

// Kind is Change's.
func (*Frozen) Kind() Kind { return kindFrozen }

// Append is Change's.
func (n *Frozen) Append(dst []byte) []byte { return binary.AppendUvarint(dst, n.Cut) }

// Read is Change's.
func (n *Frozen) Read(r *storage.EncodingReader) { n.Cut = r.Uvarint() }

// Apply is Change's.
func (n *Frozen) Apply(t *Table, _ *schema.Timeseries) error {
	t.frozen(n.Cut)
	return nil
}

// Flushed says that a part of what is frozen was flushed, up to the progress in
// the store.
type Flushed struct {
	atVisible
	Seq uint64 // the greatest number of a record so far
}

// Kind is Change's.
func (*Flushed) Kind() Kind { return kindFlushed }

// Append is Change's.
func (n *Flushed) Append(dst []byte) []byte { return binary.AppendUvarint(dst, n.Seq) }

// Read is Change's.
func (n *Flushed) Read(r *storage.EncodingReader) { n.Seq = r.Uvarint() }

// Apply is Change's.
func (n *Flushed) Apply(t *Table, _ *schema.Timeseries) error {
	p, err := readProgress(t.engine, t.id)
	if err != nil {
		return err
	}
	t.flushed(&p, n.Seq)
	return nil
}

// Reopened says that measurements are open again, under their sources.
type Reopened struct {
	Sources []ReopenedSource
	Seq     uint64 // the greatest number of a record so far
}

// ReopenedSource is the part of a Reopened about one source.
type ReopenedSource struct {
	Key         []byte
	Meta        bson.Value
	Count, Size int
	First, Last int64
}

// Kind is Change's.
func (*Reopened) Kind() Kind { return kindReopened }

// Append is Change's.
func (n *Reopened) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, n.Seq), uint64(len(n.Sources)))
	for _, s := range n.Sources {
		dst = storage.AppendSized(dst, s.Key)
		dst = storage.AppendSized(append(dst, byte(s.Meta.Type)), s.Meta.Data)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(s.Count)), uint64(s.Size))
		dst = binary.AppendVarint(binary.AppendVarint(dst, s.First), s.Last)
	}
	return dst
}

// Read is Change's.
func (n *Reopened) Read(r *storage.EncodingReader) {
	n.Seq = r.Uvarint()
	for k := r.Uvarint(); k > 0 && !r.Bad; k-- {
		s := ReopenedSource{Key: bytes.Clone(r.Sized())}
		if t := r.Bytes(1); !r.Bad {
			s.Meta = bson.Value{Type: bson.Type(t[0]), Data: bytes.Clone(r.Sized())}
		}
		s.Count, s.Size = int(r.Uvarint()), int(r.Uvarint())
		s.First, s.Last = r.Varint(), r.Varint()
		r.Bad = r.Bad || !validMeta(s.Meta)
		n.Sources = append(n.Sources, s)
	}
}

// validMeta reports whether a value is a meta value, or represents none.
func validMeta(v bson.Value) bool {
	return v.IsMissing() && len(v.Data) == 0 || bson.ValidateValue(v, maxMetaDepth) == nil
}

// Show counts them before they become visible, so that no reader misses one
// (invariant open-seen).
func (n *Reopened) Show(t *Table, o *schema.Timeseries) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = max(t.seq, n.Seq)
	for _, g := range n.Sources {
		s := t.sources[string(g.Key)]
		if s == nil {
			s = t.addLocked(g.Key, g.Meta, o)
		}
		t.growLocked(s, g.Count, g.Size, g.First, g.Last)
		s.StoredLast = max(s.StoredLast, g.Last)
	}
}

// Apply is Change's.
func (*Reopened) Apply(*Table, *schema.Timeseries) error { return nil }

// Rest says what is open of a source, except what is staged.
type Rest struct {
	atVisible
	Key         []byte
	Count, Size int
	First, Last int64
	Seq         uint64 // the greatest number of a record so far
	Buckets     int    // that were sealed
}

// Kind is Change's.
func (*Rest) Kind() Kind { return kindRest }

// Append is Change's.
func (n *Rest) Append(dst []byte) []byte {
	dst = storage.AppendSized(dst, n.Key)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.Count)), uint64(n.Size))
	dst = binary.AppendVarint(binary.AppendVarint(dst, n.First), n.Last)
	return binary.AppendUvarint(binary.AppendUvarint(dst, n.Seq), uint64(n.Buckets))
}

// Read is Change's.
func (n *Rest) Read(r *storage.EncodingReader) {
	n.Key = bytes.Clone(r.Sized())
	n.Count, n.Size = int(r.Uvarint()), int(r.Uvarint())
	n.First, n.Last = r.Varint(), r.Varint()
	n.Seq, n.Buckets = r.Uvarint(), int(r.Uvarint())
}

// Apply is Change's.
func (n *Rest) Apply(t *Table, _ *schema.Timeseries) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = max(t.seq, n.Seq)
	t.stats.Sealed += int64(n.Buckets)
	s := t.sources[string(n.Key)]
	if s == nil {
		return fmt.Errorf("%w: an effect refers to a source of keyspace %d, which does not exist", storage.ErrCorruption, t.id)
	}
	t.setLocked(s, n.Count, n.Size, n.First, n.Last)
	return nil
}
