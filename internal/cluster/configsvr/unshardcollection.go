package configsvr

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// unshards are the collections that are being unsharded: the balancer leaves them alone.
type unshards struct {
	mu      sync.Mutex
	cancels map[string]context.CancelCauseFunc
}

// begin notes a collection; the context ends with end, or by abort. Error 338 if it is noted
// already.
func (u *unshards) begin(ctx context.Context, ns string) (_ context.Context, end func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancels[ns] != nil {
		return nil, nil, mongoerr.New(mongoerr.Code(338), "the collection %s is being unsharded already", ns)
	}
	if u.cancels == nil {
		u.cancels = map[string]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	u.cancels[ns] = cancel
	return ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.cancels, ns)
		cancel(nil)
	}, nil
}

func (u *unshards) has(ns string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cancels[ns] != nil
}

// abort ends the work on a collection, and returns whether there was any.
func (u *unshards) abort(ns string, cause error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	cancel := u.cancels[ns]
	if cancel != nil {
		cancel(cause)
	}
	return cancel != nil
}

// unshardCollection brings all chunks of a collection to one shard, where it then is a
// collection that is not sharded. (Manual: unshardCollection.)
func (s *Server) unshardCollection() *command.Command {
	return newCommand("UnshardCollection", command.String(""), s.runUnshard, command.String("toShard"))
}

func (s *Server) runUnshard(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	if _, err := s.existing(databaseOf(ns)); err != nil {
		return err
	}
	c, err := s.sharded(ns)
	if err == nil {
		err = c.noSeries("unshardCollection")
	}
	if err != nil {
		return err
	}
	to := op.Args.Str("toShard")
	if to == "" {
		if to, err = s.emptiest(ctx); err != nil {
			return err
		}
	}
	if _, err := s.shard(to); err != nil {
		return err
	}
	ctx, end, err := s.unshards.begin(ctx, ns)
	if err != nil {
		return err
	}
	defer end()
	for {
		if err := s.gather(ctx, ns, to); err != nil {
			return err
		}
		// 117: a range that was given away is not removed yet, or chunks were changed.
		err := s.unshard(ctx, ns, to)
		if !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
			return err
		}
		if s.sleep(ctx, s.Pause); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// gather moves all chunks of a collection to one shard, and merges them there.
func (s *Server) gather(ctx context.Context, ns, to string) error {
	for {
		w := wanted{ns: ns, to: to, force: true}
		var joined shard.Range
		n, found := 0, false
		err := s.read(func() error {
			c, m, err := s.shardedMap(ns)
			if err != nil {
				return err
			}
			w.key = c.Key
			for chunk := range m.Chunks() {
				if chunk.Shard != to {
					w.chunk, w.span, found = chunk, chunk.Range, true
					return nil
				}
			}
			joined, n = adjacent(m, func(*shard.Chunk) bool { return true }, chunksAtATime)
			return nil
		})
		switch {
		case err != nil:
			return err
		case found:
			_, err = s.move(ctx, w)
		case n >= 2:
			err = s.changeChunks(ctx, ns, "merge", func(_ *collectionDoc, m *shard.Map) (shard.Change, error) { return m.Merge(joined) })
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unshard makes a collection that lies on one shard, as one chunk, one that is not sharded.
// Errors: 117 if it does not lie so.
func (s *Server) unshard(ctx context.Context, ns, to string) error {
	_, err := s.operate(ctx, plan{kind: step.KindUnshard, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, err := s.sharded(ns)
		if err != nil {
			return decision{}, err
		}
		if err := s.gathered(&c, to); err != nil {
			return decision{}, err
		}
		owners, err := s.owners(&c)
		g := s.generation()
		b := new(bson.Builder).Strings("shards", owners...).String("to", to).Doc("key", unsplittableKey.Pattern()).
			OpenDoc("generation").ObjectID("epoch", g.Epoch).Timestamp("timestamp", g.Timestamp).Close().Bool("unsplittable", true)
		args := b.Finish()
		return decision{args: args, commitment: commitment{writes: []write{s.logged("unshardCollection.start", ns, args)}}}, err
	}})
	return err
}

// gathered checks that a collection is one chunk on a shard. Errors: 117.
func (s *Server) gathered(c *collectionDoc, on string) error {
	m, err := s.chunkMap(c)
	if err == nil && (m.Len() != 1 || m.ChunksOn(on) != 1) {
		err = mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", c.Namespace)
	}
	return err
}

func (s *Server) commitUnshard(o *step.Operation, _ step.Answers) (commitment, error) {
	c, m, err := s.shardedMap(o.Namespace)
	if err != nil {
		return commitment{}, err
	}
	to := text(o.Args, "to")
	if err := s.gathered(c, to); err != nil {
		return commitment{}, err
	}
	of := o.Args.Lookup("generation").Doc()
	g := shard.Generation{Epoch: of.Lookup("epoch").ObjectID(), Timestamp: of.Lookup("timestamp").Timestamp()}
	chunk := m.Find(c.Key.Min().Key)
	chunk.Range, chunk.Version, chunk.Jumbo = unsplittableKey.Whole(), shard.Version{ShardGeneration: g, Major: 1}, false
	next := collectionDoc{Namespace: c.Namespace, UUID: c.UUID, Key: unsplittableKey, Generation: g, Unsplittable: true}
	one, err := shard.NewMap(o.Namespace, unsplittableKey, g, []shard.Chunk{chunk})
	if err != nil {
		return commitment{}, err
	}
	writes, err := s.forgetting(o.Namespace) // its zones; the collection is put again
	if err != nil {
		return commitment{}, err
	}
	writes = append(writes, next.chunkWrites(shard.Change{Put: []shard.Chunk{chunk}})...)
	writes = append(writes, put(collections, with(c.doc, field{"key", bson.Document(unsplittableKey.Pattern())}, field{"unique", bson.Bool(false)},
		field{"unsplittable", bson.Bool(true)}, field{"lastmodEpoch", bson.ObjectID(g.Epoch)}, field{"timestamp", bson.Timestamp(g.Timestamp)},
		field{"lastmod", bson.Date(time.Now().UnixMilli())})), s.logged("unshardCollection.end", o.Namespace, bson.Empty))
	b := new(bson.Builder)
	versionsOf(b, one, textsOf(o.Args, "shards"))
	return commitment{writes: writes, told: b.Finish(), after: func() { s.keep(c.UUID, one) }}, nil
}

// abortUnshardCollection ends an unshardCollection in progress: the collection stays sharded,
// and chunks that have moved stay where they are. (Manual: abortUnshardCollection.)
func (s *Server) abortUnshardCollection() *command.Command {
	return newCommand("AbortUnshardCollection", command.String(""), s.runAbortUnshard)
}

func (s *Server) runAbortUnshard(_ context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	t, err := s.term()
	if err != nil {
		return err
	}
	cause := mongoerr.New(mongoerr.Code(341), "unshardCollection of %s was aborted", ns)
	if !s.unshards.abort(ns, cause) {
		return mongoerr.New(mongoerr.Code(339), "Could not find in-progress unshardCollection operation to abort for collection %s", ns)
	}
	for _, number := range s.claims.movesOf(ns) {
		t.cancel(number, cause)
	}
	return nil
}
