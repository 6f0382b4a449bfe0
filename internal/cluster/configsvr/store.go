package configsvr

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The collections of config, by name.
const (
	versions    = "version"
	shards      = "shards"
	databases   = "databases"
	collections = "collections"
	chunks      = "chunks"
	tags        = "tags"
	settings    = "settings"
	changelog   = "changelog"
	actionlog   = "actionlog"
	operations  = "operations"
)

// collectionSpec is a collection that every cluster has.
type collectionSpec struct {
	name    string
	options string
	indexes []string
}

// Sizes of the capped collections are mongod's.
var specs = []collectionSpec{
	{versions, `{}`, nil}, {databases, `{}`, nil}, {collections, `{}`, nil}, {operations, `{}`, nil}, {"mongos", `{}`, nil}, {node.BlockNamespace.Coll, `{}`, nil}, {node.ParametersNamespace.Coll, `{}`, nil}, {"locks", `{}`, nil},
	{shards, `{}`, []string{`{v: 2, key: {host: 1}, name: "host_1", unique: true}`}},
	{chunks, `{}`, []string{
		`{v: 2, key: {uuid: 1, min: 1}, name: "uuid_1_min_1", unique: true}`,
		`{v: 2, key: {uuid: 1, shard: 1, min: 1}, name: "uuid_1_shard_1_min_1", unique: true}`,
		`{v: 2, key: {uuid: 1, lastmod: 1}, name: "uuid_1_lastmod_1", unique: true}`,
	}},
	{tags, `{}`, []string{`{v: 2, key: {ns: 1, min: 1}, name: "ns_1_min_1", unique: true}`, `{v: 2, key: {ns: 1, tag: 1}, name: "ns_1_tag_1"}`}},
	{settings, settingsOptions, nil},
	{queryAnalyzers, `{}`, []string{`{v: 2, key: {ns: 1}, name: "ns_1"}`}},
	{sampledQueries, `{}`, []string{`{v: 2, key: {expireAt: 1}, name: "expireAt_1", expireAfterSeconds: 0}`, `{v: 2, key: {ns: 1}, name: "ns_1"}`}},
	{changelog, `{capped: true, size: 209715200}`, nil}, {actionlog, `{capped: true, size: 20971520}`, nil},
}

// settingsOptions validate config.settings, so that shells cannot write settings that
// shard.Settings would ignore.
const settingsOptions = `{validator: {$jsonSchema: {oneOf: [
	{properties: {_id: {enum: ["chunksize"]}, value: {bsonType: "number", minimum: 1, maximum: 1024}}, required: ["value"], additionalProperties: false},
	{properties: {_id: {enum: ["balancer"]}, mode: {enum: ["full", "off"]}, stopped: {bsonType: "bool"},
		activeWindow: {bsonType: "object", required: ["start", "stop"], additionalProperties: false,
			properties: {start: {bsonType: "string", pattern: "^([0-9]|0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]$"}, stop: {bsonType: "string", pattern: "^([0-9]|0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]$"}}},
		_secondaryThrottle: {bsonType: "bool"}, _waitForDelete: {enum: [false]}, attemptToBalanceJumboChunks: {bsonType: "bool"},
		maxMBPerSecond: {bsonType: "number", minimum: 0, maximum: 1048576, multipleOf: 1}}, additionalProperties: false},
	{properties: {_id: {enum: ["autosplit"]}, enabled: {bsonType: "bool"}}, additionalProperties: false},
	{properties: {_id: {enum: ["automerge"]}, enabled: {bsonType: "bool"}}, additionalProperties: false},
	{properties: {_id: {enum: ["ReadWriteConcernDefaults", "audit", "configShardMode"]}}}
]}}}`

func namespace(name string) schema.Namespace { return schema.Namespace{DB: "config", Coll: name} }

// prepare creates the collections and the id of a new cluster.
func (s *Server) prepare(ctx context.Context) error {
	for _, c := range specs {
		ns := namespace(c.name)
		if s.Catalog.Lookup(ns) == nil {
			if _, err := s.Catalog.Create(ctx, ns, bson.MustParse(c.options)); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
				return err
			}
		} else if err := s.updateOptions(ctx, c); err != nil {
			return err
		}
		var indexes []bson.Doc
		for _, text := range c.indexes {
			indexes = append(indexes, bson.MustParse(text))
		}
		if len(indexes) > 0 {
			if _, _, err := s.Catalog.CreateIndexes(ctx, ns, indexes); err != nil {
				return err
			}
		}
	}
	d, err := s.stored(versions, bson.Int32(1))
	if d != nil || err != nil {
		return err
	}
	return s.commit(ctx, put(versions, new(bson.Builder).Int32("_id", 1).ObjectID("clusterId", s.newID()).Finish()))
}

