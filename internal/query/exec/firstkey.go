package exec

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// duplicate says whether the document of a row was answered before. Where the
// records that were are too many to remember, the document itself tells: the
// scan answers it with the first of its keys that it meets.
func (s *indexScan) duplicate(row *Row) (bool, error) {
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

// first is the first of sorted keys that the scan meets, nil for none.
func (s *indexScan) first(keys []schema.Key) []byte {
	inside := func(k schema.Key) bool {
		r := s.ranges
		if bytes.Compare(k.Bytes, r.lower) < 0 || r.upper != nil && bytes.Compare(k.Bytes, r.upper) >= 0 {
			return false
		}
		in, _ := r.check(k.Bytes, s.backward)
		return r.exact || in
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
