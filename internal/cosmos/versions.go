package cosmos

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/oplog"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The change feed of all versions and deletes is read from the replica set's log, as change
// streams are (docs/rfcs/0026-change-streams.md). A container whose changeFeedPolicy has a
// retention keeps pre-images in its operations, and the member's log reaches back so far.
// A standalone has no log, and refuses the policy. On a cluster a router reads the change stream
// over all shards (clusterversions.go), whose logs reach back so far.

// MaxRetention is the service's bound on the retention: 30 days.
const MaxRetention = 30 * 24 * time.Hour

// parseRetention reads a definition's changeFeedPolicy; 0 means that there is no feed of all
// versions. Errors: 400.
func parseRetention(v bson.Value) (time.Duration, error) {
	if v.IsNullish() {
		return 0, nil
	}
	const maxMinutes = int64(MaxRetention / time.Minute)
	bad := badRequest("The change feed policy is invalid: retentionDuration must be a number of minutes between 0 and %d.", maxMinutes)
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
	if !whole || n < 0 || n > maxMinutes {
		return 0, bad
	}
	return time.Duration(n) * time.Minute, nil
}

// check implements keeper.
func (k local) check(c *container) error { return k.s.checkRetention(c) }

// checkRetention refuses a retention where there is no log. Errors: 400.
func (s *Server) checkRetention(c *container) error {
	if c.retention > 0 && s.o.Member == nil {
		return badRequest("A changeFeedPolicy with a retentionDuration needs the log of a replica set, and this server is a standalone: start it with --replSet rs0 --initiate.")
	}
	return nil
}

// keepImages makes the container's collection keep pre-images in its operations, or not.
func (s *Server) keepImages(ctx context.Context, c *container, keep bool) error {
	now := c.collection.Latest()
	if now == nil {
		return errNotFound
	}
	if now.Settings.PreAndPostImages == keep {
		return nil
	}
	_, err := s.o.Catalog.Modify(ctx, now.Namespace, func(now *catalog.Collection) (catalog.Modification, error) {
		o := *now.Settings
		o.PreAndPostImages = keep
		return catalog.Modification{Options: o.Doc()}, nil
	})
	return err
}

// dropOldLogs drops the logs of their own that containers had in earlier versions.
func (g *registry) dropOldLogs(ctx context.Context, database string) error {
	for _, c := range g.catalog.Collections(databaseName(database)) {
		if !strings.HasPrefix(c.Namespace.Coll, "%log.") {
			continue
		}
		if _, err := g.catalog.Drop(ctx, c.Namespace); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			return err
		}
	}
	return nil
}

// retain makes the member keep its log for as long as a container's policy says. A member
// that is not primary hears of new policies so.
func (s *Server) retain(ctx context.Context) error {
	if s.o.Member == nil {
		return nil
	}
	most, err := s.mostRetention(ctx)
	if err == nil {
		s.o.Member.Retain(most)
	}
	return err
}

// mostRetention is the longest retention of all definitions.
func (s *Server) mostRetention(ctx context.Context) (most time.Duration, err error) {
	err = eachDocument(ctx, s.o.Exec, containersNamespace, func(d bson.Doc) error {
		retention, err := parseRetention(d.Lookup("definition").Doc().Lookup("changeFeedPolicy"))
		most = max(most, retention)
		return err
	})
	return most, err
}

// versionPlace is a place in the feed: all events of cluster times before one were told, and
// of that time the first ones. lsn is the greatest number of a write that was told of.
type versionPlace struct {
	time uint64
	told int
	lsn  int64
}

// version is one event of the feed.
type version struct {
	op      string   // create, replace or delete
	old     bson.Doc // as stored; nil if there was none
	item    bson.Doc // as stored; nil after a delete
	expired bool
}

// maxScanned bounds the changes that one request reads for a page: of a log that has few of
// the container, an empty page moves on.
const maxScanned = 1 << 20

var (
	errNoLog    = badRequest("The continuation is older than the log of this server reaches back.")
	errNoImages = badRequest("The continuation is from a time when the container had no changeFeedPolicy.")
	errUnlisted = badRequest("Items have expired since the continuation that were not listed one by one (oplogListsExpired is off).")
)

// versionPage collects the events of one page.
type versionPage struct {
	c    *container
	uuid catalog.UUID
	key  []bson.Value
	part *keyPart // nil for all
	from versionPlace
	size int
	rows *rowWriter
	at   versionPlace // the place behind the last event
	full bool
}

