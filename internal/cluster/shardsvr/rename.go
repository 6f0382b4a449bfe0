package shardsvr

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// rename answers {_shardsvrRename: ns, to, uuid, version, dropTarget, stayTemp}: the collection, with
// the UUID if one is given, gets the name, and one that has the name already is dropped if
// it has the UUID dropTarget. Where it is not there any more, the request was executed
// before. {…, check: true, dropTarget: bool or UUID, obsolete: bool} only tells whether that is
// possible: {uuid, target}, the UUIDs of both; with obsolete what is sharded under the new name
// is not in the way. Errors: 26, 48, 166, 361.
func (r *request) rename(ctx context.Context) error {
	v := r.body.Lookup("to")
	if v.Type != bson.TypeString {
		return mongoerr.New(mongoerr.BadValue, "the request needs to: %s", r.body)
	}
	to := schema.ParseNamespace(v.Str())
	c, target := r.s.cat.Lookup(r.ns), r.s.cat.Lookup(to)
	if r.body.Lookup("check").Truthy() {
		return r.checkRename(c, target, to)
	}
	executed := c == nil || r.body.Has("uuid") && !r.isUUID(c)
	if !executed {
		// What is sharded there and is not what the config servers know of is of an earlier life.
		drop := target != nil && (hasUUID(target, r.body.Lookup("dropTarget")) || target.Sharding() != nil && r.body.Has("version"))
		rename := r.s.cat.Rename
		if r.body.Lookup("stayTemp").Truthy() {
			rename = r.s.cat.RenameTemporary
		}
		if _, err := rename(ctx, r.ns, to, drop); err != nil {
			return err
		}
	}
	r.ns = to
	if c := r.s.cat.Lookup(to); c == nil || c.Sharding() == nil || !r.body.Has("version") {
		return nil
	}
	return r.tell(ctx, func(s *schema.Sharding) error {
		s.Blocked = nil
		return r.toVersion(s)
	})
}

// outPrefix begins the names of the collections that $out makes, which then replace its target.
// Of these, a time series may be one.
const outPrefix = "tmp.agg_out."

func (r *request) checkRename(c, target *catalog.Collection, to schema.Namespace) error {
	drop, obsolete := r.body.Lookup("dropTarget"), r.body.Lookup("obsolete").Truthy()
	switch {
	case drop.Type == bson.TypeBinary && !obsolete && (target == nil || !hasUUID(target, drop)):
		return mongoerr.New(mongoerr.CollectionUUIDMismatch, "Collection UUID does not match that specified")
	case c == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", r.ns)
	case c.SeenAsView() && !(c.IsTimeseries() && strings.HasPrefix(r.ns.Coll, outPrefix)):
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "cannot rename view: %s", r.ns)
	case target != nil && target.SeenAsView() && !(target.IsTimeseries() && c.IsTimeseries()):
		return mongoerr.New(mongoerr.NamespaceExists, "a view already exists with that name: %s", to)
	case target != nil && target.Sharding() != nil && obsolete:
	case target != nil && !drop.Truthy():
		return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
	}
	r.reply.Binary("uuid", 4, c.UUID[:])
	if target != nil {
		r.reply.Binary("target", 4, target.UUID[:])
	}
	return nil
}
