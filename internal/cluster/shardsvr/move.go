package shardsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// rangeOf returns the range of the request. Errors: 2.
func (r *request) rangeOf(key *schema.ShardKey) (schema.ShardRange, error) {
	if span, ok := key.ParseRange(r.body); ok {
		return span, nil
	}
	return schema.ShardRange{}, mongoerr.New(mongoerr.BadValue, "the request has no range of %s: %s", key, r.body)
}

// position appends to the reply a position in the log that is not before any earlier write.
func (r *request) position() {
	if m := r.s.node.Dispatcher.Member; m != nil {
		r.reply.Timestamp("position", uint64(m.Shown().Time)) // who wrote last may have ended before its entry is applied
	}
}

// block answers {_shardsvrBlock: ns, min, max, reads}; without a range it blocks the whole
// collection. When it returns, no unit is writing there, and none will. Where all that is here
// is blocked, and lies in no buckets, the reply has documents, how many these are.
func (r *request) block(ctx context.Context) error {
	c, err := r.change(ctx, func(s *schema.Sharding) error {
		b := &schema.BlockedRange{ShardRange: s.Key.Whole(), Operation: r.fence.Number, Reads: r.body.Lookup("reads").Truthy()}
		if r.body.Has("min") {
			span, err := r.rangeOf(s.Key)
			if err != nil {
				return err
			}
			b.ShardRange = span
		}
		s.Blocked = b
		return nil
	})
	if err == nil && c.IsTimeseries() { // nothing open lies in a hidden range (invariant sealed)
		err = r.s.cat.SealAll(ctx, c)
	}
	if err != nil {
		return err
	}
	r.position()
	if s := c.Sharding(); s.Blocked != nil && s.Blocked.Same(s.Key.Whole()) && len(s.Hidden) == 0 && !c.IsTimeseries() {
		r.reply.Int64("documents", c.Count())
	}
	return nil
}

// own answers {_shardsvrOwn: ns, min, max, version}: it makes a received range visible.
// Errors: 117 if it is not completely received.
func (r *request) own(ctx context.Context) error {
	done, err := r.s.received(r.ns)
	if err != nil {
		return err
	}
	err = r.tell(ctx, func(s *schema.Sharding) error {
		i := slices.IndexFunc(s.Hidden, func(h schema.HiddenRange) bool { return h.Receiving && h.Operation == r.fence.Number })
		switch {
		case i < 0: // executed before
		case done == nil || done.operation != r.fence.Number || !done.done:
			return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the range is not completely received")
		default:
			s.Hidden = slices.Delete(s.Hidden, i, i+1)
		}
		return r.toVersion(s)
	})
	if err != nil {
		return err
	}
	r.s.stop(r.ns)
	r.s.wake()
	if done != nil && done.operation == r.fence.Number {
		r.tellLog(ctx, "A range was received", "documents", done.documents, "bytes", done.bytes)
	}
	return r.s.remove(ctx, receiving, bson.String(r.ns.String()))
}

// tellLog writes a line of the log about the move of the request: without its bounds, which are
// clients' values.
func (r *request) tellLog(ctx context.Context, what string, attrs ...any) {
	r.s.log.InfoContext(ctx, what, append([]any{"id", logMoved, "namespace", r.ns.String(), "operation", r.fence.Number}, attrs...)...)
}

// logMoved is the id of the lines about the steps of a move.
const logMoved = 9000043

// given answers {_shardsvrGiven: ns, min, max, version}: the range belongs to another
// shard now, and its documents here are removed.
func (r *request) given(ctx context.Context) error {
	err := r.tell(ctx, func(s *schema.Sharding) error {
		span, err := r.rangeOf(s.Key)
		if err != nil {
			return err
		}
		if s.Blocked == nil || s.Blocked.Operation != r.fence.Number {
			return nil // executed before
		}
		s.Blocked = nil
		s.Hidden = append(s.Hidden, schema.HiddenRange{ShardRange: span, Operation: r.fence.Number})
		return r.toVersion(s)
	})
	r.s.wake()
	if err == nil {
		r.tellLog(ctx, "A range was given away")
	}
	return err
}

