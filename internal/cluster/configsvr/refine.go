package configsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/shard"
)

// refineCollectionShardKey adds fields to the end of a collection's shard key.
// (Manual: refineCollectionShardKey.)
func (s *Server) refineCollectionShardKey() *command.Command {
	return newCommand("RefineCollectionShardKey", command.String(""), s.runRefine,
		command.Object("key").Required(), command.UUID("collectionUUID"))
}

func (s *Server) runRefine(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	key, err := shard.ParseKey(op.Args.Doc("key"))
	if err != nil {
		return err
	}
	if err := s.exists(ctx, ns); err != nil {
		return err
	}
	_, err = s.operate(ctx, plan{op: op, kind: step.KindRefine, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, err := s.sharded(ns)
		if err == nil {
			err = c.checkUUID(op)
		}
		if err == nil {
			err = c.noSeries("refineCollectionShardKey")
		}
		if err != nil || c.Key.Same(key) {
			return decision{nothing: true}, err
		}
		if err := shard.CheckRefined(c.Key, key); err != nil {
			return decision{}, err
		}
		owners, err := s.owners(&c)
		if err != nil {
			return decision{}, err
		}
		db, err := s.existing(databaseOf(ns))
		g := s.generation()
		b := new(bson.Builder).Strings("shards", owners...).String("primary", db.Primary).Doc("key", key.Pattern()).Doc("oldKey", c.Key.Pattern()).OpenDoc("generation").ObjectID("epoch", g.Epoch).Timestamp("timestamp", g.Timestamp).Close()
		args := b.Finish()
		return decision{args: args, commitment: commitment{writes: []write{s.logged("refineCollectionShardKey.start", ns, args)}}}, err
	}})
	return err
}

func (s *Server) commitRefine(o *step.Operation, _ step.Answers) (commitment, error) {
	c, m, err := s.mapOf(o.Namespace)
	if err != nil {
		return commitment{}, err
	}
	key, err := shard.ParseKey(o.Args.Lookup("key").Doc())
	if err != nil {
		return commitment{}, err
	}
	of := o.Args.Lookup("generation").Doc()
	g := shard.Generation{Epoch: of.Lookup("epoch").ObjectID(), Timestamp: of.Lookup("timestamp").Timestamp()}
	list, err := m.Refine(key, g)
	if err != nil {
		return commitment{}, err
	}
	refined, err := shard.NewMap(o.Namespace, key, g, list)
	if err != nil {
		return commitment{}, err
	}
	next := collectionDoc{Namespace: c.Namespace, UUID: c.UUID, Key: key, Generation: g}
	writes := next.chunkWrites(shard.Change{Put: list})
	docs, err := s.tagDocs(o.Namespace)
	if err != nil {
		return commitment{}, err
	}
	for _, d := range docs {
		z, err := c.Key.ParseZone(d)
		if err != nil {
			return commitment{}, err
		}
		z.Range = shard.RefineRange(c.Key, key, z.Range)
		writes = append(writes, put(tags, key.ZoneDoc(d.Lookup("_id").ObjectID(), o.Namespace, z)))
	}
	writes = append(writes, put(collections, with(c.doc, field{"key", bson.Document(key.Pattern())}, field{"lastmodEpoch", bson.ObjectID(g.Epoch)},
		field{"timestamp", bson.Timestamp(g.Timestamp)}, field{"lastmod", bson.Date(time.Now().UnixMilli())})), s.logged("refineCollectionShardKey.end", o.Namespace, bson.Empty))
	b := new(bson.Builder)
	versionsOf(b, refined, textsOf(o.Args, "shards"))
	return commitment{writes: writes, told: b.Finish(), after: func() { s.keep(c.UUID, refined) }}, nil
}
