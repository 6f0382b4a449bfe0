package configsvr

import (
	"cmp"
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// moveChunk moves a chunk to another shard. (Manual: moveChunk.)
func (s *Server) moveChunk() *command.Command {
	return newCommand("MoveChunk", command.String(""), s.runMoveChunk, moveFields(command.Object("find"), command.Array("bounds"), command.String("to").Required())...)
}

// moveFields adds the fields that both move commands take. Each batch on the recipient is
// committed by a majority, so secondaryThrottle has no further
// effect, and may only be true or false.
func moveFields(own ...*command.Field) []*command.Field {
	return append(own, command.SafeBool("forceJumbo"), command.SafeBool("waitForDelete"), command.SafeBool("_waitForDelete"),
		command.Bool("secondaryThrottle"), command.Bool("_secondaryThrottle"))
}

// forced reports whether jumbo chunks are moved, too. Errors: 72 for waitForDelete: a moved
// range is hidden on the donor, and its documents are removed after the reply.
func forced(op *command.Op) (bool, error) {
	if op.Args.Bool("waitForDelete") || op.Args.Bool("_waitForDelete") {
		return false, mongoerr.New(mongoerr.InvalidOptions, "waitForDelete is not supported: a range that has moved is hidden at once, and its documents are removed later")
	}
	return op.Args.Bool("forceJumbo"), nil
}

func (s *Server) runMoveChunk(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	force, err := forced(op)
	if err != nil {
		return err
	}
	which, err := chunkAsked(op)
	if err != nil {
		return err
	}
	var w wanted
	err = s.read(func() error {
		c, m, err := s.shardedMap(ns)
		if err != nil {
			return err
		}
		chunk, err := which(m)
		w = wanted{ns: ns, key: c.Key, chunk: chunk, span: chunk.Range, to: op.Args.Str("to"), force: force}
		return err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err = s.move(ctx, w); err == nil {
		op.Reply.Int64("millis", time.Since(began).Milliseconds())
	}
	return err
}

// moveRange moves a range. One of its bounds may be omitted. (Manual: moveRange.)
func (s *Server) moveRange() *command.Command {
	return newCommand("MoveRange", command.String(""), s.runMoveRange, moveFields(command.Object("min"), command.Object("max"), command.String("toShard").Required())...)
}

func (s *Server) runMoveRange(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	force, err := forced(op)
	if err != nil {
		return err
	}
	lo, hi := op.Args.Value("min"), op.Args.Value("max")
	if lo.IsMissing() && hi.IsMissing() {
		return mongoerr.New(mongoerr.InvalidOptions, "must specify 'min', 'max' or both")
	}
	w := wanted{ns: ns, to: op.Args.Str("toShard"), force: force, bytes: lo.IsMissing() != hi.IsMissing()}
	err = s.read(func() error {
		c, m, err := s.shardedMap(ns)
		if err != nil {
			return err
		}
		w.key = c.Key
		w.chunk, w.span, err = rangeIn(c.Key, m, lo, hi)
		return err
	})
	if err != nil {
		return err
	}
	_, err = s.move(ctx, w)
	return err
}

// rangeIn returns the range with one or both bounds given, and the chunk that contains it.
func rangeIn(key *shard.Key, m *shard.Map, lo, hi bson.Value) (c shard.Chunk, r shard.Range, err error) {
	if !lo.IsMissing() {
		if r.Min, err = bound(key, lo); err != nil {
			return c, r, err
		}
		c = m.Find(r.Min.Key)
		r.Max = c.Max
	}
	if !hi.IsMissing() {
		if r.Max, err = bound(key, hi); err != nil {
			return c, r, err
		}
		if lo.IsMissing() { // the chunk that ends there
			for one := range m.Chunks() {
				if one.Min.Compare(r.Max) < 0 {
					c = one
				}
			}
			r.Min = c.Min
		}
	}
	if r.Min.Compare(r.Max) >= 0 || !c.Contains(r) {
		return c, r, mongoerr.New(mongoerr.IllegalOperation, "the range %s is not within one chunk of %s", key.RangeText(r), m.Namespace)
	}
	return c, r, nil
}

// wanted is a requested move.
type wanted struct {
	ns    string
	key   *shard.Key
	chunk shard.Chunk // that contains the range
	span  shard.Range
	to    string
	// force moves chunks above the maximum size, too.
	force bool
	// bytes moves about a chunk's size from the lower bound, not the whole range.
	bytes bool
	// balanced moves belong to the balancer, whose limits hold for them.
	balanced bool
}

// move moves a range and waits for it. size is the approximate size of its documents in
// bytes, 0 if unknown. A chunk that is too large is marked as
// jumbo. Errors: 70, 117, 153.
func (s *Server) move(ctx context.Context, w wanted) (size int64, err error) {
	to, err := s.shard(w.to)
	if err != nil {
		return 0, err
	}
	if w.chunk.Shard == w.to {
		return 0, nil
	}
	if to.Draining {
		return 0, mongoerr.New(mongoerr.IllegalOperation, "shard %s is draining", w.to)
	}
	if size, err = s.fit(ctx, &w); err != nil {
		return 0, err
	}
	from := w.chunk.Shard
	_, err = s.operate(ctx, plan{kind: step.KindMove, ns: w.ns, claim: claim{within: w.ns, shards: []string{from, w.to}}, decide: func() (decision, error) {
		c, m, err := s.mapOf(w.ns)
		if err != nil {
			return decision{}, err
		}
		if c.doc.Lookup("allowMigrations").Type == bson.TypeBool && !c.doc.Lookup("allowMigrations").Bool() {
			return decision{}, mongoerr.New(mongoerr.ConflictingOperationInProgress, "Collection %s does not allow migrations", w.ns)
		}
		if err := cmp.Or(c.unchanged(&w.chunk), c.takes(w.span)); err != nil {
			return decision{}, err
		}
		now := m.Find(w.span.Min.Key)
		if now.Shard != from || !now.Contains(w.span) {
			return decision{}, mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", w.ns)
		}
		donor, err := s.shard(from)
		if err != nil {
			return decision{}, err
		}
		to, err := s.shard(w.to)
		if err == nil && to.Draining {
			err = mongoerr.New(mongoerr.IllegalOperation, "shard %s is draining", w.to)
		}
		if err != nil {
			return decision{}, err
		}
		b := new(bson.Builder).String("from", from).String("to", w.to).String("host", donor.Host).Doc("min", c.Key.Doc(w.span.Min)).Doc("max", c.Key.Doc(w.span.Max)).
			Binary("uuid", 4, c.UUID[:]).Doc("key", c.Key.Pattern()).Bool("unique", c.Unique).
			OpenDoc("generation").ObjectID("epoch", c.Epoch).Timestamp("timestamp", c.Timestamp).Close()
		if b.Int64("bytes", size); w.balanced {
			b.Bool("balanced", true)
		}
		args := b.Finish()
		details := new(bson.Builder).Only(args, []string{"min", "max", "from", "to"}).Finish()
		return decision{args: args, commitment: commitment{writes: []write{s.logged("moveChunk.start", w.ns, details)}}}, nil
	}})
	return size, err
}

// fit asks for the size of a range, and shrinks it to one that may move.
func (s *Server) fit(ctx context.Context, w *wanted) (int64, error) {
	if w.force && !w.bytes && !w.balanced {
		return 0, nil
	}
	set, err := s.settingsNow()
	if err != nil {
		return 0, err
	}
	c, err := s.tracked(w.ns)
	if err != nil {
		return 0, err
	}
	limit := cmp.Or(bson.ClampToInt64(c.doc.Lookup("maxChunkSizeBytes")), set.ChunkSize)
	chunk := w.chunk
	chunk.Range = w.span
	points, size, err := s.splitPoints(ctx, w.ns, w.key, chunk, limit, 1)
	switch {
	case err != nil:
		return 0, err
	case size <= limit:
		return size, nil
	case w.bytes && len(points) > 0:
		w.span.Max = points[0]
		return limit, nil
	case w.force || !w.bytes && len(points) > 0:
		return size, nil // large, and could be split, but the request names both bounds
	}
	if w.span.Same(w.chunk.Range) {
		if err := s.setJumbo(ctx, w.ns, true, func(m *shard.Map) (shard.Chunk, error) {
			now := m.Find(w.span.Min.Key)
			if !now.Same(w.span) {
				return now, mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", w.ns)
			}
			return now, nil
		}); err != nil {
			return 0, err
		}
	}
	return 0, mongoerr.New(mongoerr.ChunkTooBig, "chunk %s of %s has %d bytes of a single shard key value, and may have %d", w.key.RangeText(w.span), w.ns, size, limit)
}

// historyFor is how long config.chunks keeps the previous owners of a range, for snapshot
// reads.
const historyFor = 5 * time.Minute

func (s *Server) commitMove(o *step.Operation, got step.Answers) (commitment, error) {
	if err := o.AllReceived(got); err != nil {
		return commitment{}, err
	}
	c, m, err := s.mapOf(o.Namespace)
	if err != nil {
		return commitment{}, err
	}
	lo, err := bound(c.Key, o.Args.Lookup("min"))
	if err != nil {
		return commitment{}, err
	}
	hi, err := bound(c.Key, o.Args.Lookup("max"))
	if err != nil {
		return commitment{}, err
	}
	from, to, now := text(o.Args, "from"), text(o.Args, "to"), s.ClusterTime()
	if m.Find(lo.Key).Shard != from {
		return commitment{}, mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", o.Namespace)
	}
	since := now - min(now, uint64(historyFor/time.Second)<<32)
	change, err := m.Move(shard.Range{Min: lo, Max: hi}, to, now, since, s.newID)
	if err != nil {
		return commitment{}, err
	}
	next, err := m.With(change.Put)
	if err != nil {
		return commitment{}, err
	}
	b := new(bson.Builder)
	next.ShardVersion(to).Append(b, "own")
	given := next.ShardVersion(from)
	given.ShardGeneration = c.Generation
	given.Append(b, "given")
	details := new(bson.Builder).Only(o.Args, []string{"min", "max", "from", "to"}).Finish()
	return commitment{
		writes: append(c.chunkWrites(change), s.logged("moveChunk.commit", o.Namespace, details)), told: b.Finish(),
		after: func() { s.keep(c.UUID, next) },
	}, nil
}
