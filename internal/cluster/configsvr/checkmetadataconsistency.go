package configsvr

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxInconsistencies bounds what one command finds, which is kept until it is read: some 30 MB.
const maxInconsistencies = 100_000

// checkMetadataConsistency compares what config.* says with itself, and with what the shards
// know and have: {_configsvrCheckMetadataConsistency: "" | database | namespace, checkIndexes,
// cursor}. (Manual: checkMetadataConsistency.)
func (s *Server) checkMetadataConsistency() *command.Command {
	return newCommand("CheckMetadataConsistency", command.String(""), s.runCheckMetadata,
		command.SafeBool("checkIndexes"), command.Struct("cursor", command.NewFields("checkMetadataConsistency.cursor", command.SafeInt64("batchSize").Min(0))))
}

func (s *Server) runCheckMetadata(ctx context.Context, op *command.Op) error {
	sc := scope{of: ofBuckets(value(op)), indexes: op.Args.Bool("checkIndexes")}
	found, err := s.inconsistencies(ctx, sc)
	if err != nil {
		return err
	}
	for _, d := range found {
		s.Log.WarnContext(ctx, "Detected sharding metadata inconsistency", "id", 7514800, "inconsistency", d.String())
	}
	db := databaseOf(sc.of)
	if db == "" {
		db = "admin"
	}
	batch := int64(command.DefaultBatch)
	if cursor, ok := op.Args.Struct("cursor"); ok {
		batch = cursor.Int64Or("batchSize", batch)
	}
	return command.WriteCursorReply(ctx, op, command.CursorSpec{NS: db + ".$cmd.aggregate", Cursor: command.Documents(found), BatchSize: batch})
}

// scope is what is checked: all, a database, or a collection.
type scope struct {
	of      string
	indexes bool
}

// has reports whether a database or a collection is in the scope.
func (sc scope) has(name string) bool { return sc.of == "" || overlap(sc.of, name) }

// names reports whether what is called so on a shard is looked at.
func (sc scope) names(ns string) bool { return sc.of == "" || sc.of == databaseOf(ns) || sc.of == ns }

// inconsistencies returns what is wrong. What config.* says is one state of the store. What
// shards know is asked one after the other, while chunks move; so it is told only if it is the
// same twice.
func (s *Server) inconsistencies(ctx context.Context, sc scope) ([]bson.Doc, error) {
	_, first, err := s.inspect(ctx, sc)
	if err != nil {
		return nil, err
	}
	if len(first) > 0 {
		s.sleep(ctx, s.Pause)
	}
	own, second, err := s.inspect(ctx, sc)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, d := range first {
		seen[string(d)] = true
	}
	return append(own, slices.DeleteFunc(second, func(d bson.Doc) bool { return !seen[string(d)] })...), nil
}

// inspect looks once: own is what is wrong in config.*, others what shards know or have that is
// not what it says. It waits for DDL, as long as a DDL does. Error 117.
func (s *Server) inspect(ctx context.Context, sc scope) (own, others []bson.Doc, err error) {
	for deadline := time.Now().Add(claimWait); ; s.sleep(ctx, s.Pause) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		before, err := s.metadata(sc)
		if err != nil {
			return nil, nil, err
		}
		busy := before.busy(sc)
		if busy == "" {
			has, err := s.askCatalogs(ctx, before)
			if err != nil {
				return nil, nil, err
			}
			after, err := s.metadata(sc)
			if err != nil {
				return nil, nil, err
			}
			if busy = after.busy(sc); busy == "" {
				j := judgement{sc: sc, before: before, after: after, has: has}
				j.all()
				if len(before.found)+len(j.found) > maxInconsistencies {
					return nil, nil, mongoerr.New(mongoerr.ExceededMemoryLimit, "there are more than %d inconsistencies: check each database, or each collection, by itself", maxInconsistencies)
				}
				return before.found, j.found, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, nil, mongoerr.New(mongoerr.ConflictingOperationInProgress, "Another operation with which it conflicts is in progress: %s", busy)
		}
	}
}

// busy names an operation under way that changes what is to be looked at; "" for none. Moves, and
// a resharding before its commit, change nothing but what judgement leaves out.
func (m *metadata) busy(sc scope) string {
	for i := range m.operations {
		o := &m.operations[i]
		switch {
		case o.Kind == step.KindMove || o.Kind == step.KindChunks || o.Kind == step.KindSettings:
		case o.Kind == step.KindReshard && o.Phase != step.Committed:
		case o.Kind == step.KindIndexes && !sc.indexes:
		case o.Kind == step.KindAddShard || o.Kind == step.KindRemoveShard || sc.has(o.Namespace) || sc.has(text(o.Args, "to")):
			return o.Kind + " of " + o.Namespace
		}
	}
	return ""
}

// local is a collection as a shard has it.
type local struct {
	name             string
	uuid             bson.Value
	options, indexes bson.Doc
	sharding         bson.Doc // nil: it is not sharded, for this shard
	view             bool
}

// catalogOf is what a shard has of the databases that are looked at.
type catalogOf struct {
	databases   map[string]bson.Doc // its documents in config.cache.databases
	collections map[string]*local   // by namespace
}

// askCatalogs asks all shards what they have, one request to a shard at a time.
func (s *Server) askCatalogs(ctx context.Context, m *metadata) (map[string]*catalogOf, error) {
	all := make([]*catalogOf, len(m.shards))
	errs := make([]error, len(m.shards))
	var asked sync.WaitGroup
	for i, sh := range m.shards {
		asked.Go(func() { all[i], errs[i] = s.askCatalog(ctx, m, sh) })
	}
	asked.Wait()
	out := map[string]*catalogOf{}
	for i, sh := range m.shards {
		if errs[i] != nil {
			return nil, mongoerr.Prefix(errs[i], sh.ID)
		}
		out[sh.ID] = all[i]
	}
	return out, nil
}

func (s *Server) askCatalog(ctx context.Context, m *metadata, sh shardDoc) (*catalogOf, error) {
	out := &catalogOf{databases: map[string]bson.Doc{}, collections: map[string]*local{}}
	for _, db := range m.databases {
		for after, more := "", true; more; {
			reply, err := s.Shards.Ask(ctx, sh.Host, "admin", new(bson.Builder).String("_shardsvrDescribe", db.Name).String("after", after).Bool("checks", true).Finish())
			if err != nil {
				return nil, err
			}
			if d := reply.Lookup("database"); d.Type == bson.TypeDocument {
				out.databases[db.Name] = d.Doc()
			}
			if list := reply.Lookup("collections"); list.Type == bson.TypeArray {
				for v := range list.Doc().Values() {
					out.add(db.Name, v.Doc())
				}
			}
			after = text(reply, "next")
			more = after != ""
		}
	}
	return out, nil
}

// add notes a collection of a shard. The buckets of a time series are told beside it, and what
// is said of sharding is said of them.
func (c *catalogOf) add(db string, d bson.Doc) {
	l := &local{name: ofBuckets(db + "." + text(d, "name")), uuid: d.Lookup("uuid"), view: d.Lookup("view").Truthy()}
	document := func(name string) bson.Doc {
		if v := d.Lookup(name); v.Type == bson.TypeDocument || v.Type == bson.TypeArray {
			return v.Doc()
		}
		return nil
	}
	l.options, l.indexes, l.sharding = document("options"), document("indexes"), document("sharding")
	if have := c.collections[l.name]; have == nil || l.sharding != nil {
		c.collections[l.name] = l
	}
}
