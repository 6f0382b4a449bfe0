package catalog

import (
	"bytes"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// relayPlaces and relayAtPlace are the size of the sample that estimates how many
	// documents windows would remove: so many documents at each of so many places of the
	// records.
	relayPlaces, relayAtPlace = 32, 32
)

// RelaySample is a sample of a collection's documents.
type RelaySample struct {
	// Docs were read; Expire of them come due some time by the rule, and Due of
	// those are due at the instant.
	Docs, Expire, Due int64
}

// SampleRelay samples documents at places spread over the records of a collection, by
// a rule at an instant in milliseconds since 1970.
func (c *Catalog) SampleRelay(coll *Collection, r *Rule, now int64) (s RelaySample, err error) {
	snapshot := c.engine.NewSnapshot()
	defer snapshot.Close()
	it, err := snapshot.NewIter(coll.Ident, nil, nil)
	if err != nil {
		return s, err
	}
	defer it.Close()
	if !it.Last() {
		return s, it.Err()
	}
	last := bytes.Clone(it.Key())
	it.First()
	places := between(bytes.Clone(it.Key()), last, relayPlaces)
	var seen []byte // the records up to here
	for _, at := range places {
		if bytes.Compare(at, seen) < 0 {
			continue
		}
		n := 0
		for ok := it.SeekGE(at); ok && n < relayAtPlace; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				return s, err
			}
			n++
			s.Docs++
			due := r.Due(v)
			if due != schema.Never {
				s.Expire++
			}
			if due <= now {
				s.Due++
			}
			seen = append(append(seen[:0], it.Key()...), 0)
		}
	}
	return s, it.Err()
}

// between returns n keys from one up to another, evenly spaced by the eight bytes
// after their common prefix.
func between(first, last []byte, n int) [][]byte {
	same := 0
	for same < len(first) && same < len(last) && first[same] == last[same] {
		same++
	}
	number := func(k []byte) uint64 {
		var b [8]byte
		copy(b[:], k[same:])
		return binary.BigEndian.Uint64(b[:])
	}
	from := number(first)
	step := (number(last) - from) / uint64(n)
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(bytes.Clone(first[:same]), from+uint64(i)*step)
	}
	keys[0] = first
	return keys
}
