package configsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// changeChunks applies f, a change that moves no data, to the chunks of a collection,
// and tells their shards. logged is its name in config.changelog.
func (s *Server) changeChunks(ctx context.Context, ns, logged string, f func(c *collectionDoc, m *shard.Map) (shard.Change, error)) error {
	_, err := s.operate(ctx, plan{kind: step.KindChunks, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		c, m, err := s.shardedMap(ns)
		if err != nil {
			return decision{}, err
		}
		change, err := f(c, m)
		if err != nil || len(change.Put) == 0 {
			return decision{nothing: true}, err
		}
		for i := range change.Put {
			if err := c.takes(change.Put[i].Range); err != nil {
				return decision{}, err
			}
		}
		next, err := m.With(change.Put)
		if err != nil {
			return decision{}, err
		}
		var of []string
		for _, ch := range change.Put {
			if len(of) == 0 || of[len(of)-1] != ch.Shard {
				of = append(of, ch.Shard)
			}
		}
		args := new(bson.Builder).Binary("uuid", 4, c.UUID[:]).Strings("shards", of...)
		told := new(bson.Builder)
		versionsOf(told, next, of)
		details := new(bson.Builder).Doc("min", c.Key.Doc(change.Put[0].Min)).Doc("max", c.Key.Doc(change.Put[len(change.Put)-1].Max)).Int32("chunks", int32(len(change.Put))).Finish()
		return decision{args: args.Finish(), commitment: commitment{
			writes: append(c.chunkWrites(change), s.logged(logged, ns, details)), told: told.Finish(), after: func() { s.keep(c.UUID, next) },
		}}, nil
	}})
	return err
}

// unchanged checks that a chunk which was read before the claim was taken is one of the
// collection's shard key as it is: what was said or computed by another key means something else.
// Error 117.
func (c *collectionDoc) unchanged(chunk *shard.Chunk) error {
	if chunk.Version.ShardGeneration != c.Generation {
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", c.Namespace)
	}
	return nil
}

// takes checks that a range has bounds of the collection's shard key, whoever has computed them.
// Error 117.
func (c *collectionDoc) takes(r shard.Range) error {
	for _, b := range []shard.Bound{r.Min, r.Max} {
		if same, ok := c.Key.ParseBound(c.Key.Doc(b)); !ok || same.Compare(b) != 0 {
			return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the shard key of %s has changed", c.Namespace)
		}
	}
	return nil
}

// boundsOf reads the bounds of a command, an array of two documents.
func boundsOf(op *command.Op) ([]bson.Value, error) {
	if !op.Args.Has("bounds") {
		return nil, nil
	}
	b := op.Args.Array("bounds")
	if len(b) != 2 {
		return nil, badValue("bounds must be an array of two documents")
	}
	return b, nil
}

// chunkAsked finds the chunk that a command names by find or by bounds. Errors: 72.
func chunkAsked(op *command.Op) (func(*shard.Map) (shard.Chunk, error), error) {
	b, err := boundsOf(op)
	if err != nil {
		return nil, err
	}
	find := op.Args.Doc("find")
	if (b == nil) == (find == nil) {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "must specify either find or bounds, and not both")
	}
	return func(m *shard.Map) (shard.Chunk, error) {
		c, _, err := m.SplitWhere(find, b, nil)
		return c, err
	}, nil
}

// split splits a chunk in two. (Manual: split.)
func (s *Server) split() *command.Command {
	return newCommand("Split", command.String(""), s.runSplit, command.Object("find"), command.Array("bounds"), command.Object("middle"))
}

func (s *Server) runSplit(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	bounds, err := boundsOf(op)
	if err != nil {
		return err
	}
	var chunk shard.Chunk
	var at *shard.Bound
	var key *shard.Key
	err = s.read(func() error {
		c, m, err := s.shardedMap(ns)
		if err != nil {
			return err
		}
		key = c.Key
		chunk, at, err = m.SplitWhere(op.Args.Doc("find"), bounds, op.Args.Doc("middle"))
		return err
	})
	if err != nil {
		return err
	}
	if at == nil {
		points, _, err := s.splitPoints(ctx, ns, key, chunk, 0, 1)
		if err != nil {
			return err
		}
		if len(points) == 0 {
			return mongoerr.New(mongoerr.CannotSplit, "Unable to find median in chunk %s", key.RangeText(chunk.Range))
		}
		at = &points[0]
	}
	return s.changeChunks(ctx, ns, "split", func(c *collectionDoc, m *shard.Map) (shard.Change, error) {
		if err := c.unchanged(&chunk); err != nil {
			return shard.Change{}, err
		}
		return m.Split(chunk.Range, []shard.Bound{*at}, s.newID)
	})
}

