package configsvr

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// balancer is the state of the balancer.
type balancer struct {
	mu     sync.Mutex
	rounds int64
	inside bool
	// soon has a value while something that the balancer goes by has changed and no round has
	// begun since.
	soon chan struct{}
	// pace is the rate of the last round that moved some of a collection, in bytes per second,
	// by namespace.
	pace map[string]float64
}

// lookAgain is how often the balancer looks whether somebody has written config.settings.
const lookAgain = time.Second

// balance runs the balancer's rounds until the term ends. A round that moved something is soon
// followed by the next; one that could not move what it wanted as well, and then later each time.
func (s *Server) balance(t *term) {
	if s.RoundPause < 0 {
		return
	}
	pause, again := s.RoundPause, time.Duration(0)
	for {
		if s.awaitRound(t.ctx, pause); t.ctx.Err() != nil {
			return
		}
		moved, failed, err := s.round(t.ctx)
		if err != nil && t.ctx.Err() == nil {
			s.Log.WarnContext(t.ctx, "A round of the balancer failed", "id", 9000605, "error", err.Error())
		}
		switch {
		case moved > 0:
			pause, again = s.Throttle(), 0
		case failed > 0:
			again = min(max(2*again, s.Throttle(), s.Pause), s.RoundPause)
			pause = again
		default:
			pause, again = s.RoundPause, 0
		}
	}
}

// balanceSoon has a round begin now, or Throttle after the last one.
func (s *Server) balanceSoon() {
	select {
	case s.balancer.soon <- struct{}{}:
	default:
	}
}

// awaitRound waits until a round is due: after pause, or once something has changed that the
// balancer goes by, but no sooner than Throttle allows.
func (s *Server) awaitRound(ctx context.Context, pause time.Duration) {
	first := min(pause, s.Throttle())
	had, _ := s.all(settings) // an error is told by the round
	s.sleep(ctx, first)
	due := time.NewTimer(pause - first)
	defer due.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			return
		case <-s.balancer.soon:
			return
		case <-look.C:
			if has, err := s.all(settings); err != nil || !slices.EqualFunc(had, has, func(a, b bson.Doc) bool { return bytes.Equal(a, b) }) {
				return
			}
		}
	}
}

// round balances once: it splits chunks at the bounds of zones, and makes the moves that
// package shard chooses, in parallel (invariant pairs there). It returns how many were made and
// how many failed.
func (s *Server) round(ctx context.Context) (moved, failed int, err error) {
	set, err := s.settingsNow()
	if err != nil {
		return 0, 0, err
	}
	now := time.Now()
	if !set.Active(now.Hour()*60 + now.Minute()) {
		return 0, 0, nil
	}
	s.balancer.mu.Lock()
	s.balancer.inside = true
	s.balancer.mu.Unlock()
	defer func() {
		s.balancer.mu.Lock()
		s.balancer.inside = false
		s.balancer.rounds++
		s.balancer.mu.Unlock()
	}()
	all, err := s.balanced(ctx)
	if err != nil {
		return 0, 0, err
	}
	list, err := s.members()
	if err != nil {
		return 0, 0, err
	}
	cuts, moves := shard.Round(all, list, set)
	for _, c := range cuts {
		err := s.changeChunks(ctx, c.Namespace, "split", func(_ *collectionDoc, m *shard.Map) (shard.Change, error) { return m.Split(c.Chunk, c.At, s.newID) })
		if err != nil {
			s.Log.InfoContext(ctx, "The balancer could not split a chunk", "id", 9000606, "ns", c.Namespace, "error", err.Error())
		}
	}
	began := time.Now()
	results, sizes := make([]error, len(moves)), make([]int64, len(moves))
	var running sync.WaitGroup
	for i, m := range moves {
		running.Go(func() { sizes[i], results[i] = s.moveBalanced(ctx, m) })
	}
	running.Wait()
	s.balancer.paced(moves, sizes, time.Since(began))
	for i, err := range results {
		if err != nil {
			s.Log.InfoContext(ctx, "The balancer could not move a range", "id", 9000607, "ns", moves[i].Namespace, "from", moves[i].From, "to", moves[i].To, "error", err.Error())
			failed++
			continue
		}
		moved++
	}
	if len(moves) == 0 {
		return 0, 0, s.autoMerge(ctx, &set)
	}
	return moved, failed, s.logRound(ctx, time.Since(now), len(moves), results)
}

