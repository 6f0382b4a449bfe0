package configsvr

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// indexes runs createIndexes, dropIndexes or collMod on all shards of a sharded
// collection. The command's value is the namespace, its field "command" what the
// client has sent; the reply has raw, keyed by the shards' hosts.
func (s *Server) indexes(name string) *command.Command {
	return newCommand(name, command.String(""), s.runIndexes, command.Object("command").Required())
}

func (s *Server) runIndexes(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	asked := op.Args.Doc("command")
	var owners []string
	var before map[string][]string
	var key *shard.Key // nil if the collection is not sharded
	name, _ := asked.First()
	if err := onlyClients(op, asked); err != nil {
		return err
	}
	if err := s.read(func() error {
		c, err := s.tracked(ns)
		if err == nil && name == "createIndexes" {
			err = uniqueOverShards(&c, asked)
		}
		if err == nil && c.Timeseries != nil && name == "collMod" && asked.Has("timeseries") { // it says where measurements belong
			err = mongoerr.New(mongoerr.InvalidOptions, "the granularity of a sharded time-series collection cannot be changed: %s", ns)
		}
		if err == nil {
			owners, err = s.owners(&c)
			key = c.Key
			if c.Unsplittable {
				key = nil
			}
		}
		return err
	}); err != nil {
		return err
	}
	var dry bson.Doc
	if name == "collMod" {
		if dry, err = s.makesUnique(ctx, ns, key, owners, asked); err != nil {
			return err
		}
	}
	if name == "createIndexes" {
		if before, err = s.indexesOn(ctx, ns, owners); err != nil {
			return err
		}
	}
	got, err := s.operate(ctx, plan{op: op, kind: step.KindIndexes, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, err := s.tracked(ns)
		if err != nil {
			return decision{}, err
		}
		now, err := s.owners(&c)
		b := new(bson.Builder).Strings("shards", now...).Doc("command", asked)
		if dry != nil {
			b.Doc("dry", dry)
		}
		if before != nil {
			b.OpenDoc("undo")
			for _, id := range now {
				b.Strings(id, fresh(asked, before[id])...)
			}
			b.Close()
		}
		return decision{args: b.Finish()}, err
	}})
	if err != nil {
		return err
	}
	if dry != nil { // a dry run and the run of each
		got = got[len(got)/2:]
	}
	slices.SortFunc(got, func(a, b step.Answer) int { return strings.Compare(a.Shard, b.Shard) })
	b := op.Reply.OpenDoc("raw")
	for _, a := range got {
		sh, err := s.shard(a.Shard)
		if err != nil {
			return err
		}
		b.OpenDoc(sh.Host)
		for name, v := range a.Reply.All() {
			if name != "$clusterTime" && name != "operationTime" {
				b.Value(name, v)
			}
		}
		b.Close()
	}
	b.Close()
	return nil
}

// onlyClients rejects in a client's indexes what only servers add. Error 197.
func onlyClients(op *command.Op, asked bson.Doc) error {
	indexes := asked.Lookup("indexes")
	if op.Client != nil && op.Client.Internal || indexes.Type != bson.TypeArray {
		return nil
	}
	for v := range indexes.Doc().Values() {
		if v.Type == bson.TypeDocument && schema.HasOwn(v.Doc()) {
			return mongoerr.New(mongoerr.InvalidIndexSpecificationOption, "The specification has a field that is not valid: %s", v.Doc())
		}
	}
	return nil
}

// uniqueOverShards checks that unique indexes of a sharded collection are unique over all
// shards: they begin with the fields of the shard key, or with _id. Error 67.
func uniqueOverShards(c *collectionDoc, asked bson.Doc) error {
	indexes := asked.Lookup("indexes")
	if c.Unsplittable || indexes.Type != bson.TypeArray {
		return nil
	}
	for v := range indexes.Doc().Values() {
		if v.Type != bson.TypeDocument || !v.Doc().Lookup("unique").Truthy() && !v.Doc().Lookup("prepareUnique").Truthy() {
			continue
		}
		if key := v.Doc().Lookup("key"); key.Type == bson.TypeDocument && !c.Key.AllowsUnique(key.Doc()) {
			return mongoerr.New(mongoerr.CannotCreateIndex, "cannot create unique index over %s with shard key pattern %s", key.Doc(), c.Key)
		}
	}
	return nil
}

// makesUnique checks a collMod that makes an index unique, or prepares one for it: it has to be
// unique over all shards. If it makes one unique, dry is the same as a dry run, since each
// shard has to agree before any does it. Errors: 72, and those of listIndexes.
func (s *Server) makesUnique(ctx context.Context, ns string, key *shard.Key, on []string, asked bson.Doc) (dry bson.Doc, err error) {
	index := asked.Lookup("index")
	if key == nil || index.Type != bson.TypeDocument {
		return nil, nil
	}
	unique := index.Doc().Lookup("unique").Truthy()
	if !unique && !index.Doc().Lookup("prepareUnique").Truthy() {
		return nil, nil
	}
	specs, err := s.specsOn(ctx, ns, on[0])
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		pattern := spec.Lookup("key")
		named := index.Doc().Has("name") && bson.Equal(index.Doc().Lookup("name"), spec.Lookup("name"))
		if (named || bson.Equal(index.Doc().Lookup("keyPattern"), pattern)) && !key.AllowsUnique(pattern.Doc()) {
			return nil, mongoerr.New(mongoerr.InvalidOptions, "cannot make the index over %s unique with shard key pattern %s", pattern, key)
		}
	}
	if !unique || asked.Lookup("dryRun").Truthy() {
		return nil, nil
	}
	return with(asked, field{"dryRun", bson.True}), nil
}

// fresh returns the names of the indexes that createIndexes would create.
func fresh(asked bson.Doc, have []string) (out []string) {
	for v := range asked.Lookup("indexes").Doc().Values() {
		if v.Type != bson.TypeDocument {
			continue
		}
		if name := text(v.Doc(), "name"); name != "" && !slices.Contains(have, name) {
			out = append(out, name)
		}
	}
	return out
}

// indexesOn returns the names of a collection's indexes on each of the shards.
func (s *Server) indexesOn(ctx context.Context, ns string, on []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, id := range on {
		specs, err := s.specsOn(ctx, ns, id)
		if err != nil {
			return nil, err
		}
		for _, spec := range specs {
			out[id] = append(out[id], text(spec, "name"))
		}
	}
	return out, nil
}

// specsOn returns the specifications of a collection's indexes on a shard.
func (s *Server) specsOn(ctx context.Context, ns, id string) (specs []bson.Doc, err error) {
	sh, err := s.shard(id)
	if err != nil {
		return nil, err
	}
	db, coll, _ := strings.Cut(ns, ".")
	reply, err := s.Shards.Ask(ctx, sh.Host, db, new(bson.Builder).String("listIndexes", coll).OpenDoc("cursor").Int32("batchSize", 1000).Close().Finish())
	if err != nil {
		return nil, err
	}
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		specs = append(specs, v.Doc())
	}
	return specs, nil
}
