package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// describe answers a recipient: {_shardsvrDescribe: db, after} with what the database has
// here, in the order of names, collection by collection: {name, uuid, view: bool, options,
// indexes, sharding?: {key, unique, epoch, timestamp, version, keyIndex: bool}}; next is where to
// go on. With checks it answers the config servers, which compare it with what they know: indexes
// that are being built are left out, and database is what the shard knows of the database itself.
// Errors: 12587 while an index is being built.
func (r *request) describe(context.Context) error {
	after, checks := "", r.body.Lookup("checks").Truthy()
	if checks {
		have, err := r.s.node.Stored(databases, r.name)
		if err != nil {
			return err
		}
		if have != nil {
			r.reply.Doc("database", have)
		}
	}
	if v := r.body.Lookup("after"); v.Type == bson.TypeString {
		after = v.Str()
	}
	bytes, n := 0, 0
	r.reply.OpenArray("collections")
	last, next := "", ""
	for _, c := range r.s.cat.Collections(r.name) {
		name := c.Namespace.Coll
		if name <= after || name == schema.ViewsCollection || name == schema.ProfileCollection {
			continue
		}
		for _, ix := range c.Indexes() {
			if !ix.Ready && !checks {
				return mongoerr.New(mongoerr.Code(12587), "an index of %s is being built", c.Namespace)
			}
		}
		d := described(c, checks)
		if bytes > 0 && bytes+len(d) > cloneBytes {
			next = last
			break
		}
		r.reply.Doc(bson.Index(n), d)
		n, bytes, last = n+1, bytes+len(d), name
	}
	r.reply.Close()
	if next != "" {
		r.reply.String("next", next)
	}
	return nil
}

// described is what another shard needs to make a collection like c; with checks also what the
// shard knows of its part of it.
func described(c *catalog.Collection, checks bool) bson.Doc {
	b := new(bson.Builder).String("name", c.Namespace.Coll).Binary("uuid", 4, c.UUID[:]).Bool("view", c.IsView())
	options := c.Options
	if options == nil {
		options = bson.Empty
	}
	b.Doc("options", options).OpenArray("indexes")
	i := 0
	for _, ix := range c.Indexes() {
		if ix.Ready {
			b.Doc(bson.Index(i), ix.Spec)
			i++
		}
	}
	b.Close()
	if s := c.Sharding(); s != nil {
		b.OpenDoc("sharding").Doc("key", s.Key.Pattern()).Bool("unique", s.Unique).ObjectID("epoch", s.Version.Epoch).Timestamp("timestamp", s.Version.Timestamp)
		if checks {
			s.Version.Append(b, "version")
			b.Bool("keyIndex", c.ShardKeyIndex() != nil)
		}
		b.Close()
	}
	return b.Finish()
}

// makeLike makes a collection or a view as another shard has described it, with its UUID and
// its indexes, at no version. Errors: 48.
func (s *Shard) makeLike(ctx context.Context, ns schema.Namespace, d bson.Doc, entry *schema.Sharding) error {
	options, id := d.Lookup("options").Doc().Clone(), d.Lookup("uuid")
	if d.Lookup("view").Truthy() {
		_, err := s.run(ctx, ns.DB, new(bson.Builder).String("create", ns.Coll).Fields(options).Finish())
		return err
	}
	n := catalog.NewCollection{Options: options, Sharding: entry}
	if id.Type == bson.TypeBinary {
		_, content := id.Binary()
		copy(n.UUID[:], content)
	}
	if _, err := s.cat.CreateWith(ctx, ns, n); err != nil {
		return err
	}
	return s.makeIndexes(ctx, ns, d.Lookup("indexes"))
}

// makeIndexes makes indexes that are described, but for that on _id.
func (s *Shard) makeIndexes(ctx context.Context, ns schema.Namespace, list bson.Value) error {
	var specs []bson.Doc
	if list.Type == bson.TypeArray {
		for ix := range list.Doc().Values() {
			if ix.Type == bson.TypeDocument && ix.Doc().Lookup("name").String() != `"_id_"` && !ix.Doc().Lookup("clustered").Truthy() {
				specs = append(specs, ix.Doc().Clone())
			}
		}
	}
	if len(specs) == 0 {
		return nil
	}
	_, _, err := s.cat.CreateIndexes(ctx, ns, specs)
	return err
}