// splitPoints asks a shard where to split a chunk into parts of the given bytes; 0 asks
// for the median.
func (s *Server) splitPoints(ctx context.Context, ns string, key *shard.Key, c shard.Chunk, bytes int64, limit int32) (points []shard.Bound, size int64, err error) {
	sh, err := s.shard(c.Shard)
	if err != nil {
		return nil, 0, err
	}
	b := new(bson.Builder).String("_shardsvrSplitPoints", ns).Doc("min", key.Doc(c.Min)).Doc("max", key.Doc(c.Max)).Int64("bytes", bytes).Int32("limit", limit)
	reply, err := s.Shards.Ask(ctx, sh.Host, "admin", b.Finish())
	if err != nil {
		return nil, 0, err
	}
	if v := reply.Lookup("points"); v.Type == bson.TypeArray {
		for p := range v.Doc().Values() {
			at, err := bound(key, p)
			if err != nil {
				return nil, 0, err
			}
			points = append(points, at)
		}
	}
	return points, bson.ClampToInt64(reply.Lookup("bytes")), nil
}

// mergeChunks merges the chunks of a range, which are all on one shard. (Manual:
// mergeChunks.)
func (s *Server) mergeChunks() *command.Command {
	return newCommand("MergeChunks", command.String(""), s.runMergeChunks, command.Array("bounds").Required(), command.OneOf("epoch", bson.TypeObjectID))
}

func (s *Server) runMergeChunks(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	b, err := boundsOf(op)
	if err != nil {
		return err
	}
	return s.changeChunks(ctx, ns, "merge", func(c *collectionDoc, m *shard.Map) (shard.Change, error) {
		if e := op.Args.Value("epoch"); !e.IsMissing() && e.ObjectID() != c.Epoch {
			return shard.Change{}, mongoerr.New(mongoerr.StaleEpoch, "the epoch of %s is not %s", ns, e)
		}
		lo, err := bound(c.Key, b[0])
		if err != nil {
			return shard.Change{}, err
		}
		hi, err := bound(c.Key, b[1])
		if err != nil {
			return shard.Change{}, err
		}
		if lo.Compare(hi) >= 0 {
			return shard.Change{}, badValue("min must be below max: [%s, %s)", b[0], b[1])
		}
		return m.Merge(shard.Range{Min: lo, Max: hi})
	})
}

// mergeAllChunksOnShard merges all adjacent chunks of a shard. (Manual:
// mergeAllChunksOnShard.)
func (s *Server) mergeAllChunksOnShard() *command.Command {
	return newCommand("MergeAllChunksOnShard", command.String(""), s.runMergeAll, command.String("shard").Required(), command.SafeInt("maxNumberOfChunksToMerge").Min(2), command.SafeInt("maxTimeProcessingChunksMS").Min(1))
}

func (s *Server) runMergeAll(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	on := op.Args.Str("shard")
	most := op.Args.IntOr("maxNumberOfChunksToMerge", chunksAtATime)
	until := time.Now().Add(time.Duration(op.Args.IntOr("maxTimeProcessingChunksMS", int(time.Hour.Milliseconds()))) * time.Millisecond)
	for time.Now().Before(until) {
		var found shard.Range
		n := 0
		err := s.read(func() error {
			if _, err := s.shard(on); err != nil {
				return err
			}
			_, m, err := s.shardedMap(ns)
			if err == nil {
				found, n = adjacent(m, func(c *shard.Chunk) bool { return c.Shard == on && !c.Jumbo }, most)
			}
			return err
		})
		if err != nil || n < 2 {
			return err
		}
		err = s.changeChunks(ctx, ns, "autoMerge", func(_ *collectionDoc, m *shard.Map) (shard.Change, error) { return m.Merge(found) })
		if err != nil {
			return err
		}
	}
	return nil
}

// adjacent returns the first run of two or more adjacent chunks that may be merged,
// most at the most.
func adjacent(m *shard.Map, may func(*shard.Chunk) bool, most int) (r shard.Range, n int) {
	for c := range m.Chunks() {
		joins := may(&c)
		switch {
		case joins && n > 0 && n < most:
			r.Max, n = c.Max, n+1
		case n >= 2:
			return r, n
		case joins:
			r, n = c.Range, 1
		default:
			n = 0
		}
	}
	return r, n
}

// clearJumboFlag makes the balancer try a chunk again. (Manual: clearJumboFlag.)
func (s *Server) clearJumboFlag() *command.Command {
	return newCommand("ClearJumboFlag", command.String(""), s.runClearJumbo, command.Object("find"), command.Array("bounds"))
}

func (s *Server) runClearJumbo(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	which, err := chunkAsked(op)
	if err != nil {
		return err
	}
	return s.setJumbo(ctx, ns, false, which)
}

// setJumbo sets or clears a chunk's jumbo flag. Routers do not need it, so versions do
// not change.
func (s *Server) setJumbo(ctx context.Context, ns string, jumbo bool, which func(*shard.Map) (shard.Chunk, error)) error {
	return s.change(ctx, func() ([]write, error) {
		c, m, err := s.shardedMap(ns)
		if err != nil {
			return nil, err
		}
		chunk, err := which(m)
		if err != nil || chunk.Jumbo == jumbo {
			return nil, err
		}
		chunk.Jumbo = jumbo
		s.forget(c.UUID)
		return c.chunkWrites(shard.Change{Put: []shard.Chunk{chunk}}), nil
	})
}
