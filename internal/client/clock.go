package client

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Clock is the highest cluster time seen so far. All Sets of a process share one, so
// that each is causally after the writes of the others. The zero Clock has seen none.
type Clock struct{ time atomic.Uint64 }

// Now is the highest time so far, 0 for none.
func (c *Clock) Now() uint64 { return c.time.Load() }

// Observe advances the clock to a time.
func (c *Clock) Observe(t uint64) {
	for {
		was := c.time.Load()
		if t <= was || c.time.CompareAndSwap(was, t) {
			return
		}
	}
}

// ObserveReply advances the clock to the $clusterTime of a reply or a request.
func (c *Clock) ObserveReply(reply bson.Doc) {
	if v := reply.Lookup("$clusterTime"); v.Type == bson.TypeDocument {
		if t := v.Doc().Lookup("clusterTime"); t.Type == bson.TypeTimestamp {
			c.Observe(t.Timestamp())
		}
	}
}

var noSignature = new(bson.Builder).Binary("hash", 0, make([]byte, 20)).Int64("keyId", 0).Finish()

// Append appends $clusterTime if a time is known.
func (c *Clock) Append(b *bson.Builder) {
	if t := c.Now(); t != 0 {
		b.OpenDoc("$clusterTime").Timestamp("clusterTime", t).Doc("signature", noSignature).Close()
	}
}
