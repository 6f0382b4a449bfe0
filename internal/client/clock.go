package client

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Times are the cluster times of a process: what Sets send, and what they have heard of. All Sets
// of a process share one, so that each is causally after the writes of the others.
type Times interface {
	// Now is the highest time so far, 0 for none.
	Now() uint64
	// Hear notes a time. Errors: one that must not be noted, and with it the reply that has it
	// must not be used.
	Hear(t uint64) error
}

// Clock is the Times of a process that has none of its own: the highest cluster time seen so far.
// The zero Clock has seen none.
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

// Hear implements Times.
func (c *Clock) Hear(t uint64) error {
	c.Observe(t)
	return nil
}

// hearReply notes the $clusterTime of a reply.
func hearReply(times Times, reply bson.Doc) error {
	if v := reply.Lookup("$clusterTime"); v.Type == bson.TypeDocument {
		if t := v.Doc().Lookup("clusterTime"); t.Type == bson.TypeTimestamp {
			return times.Hear(t.Timestamp())
		}
	}
	return nil
}

var noSignature = new(bson.Builder).Binary("hash", 0, make([]byte, 20)).Int64("keyId", 0).Finish()

// Append appends $clusterTime if a time is known.
func (c *Clock) Append(b *bson.Builder) { AppendTime(b, c.Now()) }

// AppendTime appends $clusterTime with a time, unless that is 0.
func AppendTime(b *bson.Builder, t uint64) {
	if t != 0 {
		b.OpenDoc("$clusterTime").Timestamp("clusterTime", t).Doc("signature", noSignature).Close()
	}
}
