package measurements

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

const (
	// The first bytes of keys that do not begin with a source.
	stagedKeys  = 2
	progressKey = 3

	// suffixBytes is the length of what follows the source in a key.
	suffixBytes = 16
	// numberBytes is the length of the number at the end of a key.
	numberBytes = 8
)

// appendSource appends the key of the source with a meta value.
func appendSource(dst []byte, meta bson.Value) []byte {
	if meta.IsMissing() {
		return append(dst, 0)
	}
	dst = keystring.Append(append(dst, 1), meta, false, nil)
	var d xxhash.Digest
	d.ResetWithSeed(uint64(meta.Type))
	d.Write(meta.Data)
	return binary.BigEndian.AppendUint64(dst, d.Sum64())
}

// SourcePrefixes returns the prefixes of the keys of all sources that a filter for
// meta may find: those whose meta value equals it, and those with an array, of which it may
// be an element. They are in order, and none is a prefix of another. REQUIRES: meta
// is no array.
func SourcePrefixes(meta bson.Value) [][]byte {
	invariant.Check(meta.Type != bson.TypeArray, "measurements: a filter for an array finds more than its elements")
	equal := keystring.Append([]byte{1}, meta, false, nil)
	arrays := keystring.AppendMin([]byte{1}, bson.TypeArray, false)
	if bytes.Compare(equal, arrays) < 0 {
		return [][]byte{equal, arrays}
	}
	return [][]byte{arrays, equal}
}

// sourceEnd returns the key after all open measurements of a source.
func sourceEnd(source []byte) []byte {
	return append(slices.Clone(source), bytes.Repeat([]byte{0xff}, suffixBytes+1)...)
}

// AppendTime appends a time, in milliseconds, to a source's key: records with
// measurements of that time and later ones are at or after it.
func AppendTime(source []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(source, uint64(ms)^1<<63)
}

// timeOf returns the time in the key of open measurements, that of the last.
func timeOf(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-suffixBytes:]) ^ 1<<63)
}

// SourceOf returns the source in the key of open measurements.
func SourceOf(key []byte) []byte { return key[:len(key)-suffixBytes] }

// appendStaged appends the key of the record of staged measurements with a number.
func appendStaged(dst []byte, number uint64) []byte {
	return appendNumber(append(dst, stagedKeys), number)
}

// appendNumber appends the number at the end of a key.
func appendNumber(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// numberOf returns the number in any key except that of the progress.
func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-numberBytes:]) }

// isStaged reports whether the record of a key has staged measurements.
func isStaged(key []byte) bool { return key[0] == stagedKeys }

// validKey reports whether a key, other than that of the progress, is complete.
func validKey(key []byte) bool {
	return len(key) > numberBytes && (isStaged(key) || len(key) >= suffixBytes)
}

// Progress is how far staged measurements have been flushed.
type Progress struct {
	flushes uint64 // parts that were flushed
	// cut is 0 if all that were frozen are flushed; else those in records with
	// lower numbers are frozen, and those of sources up to last are flushed.
	cut  uint64
	last []byte
}

// flushed reports whether a frozen measurement of a source was flushed.
func (p *Progress) flushed(source []byte) bool {
	return p.cut == 0 || bytes.Compare(source, p.last) <= 0
}

// flushedFrom is flushed for a measurement in a record of staged ones.
func (p *Progress) flushedFrom(key, source []byte) bool {
	return p.cut != 0 && numberOf(key) < p.cut && p.flushed(source)
}

// append appends a progress as it is stored: the number of flushes and, while there
// are frozen measurements, the cut and the last source, if any.
func (p *Progress) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.flushes)
	if p.cut == 0 {
		return dst
	}
	return append(binary.BigEndian.AppendUint64(dst, p.cut), p.last...)
}

// readProgress reads how far staged measurements were flushed in a state of the
// store.
func readProgress(r storage.Reader, id storage.Ident) (p Progress, err error) {
	v, closer, err := r.Get(id, []byte{progressKey})
	if errors.Is(err, storage.ErrNotFound) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	defer closer.Close()
	return decodeProgress(v)
}

func decodeProgress(v []byte) (p Progress, err error) {
	switch {
	case len(v) == 8:
		return Progress{flushes: binary.BigEndian.Uint64(v)}, nil
	case len(v) >= 16:
		return Progress{flushes: binary.BigEndian.Uint64(v), cut: binary.BigEndian.Uint64(v[8:]), last: bytes.Clone(v[16:])}, nil
	}
	return p, storage.ErrCorruption
}

// each calls f with the measurements of a record and the keys of their sources,
// without staged ones that were flushed. The arguments of f share the record's
// bytes. The source is nil if the key is damaged.
func (p *Progress) each(key, value []byte, o *schema.Timeseries, f func(source []byte, m timeseries.Measurement) error) error {
	staged := isStaged(key)
	var source []byte
	if !staged && validKey(key) {
		source = SourceOf(key)
	}
	return eachDoc(value, o.TimeField, func(d bson.Doc, at int64) error {
		m := timeseries.Measurement{Doc: d, Meta: metaOf(d, o), Time: at}
		if staged {
			source = appendSource(nil, m.Meta)
			if validKey(key) && p.flushedFrom(key, source) {
				return nil
			}
		}
		return f(source, m)
	})
}

// eachDoc calls f with each of the documents of a record, and its time.
func eachDoc(b []byte, field string, f func(bson.Doc, int64) error) error {
	for len(b) > 0 {
		if len(b) < len(bson.Empty) {
			return storage.ErrCorruption
		}
		n := int(binary.LittleEndian.Uint32(b))
		if n < len(bson.Empty) || n > len(b) {
			return storage.ErrCorruption
		}
		d := bson.Doc(b[:n:n])
		at := d.Lookup(field)
		if at.Type != bson.TypeDate {
			return storage.ErrCorruption
		}
		if err := f(d, at.Date()); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// metaOf returns the meta value of a stored measurement.
func metaOf(d bson.Doc, o *schema.Timeseries) bson.Value {
	if o.MetaField == "" {
		return bson.Value{}
	}
	return d.Lookup(o.MetaField)
}

// sizeOf returns the size of measurements, in bytes.
func sizeOf(ms []timeseries.Measurement) (n int) {
	for _, m := range ms {
		n += len(m.Doc)
	}
	return n
}

// fillDocs writes measurements one after the other.
func fillDocs(b []byte, ms []timeseries.Measurement) {
	for _, m := range ms {
		b = b[copy(b, m.Doc):]
	}
}
