package command

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	clusterTimeFields = NewFields("$clusterTime", Timestamp("clusterTime").Required(), Struct("signature", signatureFields))
	signatureFields   = NewFields("signature", OneOf("hash", bson.TypeBinary), ExactInt64("keyId"))
	// noSignature is the signature in $clusterTime, as times are not signed.
	noSignature = new(bson.Builder).Binary("hash", 0, make([]byte, 20)).Int64("keyId", 0).Finish()
)

// gossip advances the cluster time by the one in op's request. With access control only
// authenticated clients may do that, as a time far ahead would advance the whole set's.
// Errors: 205 beyond maxAcceptableLogicalClockDriftSecs.
func (d *Dispatcher) gossip(op *Op) error {
	if !d.replicated() || op.Generic.ClusterTime == nil || op.Controlled() && op.Client.Principal() == nil {
		return nil
	}
	a, err := ParseDoc(clusterTimeFields, op.Generic.ClusterTime)
	if err != nil {
		return err
	}
	if d.Clock != nil {
		d.Clock.Observe(a.Value("clusterTime").Timestamp())
		return nil
	}
	return d.Member.Clock().Observe(repl.Timestamp(a.Value("clusterTime").Timestamp()))
}

// replicated reports whether there is a cluster time: on a member of a replica set and on
// a router.
func (d *Dispatcher) replicated() bool { return d.Member != nil || d.Clock != nil }

// appendRouterTimes is appendTimes on a router, with the times of its shards' replies.
func (d *Dispatcher) appendRouterTimes(op *Op, b *bson.Builder) {
	d.Clock.Append(b)
	at := op.OperationTime.Now()
	if at == 0 {
		at = d.Clock.Now()
	}
	if at != 0 {
		b.Timestamp("operationTime", at)
	}
}

// appendTimes writes $clusterTime and operationTime at the end of a member's reply: op's
// writes, and all that it may have read, are not later than operationTime.
func (d *Dispatcher) appendTimes(op *Op, b *bson.Builder) {
	if d.Clock != nil {
		d.appendRouterTimes(op, b)
		return
	}
	at := max(d.Member.Shown().Time, op.lastWrite().Time)
	if at == 0 {
		return // in no set yet
	}
	b.OpenDoc("$clusterTime").Timestamp("clusterTime", uint64(max(at, d.Member.Clock().Now()))).Doc("signature", noSignature).Close()
	b.Timestamp("operationTime", uint64(at))
}

// awaitRead waits until this member satisfies op's read concern.
//
// It also waits until what was prepared up to the time is decided, where op may read it.
//
// Errors: 72 for a time that the set has not reached, 10107 for a linearizable read on a
// member other than the primary, the cause of ctx's end.
func (d *Dispatcher) awaitRead(ctx context.Context, op *Op) error {
	rc := &op.ReadConcern
	if after := repl.Timestamp(rc.AfterClusterTime); after != 0 {
		if now := d.Member.Clock().Now(); after > now {
			return mongoerr.New(mongoerr.InvalidOptions, "readConcern afterClusterTime value must not be greater than the current clusterTime. "+
				"Requested clusterTime: %s; current clusterTime: %s", shownTime(after), shownTime(now))
		}
		if err := d.Member.WaitTime(ctx, after); err != nil {
			return err
		}
		return d.Member.Catalog().AwaitPrepared(ctx, uint64(after), d.reads(op))
	}
	if rc.Level == "linearizable" {
		return d.Member.ReadIndex(ctx)
	}
	return nil
}

// joins are stages that read other collections than their pipeline's.
var joins = [][]byte{[]byte("$lookup\x00"), []byte("$graphLookup\x00"), []byte("$unionWith\x00")}

// reads returns the only collection that op may read; nil where there may be others.
func (d *Dispatcher) reads(op *Op) *catalog.Collection {
	if op.HasUUID || op.Collection == "" || slices.ContainsFunc(joins, func(stage []byte) bool { return bytes.Contains(op.Body, stage) }) {
		return nil
	}
	c := d.Member.Catalog().Lookup(schema.Namespace{DB: op.DB, Coll: op.Collection})
	if c == nil || c.IsView() || c.IsTimeseries() {
		return nil
	}
	return c
}

// takeState takes the snapshot of a read with the level snapshot.
//
// Errors: 72 for a time that the set has not reached, 239 for one whose snapshot is no
// longer kept, the cause of ctx's end.
func (d *Dispatcher) takeState(ctx context.Context, op *Op) (err error) {
	at := repl.Timestamp(op.ReadConcern.AtClusterTime)
	if now := d.Member.Clock().Now(); at > now {
		return mongoerr.New(mongoerr.InvalidOptions, "readConcern atClusterTime value must not be greater than the current clusterTime. "+
			"Requested clusterTime: %s; current clusterTime: %s", shownTime(at), shownTime(now))
	}
	if at != 0 && op.InTransaction() { // who writes at one time will write at others
		if err := d.Member.Expect(); err != nil {
			return err
		}
	}
	op.State, err = d.Member.AwaitState(ctx, at)
	return err
}

// shownTime formats a cluster time for messages.
func shownTime(t repl.Timestamp) string {
	return "{ ts: " + bson.Timestamp(uint64(t)).String() + " }"
}
