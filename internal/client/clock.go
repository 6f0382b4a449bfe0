package client

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Clock is the highest cluster time that anybody has told of. All Sets of a part of a
// cluster share one, so that each hears of what the others have written. The zero
// Clock knows of none.
type Clock struct{ time atomic.Uint64 }

// Now is the highest time so far, 0 for none.
func (c *Clock) Now() uint64 { return c.time.Load() }

// Observe notes a time.
func (c *Clock) Observe(t uint64) {
	for {
		was := c.time.Load()
		if t <= was || c.time.CompareAndSwap(was, t) {
			return
		}
	}
}

// ObserveReply notes the time that a reply or a request tells of in $clusterTime.
func (c *Clock) ObserveReply(reply bson.Doc) {
	if v := reply.Lookup("$clusterTime"); v.Type == bson.TypeDocument {
		if t := v.Doc().Lookup("clusterTime"); t.Type == bson.TypeTimestamp {
			c.Observe(t.Timestamp())
		}
	}
}

var noSignature = new(bson.Builder).Binary("hash", 0, make([]byte, 20)).Int64("keyId", 0).Finish()

// Append writes $clusterTime, where a time is known.
func (c *Clock) Append(b *bson.Builder) {
	if t := c.Now(); t != 0 {
		b.OpenDoc("$clusterTime").Timestamp("clusterTime", t).Doc("signature", noSignature).Close()
	}
}
