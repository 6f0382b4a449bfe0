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

// A virtual collection, such as local.oplog.rs, has no index, but its documents are
// ordered by time: a scan is bounded by the query's conditions on ts, as in mongod. The
// bounds contain all matches, and the filter does the rest.

// timeBounds returns the bounds of the keys of all documents that a filter can match,
// from its conditions on the key field.
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

// restoreVirtual checks that a scan of a virtual collection, whose walk is open, can continue
// after its last document. Error 136 if later ones may have been removed.
func (s *collScan) restoreVirtual(v catalog.Virtual) error {
	gone, err := v.Gone(s.last)
	if err != nil {
		return err
	}
	if gone {
		return mongoerr.New(mongoerr.CappedPositionLost,
			"CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId(%d)", binary.BigEndian.Uint64(s.last))
	}
	return nil
}