// versions reads a page of the feed from a place on, and returns where it ended. Errors: 400.
func (r *request) versions(c *container, key []bson.Value, from versionPlace, size int) (rows *rowWriter, end versionPlace, err error) {
	part, err := r.part(c)
	if err != nil {
		return nil, from, err
	}
	m := r.s.o.Member
	index, err := m.FeedFrom(max(from.time, 1))
	if errors.Is(err, repl.ErrHistoryLost) {
		return nil, from, errNoLog
	}
	if err != nil {
		return nil, from, err
	}
	feed := m.OpenFeed(index)
	defer func() { err = errors.Join(err, feed.Close()) }()
	p := &versionPage{c: c, uuid: c.collection.UUID, key: key, part: part, from: from, size: size, rows: &rowWriter{hold: r.held.Hold(nil)}, at: from}
	for scanned := 0; scanned < maxScanned && !p.full; {
		e, err := feed.Next()
		switch {
		case errors.Is(err, repl.ErrHistoryLost):
			return nil, from, errNoLog
		case err != nil:
			return nil, from, err
		case r.ctx.Err() != nil:
			return nil, from, context.Cause(r.ctx)
		case e == nil:
			return p.rows, p.at, nil
		}
		for i := 0; i < e.Changes() && !p.full; i++ {
			if err := p.change(e.Change(i)); err != nil {
				return nil, from, err
			}
		}
		if scanned += 1 + e.Changes(); !p.full && e.Time >= p.at.time {
			p.at.time, p.at.told = e.Time+1, 0
		}
	}
	return p.rows, p.at, nil
}

// change adds the events of a change, if it is one of the container and of the key.
func (p *versionPage) change(ch oplog.Change) error {
	op := ch.Operation
	if op == nil || op.UUID != p.uuid || op.Silent || ch.Time < p.from.time {
		return nil
	}
	switch op.Kind {
	case catalog.OpInsert:
		return p.tell(ch, version{op: "create", item: op.Doc})
	case catalog.OpUpdate, catalog.OpReplace:
		if bson.Equal(op.Old.Lookup(fieldNumber), op.Doc.Lookup(fieldNumber)) {
			return p.tell(ch, version{op: "replace", old: op.Old, item: op.Doc})
		}
		// A new item took the place of one that had expired and was still there.
		if err := p.tell(ch, version{op: "delete", old: op.Old, expired: true}); err != nil {
			return err
		}
		return p.tell(ch, version{op: "create", item: op.Doc})
	case catalog.OpDelete, catalog.OpExpired:
		if !op.Images {
			return errNoImages
		}
		return p.tell(ch, version{op: "delete", old: op.Before(ch.Of), expired: op.Rule != ""})
	case catalog.OpRange:
		return errUnlisted
	}
	return nil
}

// tell adds an event, unless it was told on an earlier page, or the page is full.
func (p *versionPage) tell(ch oplog.Change, v version) error {
	if p.full {
		return nil
	}
	if !ch.Images {
		return errNoImages
	}
	if ch.Time > p.at.time {
		p.at.time, p.at.told = ch.Time, 0
	}
	if ch.Time == p.from.time && p.at.told < p.from.told {
		p.at.told++
		return nil
	}
	of := v.item
	if of == nil {
		of = v.old
	}
	id := nested(of, "_id")
	if key := nested(id, "p").Slice(); len(key) < len(p.key) || !sameKey(key[:len(p.key)], p.key) || p.part != nil && !p.part.hasKey(key) {
		p.at.told++
		return nil
	}
	if p.full = p.rows.full(p.size); p.full {
		return nil
	}
	p.at.told++
	p.rows.add(bson.Document(p.shown(v, id, int64(ch.Time>>32))))
	return nil
}

// nested is the document in a field; empty if there is none.
func nested(d bson.Doc, name string) bson.Doc {
	if v := d.Lookup(name); v.Type == bson.TypeDocument {
		return v.Doc()
	}
	return bson.Empty
}

// lsn is the number of the write that stored an item.
func lsn(item bson.Doc) int64 {
	if item == nil {
		return 0
	}
	n, _ := bson.ExactInt64(item.Lookup(fieldLSN))
	return n
}

// shown formats an event for clients, given the _id of its item. The number of a delete is
// that of the last write that was told of: on the service, too, several changes have one.
func (p *versionPage) shown(v version, id bson.Doc, seconds int64) bson.Doc {
	var b bson.Builder
	number := lsn(v.item)
	if p.at.lsn = max(p.at.lsn, number, lsn(v.old)); v.item == nil {
		b.Doc("current", bson.Empty)
		number = p.at.lsn
	} else {
		b.Doc("current", present(v.item))
		seconds, _ = bson.ExactInt64(v.item.Lookup(schema.LastWriteField))
	}
	b.OpenDoc("metadata").Int64("lsn", number).Int64("crts", seconds).String("operationType", v.op).Int64("previousImageLSN", lsn(v.old))
	if v.item == nil {
		b.Bool("timeToLiveExpired", v.expired).Value("id", id.Lookup("i")).OpenDoc("partitionKey")
		p.c.key.show(&b, nested(id, "p"))
		b.Close()
	}
	if b.Close(); v.old != nil {
		b.Doc("previous", present(v.old))
	}
	return b.Finish()
}