// paced notes how fast the moves of a round were, which were made side by side.
func (b *balancer) paced(moves []shard.Move, sizes []int64, took time.Duration) {
	sum := map[string]int64{}
	for i, m := range moves {
		sum[m.Namespace] += sizes[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for ns, n := range sum {
		if n == 0 {
			continue
		}
		if b.pace == nil {
			b.pace = map[string]float64{}
		}
		b.pace[ns] = float64(n) / max(took.Seconds(), 0.001)
	}
}

// moveBalanced makes one move of a round, and returns about how many bytes it had, 0 after an
// error.
func (s *Server) moveBalanced(ctx context.Context, m shard.Move) (int64, error) {
	var w wanted
	err := s.read(func() error {
		c, chunkMap, err := s.mapOf(m.Namespace)
		if err != nil {
			return err
		}
		chunk := chunkMap.Find(m.Min.Key)
		if chunk.Shard != m.From || !chunk.Contains(m.Range) {
			return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the chunks of %s have changed", m.Namespace)
		}
		w = wanted{ns: m.Namespace, key: c.Key, chunk: chunk, span: m.Range, to: m.To, force: m.ForceJumbo, bytes: m.MaxBytes > 0, balanced: true}
		return nil
	})
	if err != nil {
		return 0, err
	}
	size, err := s.move(ctx, w)
	if err != nil {
		return 0, err
	}
	return size, nil
}

// mergeAfter is how long a chunk stays on its shard before it is merged automatically: snapshot
// reads may need its previous owner.
const mergeAfter = historyFor

// autoMerge merges adjacent chunks of a shard that are older than mergeAfter, if settings and
// collection allow it. One run of chunks per collection and round.
func (s *Server) autoMerge(ctx context.Context, set *shard.Settings) error {
	if set.NoMerge {
		return nil
	}
	type run struct {
		ns string
		r  shard.Range
	}
	var found []run
	err := s.read(func() error {
		all, err := s.allTracked()
		if err != nil {
			return err
		}
		now := s.ClusterTime()
		before := now - min(now, uint64(mergeAfter/time.Second)<<32)
		for i := range all {
			off := all[i].doc.Lookup("enableAutoMerge")
			if off.Type == bson.TypeBool && !off.Bool() || all[i].doc.Lookup("noBalance").Truthy() || s.isResharded(all[i].Namespace) {
				continue
			}
			m, err := s.chunkMap(&all[i])
			if err != nil {
				return err
			}
			zones, err := s.zones(all[i].Namespace, all[i].Key)
			if err != nil {
				return err
			}
			for _, id := range m.Owners() {
				mayMerge := func(c *shard.Chunk) bool {
					return c.Shard == id && !c.Jumbo && c.Since() <= before && zones.All() == nil
				}
				if r, n := adjacent(m, mayMerge, chunksAtATime); n >= 2 {
					found = append(found, run{all[i].Namespace, r})
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		err := s.changeChunks(ctx, f.ns, "autoMerge", func(_ *collectionDoc, m *shard.Map) (shard.Change, error) { return m.Merge(f.r) })
		if err != nil {
			s.Log.InfoContext(ctx, "The balancer could not merge chunks", "id", 9000608, "ns", f.ns, "error", err.Error())
		}
	}
	return nil
}

// logRound writes what sh.status() shows of a round.
func (s *Server) logRound(ctx context.Context, took time.Duration, candidates int, results []error) error {
	failed := slices.DeleteFunc(slices.Clone(results), func(err error) bool { return err == nil })
	b := new(bson.Builder).Int64("executionTimeMillis", took.Milliseconds()).Bool("errorOccured", len(failed) > 0) // (sic: mongosh reads it so)
	b.Int32("candidateChunks", int32(candidates)).Int32("chunksMoved", int32(candidates-len(failed)))
	if len(failed) > 0 {
		b.String("errmsg", mongoerr.From(failed[0]).Message)
	}
	d := new(bson.Builder).ObjectID("_id", s.newID()).String("server", s.Host).Date("time", time.Now().UnixMilli()).String("what", "balancer.round").Doc("details", b.Finish())
	return s.commit(ctx, put(actionlog, d.Finish()))
}

// members returns the shards as the balancer sees them.
func (s *Server) members() ([]shard.Member, error) {
	all, err := s.shards()
	out := make([]shard.Member, 0, len(all))
	for _, sh := range all {
		out = append(out, shard.Member{ID: sh.ID, Draining: sh.Draining, Zones: sh.Zones})
	}
	return out, err
}

// balanced returns all collections, or the named ones, as the balancer sees them. It asks the
// shards how much they own.
func (s *Server) balanced(ctx context.Context, only ...string) ([]shard.Balanced, error) {
	var out []shard.Balanced
	var names []string
	err := s.read(func() error {
		all, err := s.allTracked()
		if err != nil {
			return err
		}
		for i := range all {
			c := &all[i]
			if c.Unsplittable || len(only) > 0 && !slices.Contains(only, c.Namespace) {
				continue
			}
			m, err := s.chunkMap(c)
			if err != nil {
				return err
			}
			zones, err := s.zones(c.Namespace, c.Key)
			if err != nil {
				return err
			}
			no := func(name string) bool { v := c.doc.Lookup(name); return v.Type == bson.TypeBool && !v.Bool() }
			out = append(out, shard.Balanced{
				Map: m, Zones: zones, Bytes: map[string]int64{}, MaxChunk: bson.ClampToInt64(c.doc.Lookup("maxChunkSizeBytes")),
				NoBalance: c.doc.Lookup("noBalance").Truthy() || s.unshards.has(c.Namespace) || s.isResharded(c.Namespace), NoMigrations: no("allowMigrations") || no("permitMigrations"),
			})
			names = append(names, c.Namespace)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		return out, err
	}
	return out, s.askOwned(ctx, out, names)
}

// askOwned asks each shard how much it owns of each collection.
func (s *Server) askOwned(ctx context.Context, out []shard.Balanced, names []string) error {
	all, err := s.shards()
	if err != nil {
		return err
	}
	body := new(bson.Builder).Int32("_shardsvrOwned", 1).Strings("namespaces", names...).Finish()
	replies := make([]bson.Doc, len(all))
	failed := make([]error, len(all))
	var asking sync.WaitGroup
	for i, sh := range all {
		asking.Go(func() { replies[i], failed[i] = s.Shards.Ask(ctx, sh.Host, "admin", body) })
	}
	asking.Wait()
	for i, sh := range all {
		if failed[i] != nil {
			return failed[i] // without its size, the balancer would move everything to this shard
		}
		v := replies[i].Lookup("owned")
		if v.Type != bson.TypeArray {
			continue
		}
		for e := range v.Doc().Values() {
			at := slices.Index(names, text(e.Doc(), "ns"))
			if at < 0 {
				continue
			}
			out[at].Bytes[sh.ID] = bson.ClampToInt64(e.Doc().Lookup("bytes"))
			// A hashed shard key needs no index: collections are stored in its order, or are
			// sorted by it on the recipient.
			needs := !out[at].Map.Key().IsHashed() && out[at].Map.ChunksOn(sh.ID) > 0
			if needs && !e.Doc().Lookup("keyIndex").Truthy() {
				out[at].NoIndex = true
			}
		}
	}
	return nil
}
