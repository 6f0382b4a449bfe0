package cosmos

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// A container whose changeFeedPolicy has a retention keeps a log of its writes
// for the change feed of all versions and deletes, in a separate collection. An
// entry is written in the same unit as the write that it records,
//
//	{_id: place in the change feed, p: partition key, t: second of the write, u: until when it is kept,
//	 op, id, prev: place of the version before, ttl: true of an expiry, current: item, previous: item}
//
// and expires by a TTL index on u, which the server's own monitor serves.

// maxRetention is the service's bound on the retention, in minutes: 30 days.
const maxRetention = 30 * 24 * 60

// parseRetention reads a definition's changeFeedPolicy; 0 means no log. Errors:
// 400.
func parseRetention(v bson.Value) (time.Duration, error) {
	if v.IsNullish() {
		return 0, nil
	}
	bad := badRequest("The change feed policy is invalid: retentionDuration must be a number of minutes between 0 and %d.", maxRetention)
	if v.Type != bson.TypeDocument {
		return 0, bad
	}
	d := v.Doc().Lookup("retentionDuration")
	if d.IsNullish() {
		return 0, nil
	}
	n, whole := int64(0), false
	if d.IsNumber() {
		n, whole = bson.ExactInt64(d)
	}
	if !whole || n < 0 || n > maxRetention {
		return 0, bad
	}
	return time.Duration(n) * time.Minute, nil
}

// logPrefix begins the names of logs; ids never escape to such a name.
const logPrefix = "%log."

// logNamespace returns the namespace of a container's log.
func logNamespace(c *container) schema.Namespace {
	ns := namespace(c.db, c.id)
	return schema.Namespace{DB: ns.DB, Coll: logPrefix + ns.Coll}
}

// logIndex is the TTL index that removes entries after the retention.
var logIndex = func() bson.Doc {
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key").Int32("u", 1).Close()
	return b.String("name", "u").Int32("expireAfterSeconds", 0).Finish()
}()

// openLog creates the log of a container with a retention, and drops that of one without.
func (s *Server) openLog(ctx context.Context, c *container) error {
	ns := logNamespace(c)
	c.log = s.o.Catalog.Lookup(ns)
	defer func() { s.followExpiry(c) }()
	switch {
	case c.retention > 0 && c.log == nil:
		if _, err := s.o.Catalog.Create(ctx, ns, bson.Empty); err != nil {
			return err
		}
		if _, _, err := s.o.Catalog.CreateIndexes(ctx, ns, []bson.Doc{logIndex}); err != nil {
			return err
		}
		c.log = s.o.Catalog.Lookup(ns)
	case c.retention == 0 && c.log != nil:
		c.log = nil
		if _, err := s.o.Catalog.Drop(ctx, ns); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			return err
		}
	}
	return nil
}

// version is one write in the log.
type version struct {
	op      string // create, replace or delete
	key     []bson.Value
	id      string
	number  int64    // place in the change feed
	old     bson.Doc // as stored; nil if there was none
	item    bson.Doc // as stored; nil after a delete
	expired bool
}

// keep writes a version to the log, if the container has one.
func (c *container) keep(ctx context.Context, u *catalog.Unit, v version, seconds int64) error {
	if c.log == nil {
		return nil
	}
	var b bson.Builder
	b.Int64("_id", v.number).Doc("p", keyDocument(v.key...)).Int64("t", seconds).Date("u", (seconds+int64(c.retention/time.Second))*1000)
	b.String("op", v.op).String("id", v.id)
	if v.item != nil {
		b.Doc("current", present(v.item))
	}
	if v.old != nil {
		b.Value("prev", v.old.Lookup(fieldLSN)).Doc("previous", present(v.old))
	}
	if v.expired {
		b.Bool("ttl", true)
	}
	return u.Insert(ctx, c.log, b.Finish())
}