// updateOptions gives the validator of config.settings to one that an older version has made.
func (s *Server) updateOptions(ctx context.Context, c collectionSpec) error {
	want := bson.MustParse(c.options)
	validator := want.Lookup("validator")
	have := s.Catalog.Lookup(namespace(c.name)).Options
	if validator.IsMissing() || bson.Equal(have.Lookup("validator"), validator) {
		return nil
	}
	_, err := s.Catalog.Modify(ctx, namespace(c.name), func(coll *catalog.Collection) (catalog.Modification, error) {
		b := new(bson.Builder)
		b.Reset(nil)
		for name, v := range coll.Options.All() {
			if name != "validator" {
				b.Value(name, v)
			}
		}
		return catalog.Modification{Options: b.Value("validator", validator).Finish()}, nil
	})
	return err
}

// clusterID returns the id of the cluster.
func (s *Server) clusterID() (bson.Value, error) {
	d, err := s.stored(versions, bson.Int32(1))
	if err == nil && d == nil {
		err = mongoerr.New(mongoerr.ShardingStateNotInitialized, "config.version has no document")
	}
	return d.Lookup("clusterId"), err
}

// write replaces or inserts the document with an _id, or removes it.
type write struct {
	coll   string
	doc    bson.Doc
	remove bool
}

func put(coll string, d bson.Doc) write { return write{coll: coll, doc: d} }

func remove(coll string, id bson.Value) write {
	return write{coll: coll, doc: new(bson.Builder).Value("_id", id).Finish(), remove: true}
}

// commit commits writes in one unit, with majority. Some of them the balancer goes by.
func (s *Server) commit(ctx context.Context, writes ...write) error {
	if len(writes) == 0 {
		return nil
	}
	if slices.ContainsFunc(writes, func(w write) bool { return w.coll == settings || w.coll == shards || w.coll == tags }) {
		defer s.balanceSoon()
	}
	s.terms.Lock()
	t := s.terms.taken
	s.terms.Unlock()
	return s.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		for i := range writes {
			if err := s.apply(ctx, u, &writes[i]); err != nil {
				return err
			}
		}
		if t != nil && t.ctx.Err() != nil { // asked within the unit, which is of one term (invariant own-term)
			return errDeposed
		}
		return nil
	})
}

func (s *Server) apply(ctx context.Context, u *catalog.Unit, w *write) error {
	c := s.Catalog.Lookup(namespace(w.coll))
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "config.%s does not exist", w.coll)
	}
	id := w.doc.Lookup("_id")
	if c.Capped {
		return u.Insert(ctx, c, w.doc)
	}
	key := c.AppendIDKey(nil, id)
	old, err := u.LockRecord(ctx, c, key)
	switch {
	case err != nil:
		return err
	case w.remove && old == nil:
		return nil
	case w.remove:
		return u.Delete(ctx, c, key, old)
	case old == nil:
		return u.Insert(ctx, c, w.doc)
	}
	return u.Update(ctx, c, key, old, w.doc)
}

// stored returns the document of a collection with an _id, or nil.
func (s *Server) stored(coll string, id bson.Value) (bson.Doc, error) {
	return s.Catalog.Kept(namespace(coll), id)
}

// all returns the documents of a collection, in the order of their _id.
func (s *Server) all(coll string) (docs []bson.Doc, err error) {
	err = s.each(coll, func(d bson.Doc) error {
		docs = append(docs, d.Clone())
		return nil
	})
	return docs, err
}

// each calls f with the documents of a collection, in the order of their _id. f must
// copy what it keeps.
func (s *Server) each(coll string, f func(bson.Doc) error) error {
	return s.eachIn(s.Catalog.Engine(), coll, f)
}

// eachIn is each in a state of the store.
func (s *Server) eachIn(state storage.Reader, coll string, f func(bson.Doc) error) (err error) {
	c := s.Catalog.Lookup(namespace(coll))
	if c == nil {
		return nil
	}
	it, err := state.NewIter(c.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := f(bson.Doc(v)); err != nil {
			return err
		}
	}
	return nil
}

// logged returns an entry for config.changelog.
func (s *Server) logged(what, ns string, details bson.Doc) write {
	id, now := s.newID(), time.Now()
	b := new(bson.Builder).String("_id", s.Host+"-"+now.UTC().Format(time.RFC3339)+"-"+bson.FormatObjectID(id))
	b.String("server", s.Host).String("shard", "config").String("clientAddr", "").Date("time", now.UnixMilli()).String("what", what).String("ns", ns).Doc("details", details)
	return put(changelog, b.Finish())
}

// sleep waits for d or until ctx ends.
func (s *Server) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
