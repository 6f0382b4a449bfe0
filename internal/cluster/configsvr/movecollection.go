package configsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// moveCollection moves a collection that is not sharded to a shard. It becomes tracked:
// config.collections has it, with one chunk, which then moves as any other. (Manual:
// moveCollection.)
func (s *Server) moveCollection() *command.Command {
	return newCommand("MoveCollection", command.String(""), s.runMoveCollection, command.String("toShard").Required())
}

// unsplittableKey is the shard key of all tracked collections.
var unsplittableKey = func() *shard.Key {
	k, err := shard.ParseKey(new(bson.Builder).Int32("_id", 1).Finish())
	if err != nil {
		panic(err) // it is one
	}
	return k
}()

func (s *Server) runMoveCollection(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	if err := mayBeSharded(ns); err != nil {
		return err
	}
	to := op.Args.Str("toShard")
	if _, err := s.shard(to); err != nil {
		return err
	}
	db, err := s.existing(databaseOf(ns))
	if err != nil {
		return err
	}
	c, err := s.collection(ns)
	if err != nil {
		return err
	}
	if c.Namespace == "" {
		is, err := s.unsharded(ctx, db, ns)
		if err == nil && is.Namespace == "" {
			err = mongoerr.New(mongoerr.NamespaceNotFound, "Collection %s doesn't exist", ns)
		}
		if err != nil {
			return err
		}
		if db.Primary == to {
			return nil
		}
		if err := s.track(ctx, ns); err != nil {
			return err
		}
	} else if !c.Unsplittable {
		return mongoerr.New(mongoerr.NamespaceNotFound, "MoveCollection can only be called on an unsharded collection.")
	}
	w := wanted{ns: ns, key: unsplittableKey, span: unsplittableKey.Whole(), to: to, force: true}
	if err := s.read(func() error {
		c, m, err := s.mapOf(ns)
		if err != nil {
			return err
		}
		if !c.Unsplittable {
			return mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s was sharded meanwhile", ns)
		}
		w.chunk = m.Find(w.span.Min.Key)
		return nil
	}); err != nil {
		return err
	}
	_, err = s.move(ctx, w)
	return err
}

// track has config.collections name a collection that lies on the primary shard of its
// database and is not sharded. Errors: 20, 26, 72, 166.
func (s *Server) track(ctx context.Context, ns string) error {
	_, err := s.operate(ctx, plan{kind: step.KindShardCollection, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, err := s.collection(ns)
		if err != nil || c.Namespace != "" {
			return decision{nothing: true}, err
		}
		db, err := s.existing(databaseOf(ns))
		if err != nil {
			return decision{}, err
		}
		all, err := s.shards()
		b := new(bson.Builder).String("primary", db.Primary).Strings("shards", ids(all)...).Doc("key", unsplittableKey.Pattern()).Bool("unique", false).Bool("unsplittable", true)
		shard.Version{ShardGeneration: s.generation()}.Append(b, "version")
		return decision{args: b.Finish()}, err
	}})
	return err
}

// abortMoveCollection undoes a moveCollection in progress. (Manual: abortMoveCollection.)
func (s *Server) abortMoveCollection() *command.Command {
	return newCommand("AbortMoveCollection", command.String(""), s.runAbortMoveCollection)
}

func (s *Server) runAbortMoveCollection(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	t, err := s.term()
	if err != nil {
		return err
	}
	c, err := s.collection(ns)
	if err != nil {
		return err
	}
	moves := s.claims.movesOf(ns)
	if !c.Unsplittable || len(moves) == 0 {
		return mongoerr.New(mongoerr.Code(339), "Could not find in-progress moveCollection operation to abort for collection %s", ns)
	}
	for _, number := range moves {
		r := t.find(number)
		if r == nil {
			continue
		}
		t.cancel(number, mongoerr.New(mongoerr.Code(341), "moveCollection of %s was aborted", ns))
		select {
		case <-r.done:
			if r.cause == nil {
				return mongoerr.New(mongoerr.Code(340), "moveCollection of %s has committed already", ns)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// find returns an operation in progress, or nil.
func (t *term) find(number int64) *running {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running[number]
}

// untrackUnshardedCollection makes a tracked collection that lies on the primary shard of
// its database one that is not. (mongod: untrackUnshardedCollection.)
func (s *Server) untrackUnshardedCollection() *command.Command {
	return newCommand("UntrackUnshardedCollection", command.String(""), s.runUntrack)
}

func (s *Server) runUntrack(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	_, err = s.operate(ctx, plan{kind: step.KindUntrack, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, err := s.collection(ns)
		if err != nil || c.Namespace == "" {
			return decision{nothing: true}, err
		}
		if !c.Unsplittable {
			return decision{}, mongoerr.New(mongoerr.InvalidNamespace, "the collection %s is sharded, and stays tracked", ns)
		}
		db, err := s.existing(databaseOf(ns))
		if err != nil {
			return decision{}, err
		}
		m, err := s.chunkMap(&c)
		if err != nil {
			return decision{}, err
		}
		if m.ChunksOn(db.Primary) == 0 {
			return decision{}, mongoerr.New(mongoerr.OperationFailed, "the collection %s is not on the primary shard of its database; move it there first", ns)
		}
		all, err := s.shards()
		if err != nil {
			return decision{}, err
		}
		others := slices.DeleteFunc(ids(all), func(id string) bool { return id == db.Primary })
		d := decision{args: new(bson.Builder).String("primary", db.Primary).Strings("others", others...).Binary("uuid", 4, c.UUID[:]).Bool("unsplittable", true).Finish()}
		d.writes, err = s.forgetting(ns)
		d.writes = append(d.writes, s.logged("untrackUnshardedCollection", ns, bson.Empty))
		return d, err
	}})
	return err
}
