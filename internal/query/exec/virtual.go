package exec

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// A virtual collection, such as local.oplog.rs, has no index, but its documents lie in
// the order of their times: a scan is bounded by what the query says of ts, as mongod
// bounds one of its oplog. The bounds hold all that matches, and the filter does the
// rest.

// timeBounds are the keys between which the documents lie that a filter lets pass, by
// the field that is their key.
func timeBounds(filter match.Node, field string) (lower, upper []byte) {
	key := func(t uint64) []byte { return binary.BigEndian.AppendUint64(nil, t) }
	raise := func(t uint64) {
		if k := key(t); bytes.Compare(k, lower) > 0 {
			lower = k
		}
	}
	end := func(t uint64) {
		if k := key(t); upper == nil || bytes.Compare(k, upper) < 0 {
			upper = k
		}
	}
	for _, n := range match.Conjuncts(filter) {
		c, ok := n.(*match.Compare)
		if !ok || c.FieldPath() != field || c.Value.Type != bson.TypeTimestamp {
			continue
		}
		t := c.Value.Timestamp()
		if t == math.MaxUint64 { // behind which there is no key
			continue
		}
		switch c.Op {
		case match.Eq:
			raise(t)
			end(t + 1)
		case match.Gte:
			raise(t)
		case match.Gt:
			raise(t + 1)
		case match.Lt:
			end(t)
		case match.Lte:
			end(t + 1)
		}
	}
	return lower, upper
}

// restoreVirtual makes sure that a scan of a virtual collection can go on behind the
// document that it has seen last. Error 136 where those behind it may be gone.
func (s *collScan) restoreVirtual(v catalog.Virtual) error {
	if v.Gone(s.last) {
		return mongoerr.New(mongoerr.CappedPositionLost,
			"CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId(%d)", binary.BigEndian.Uint64(s.last))
	}
	return nil
}