// abort answers {_shardsvrAbort: ns, min, max}: it unblocks the range, or removes what was
// received of it.
func (r *request) abort(ctx context.Context) error {
	c := r.s.cat.Lookup(r.ns)
	if c == nil || c.Sharding() == nil {
		return nil
	}
	err := r.tell(ctx, func(s *schema.Sharding) error {
		if s.Blocked != nil && s.Blocked.Operation == r.fence.Number {
			s.Blocked = nil
		}
		for i := range s.Hidden {
			if s.Hidden[i].Operation == r.fence.Number {
				s.Hidden[i].Receiving = false
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c = r.s.cat.Lookup(r.ns); c != nil && receivingOf(c) == nil {
		// Only now: else it could begin again before the entry is changed, and stay in the place
		// of the removal.
		r.s.stop(r.ns)
		r.s.wake()
	}
	r.tellLog(ctx, "A move was undone")
	if doc, err := r.s.received(r.ns); err != nil || doc == nil || doc.operation != r.fence.Number {
		return err
	}
	return r.s.remove(ctx, receiving, bson.String(r.ns.String()))
}

// receivingOf returns the range of a collection that is being received, or nil.
func receivingOf(c *catalog.Collection) *schema.HiddenRange {
	if c.Sharding() == nil {
		return nil
	}
	for i, h := range c.Sharding().Hidden {
		if h.Receiving {
			return &c.Sharding().Hidden[i]
		}
	}
	return nil
}

// sweep removes the documents in the ranges of a collection that have moved away, and then
// unhides these ranges, which are empty.
func (s *Shard) sweep(ctx context.Context, ns schema.Namespace) error {
	for {
		c := s.cat.Lookup(ns)
		if c == nil || c.Sharding() == nil {
			return nil
		}
		i := slices.IndexFunc(c.Sharding().Hidden, func(h schema.HiddenRange) bool { return !h.Receiving })
		if i < 0 {
			return nil
		}
		gone := c.Sharding().Hidden[i]
		if err := s.clear(ctx, c, gone.ShardRange); err != nil {
			return err
		}
		if _, err := s.cat.SetSharding(ctx, ns, func(c *catalog.Collection) (*schema.Sharding, error) {
			if c.Sharding() == nil {
				return nil, nil
			}
			entry := *c.Sharding()
			entry.Hidden = slices.DeleteFunc(slices.Clone(entry.Hidden), func(h schema.HiddenRange) bool {
				return h.Operation == gone.Operation && !h.Receiving && h.Same(gone.ShardRange)
			})
			return &entry, nil
		}); err != nil {
			return err
		}
		s.log.InfoContext(ctx, "The documents of a range that has moved away are removed", "id", logMoved, "namespace", ns.String(), "operation", gone.Operation)
	}
}

// moveBatch is how many documents of a range one unit writes.
const moveBatch = 500

// clear removes the documents of a hidden range.
func (s *Shard) clear(ctx context.Context, c *catalog.Collection, span schema.ShardRange) error {
	if all, err := s.cat.RemoveChunk(ctx, c.Stored(), span); err != nil || all {
		return err
	}
	if c = c.Latest(); c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "the collection was dropped")
	}
	c = c.Stored()
	key := c.Sharding().Key
	inside := func(doc bson.Doc) bool {
		at, err := key.Append(nil, doc)
		return err == nil && span.Holds(at)
	}
	next, done, err := s.records(ctx, c, span)
	if err != nil {
		return err
	}
	defer done()
	for {
		var records []catalog.RecordKey
		for len(records) < moveBatch {
			record, err := next()
			if err != nil {
				return err
			}
			if record == nil {
				break
			}
			records = append(records, slices.Clone(record))
		}
		if len(records) == 0 {
			return nil
		}
		for len(records) > 0 {
			n := 0
			err := s.cat.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
				u.Moving = true
				for n = 0; n < len(records); n++ {
					doc, err := u.LockRecord(ctx, c, records[n])
					if err != nil || doc == nil || !inside(doc) {
						if err != nil {
							return err
						}
						continue
					}
					if !u.OwnedElsewhere(c, doc) {
						return catalog.ErrShown(c.Namespace)
					}
					if err := remove(ctx, u, c, records[n], doc); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			records = records[n:]
		}
	}
}

// remove removes a document or a bucket.
func remove(ctx context.Context, u *catalog.Unit, c *catalog.Collection, record catalog.RecordKey, doc bson.Doc) error {
	if c.HoldsBuckets() {
		return u.DeleteBucket(ctx, c, record, doc)
	}
	return u.Delete(ctx, c, record, doc)
}

// records walks the records of the documents of a range, by an index on the shard key where
// there is one: next returns nil at the end, and done ends it.
func (s *Shard) records(ctx context.Context, c *catalog.Collection, span schema.ShardRange) (next func() ([]byte, error), done func(), err error) {
	if ix := c.ShardKeyIndex(); ix != nil {
		scan := s.exec.ScanKeys(c, ix, span.Min.Key, span.Max.Key)
		return func() ([]byte, error) {
			_, record, err := scan.Next(ctx)
			return record, err
		}, func() { scan.Close() }, nil
	}
	key := c.Sharding().Key
	q := &exec.Query{Query: plan.Query{Filter: emptyFilter.AndOwned(func(doc bson.Doc) bool {
		at, err := key.Append(nil, doc)
		return err != nil || !span.Holds(at)
	})}, All: true}
	cur, err := s.exec.Find(ctx, c, q)
	if err != nil {
		return nil, nil, err
	}
	return func() ([]byte, error) {
		doc, err := cur.Next(ctx)
		if doc == nil || err != nil {
			return nil, err
		}
		return cur.Record(), nil
	}, cur.Close, nil
}

var emptyFilter = func() *match.Filter {
	f, err := match.Parse(bson.Empty, nil)
	if err != nil {
		panic(err) // an empty filter always parses
	}
	return f
}()
