package configsvr

import (
	"context"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// balancerStart enables the balancer, whose next round begins at once. (Manual: balancerStart.)
func (s *Server) balancerStart() *command.Command {
	return newCommand("BalancerStart", command.Any(""), func(ctx context.Context, _ *command.Op) error { return s.setMode(ctx, "full") })
}

// balancerStop disables the balancer, and waits for the round in progress.
// (Manual: balancerStop.)
func (s *Server) balancerStop() *command.Command {
	return newCommand("BalancerStop", command.Any(""), func(ctx context.Context, _ *command.Op) error {
		if err := s.setMode(ctx, "off"); err != nil {
			return err
		}
		for s.inRound() {
			s.sleep(ctx, s.Pause)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	})
}

func (s *Server) inRound() bool {
	s.balancer.mu.Lock()
	defer s.balancer.mu.Unlock()
	return s.balancer.inside
}

func (s *Server) setMode(ctx context.Context, mode string) error {
	return s.change(ctx, func() ([]write, error) {
		d, err := s.stored(settings, bson.String("balancer"))
		if d == nil {
			d = new(bson.Builder).String("_id", "balancer").Finish()
		}
		return []write{put(settings, with(d, field{"mode", bson.String(mode)}, field{"stopped", bson.Bool(mode == "off")}))}, err
	})
}

// balancerStatus reports the mode of the balancer and its rounds. (Manual:
// balancerStatus.)
func (s *Server) balancerStatus() *command.Command {
	return newCommand("BalancerStatus", command.Any(""), func(_ context.Context, op *command.Op) error {
		set, err := s.settingsNow()
		if err != nil {
			return err
		}
		mode := "full"
		if set.Off {
			mode = "off"
		}
		t, err := s.term()
		if err != nil {
			return err
		}
		s.balancer.mu.Lock()
		defer s.balancer.mu.Unlock()
		op.Reply.String("mode", mode).Bool("inBalancerRound", s.balancer.inside).Int64("numBalancerRounds", s.balancer.rounds).Int64("term", int64(t.number))
		return nil
	})
}

// balancerCollectionStatus reports whether a collection is balanced, and if not, why,
// and what prevents the balancer from fixing it. (Manual: balancerCollectionStatus.)
func (s *Server) balancerCollectionStatus() *command.Command {
	return newCommand("BalancerCollectionStatus", command.String(""), s.runCollectionStatus)
}

func (s *Server) runCollectionStatus(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	if _, err := s.sharded(ns); err != nil {
		return err
	}
	all, err := s.balanced(ctx, ns)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return mongoerr.New(mongoerr.NamespaceNotSharded, "Namespace %s is not sharded", ns)
	}
	members, err := s.members()
	if err != nil {
		return err
	}
	set, err := s.settingsNow()
	if err != nil {
		return err
	}
	c := &all[0]
	size := set.ChunkSize
	if c.MaxChunk > 0 {
		size = c.MaxChunk
	}
	now := time.Now()
	st := c.Status(members, set, now.Hour()*60+now.Minute())
	r := op.Reply.Double("chunkSize", float64(size)/(1<<20)).Bool("balancerCompliant", st.Violation == "")
	if st.Violation == "" {
		return nil
	}
	r.String("firstComplianceViolation", string(st.Violation)).OpenDoc("details").String("message", st.Details)
	if st.Held != "" {
		r.String("held", st.Held)
	}
	s.appendProgress(r, c, members, set)
	r.Close()
	return nil
}

// appendProgress writes how much of a collection has still to move, and an estimate of how long
// that takes: at the rate of the moves in progress, or of the last round, if there was one, and
// no faster than moves may be.
func (s *Server) appendProgress(b *bson.Builder, c *shard.Balanced, members []shard.Member, set shard.Settings) {
	var total, n, left int64
	for _, m := range members {
		total += c.Bytes[m.ID]
		if !m.Draining {
			n++
		}
	}
	ideal := total / max(n, 1)
	for _, m := range members {
		switch has := c.Bytes[m.ID]; {
		case m.Draining:
			left += has
		case has > ideal:
			left += has - ideal
		}
	}
	b.OpenDoc("progress").Int64("bytes", total).Int64("bytesToMove", left)
	s.balancer.mu.Lock()
	pace := s.balancer.pace[c.Map.Namespace]
	s.balancer.mu.Unlock()
	atOnce := max(n/2, 1) // each shard takes part in one move
	if moves := s.movesNow(c.Map.Namespace); len(moves) > 0 {
		rate := 0.0
		atOnce = int64(len(moves))
		b.OpenArray("moves")
		for i, m := range moves {
			m.append(b.OpenDoc(bson.Index(i))).Close()
			left = max(left-m.copied, 0)
			rate += float64(m.copied) / max(m.took.Seconds(), 0.001)
		}
		if b.Close(); rate > 0 {
			pace = rate
		}
	}
	if set.BytesPerSecond > 0 {
		b.Int64("maxBytesPerSecondOfMove", set.BytesPerSecond)
		pace = min(pace, float64(set.BytesPerSecond*atOnce))
	}
	if pace > 0 {
		b.Int64("bytesPerSecond", int64(pace)).Int64("secondsLeft", int64(math.Ceil(float64(left)/pace)))
	}
	b.Close()
}

// movesNow returns the moves of a collection in progress, none where this is no primary.
func (s *Server) movesNow(ns string) []moved {
	t, err := s.term()
	if err != nil {
		return nil
	}
	return t.movesOf(ns)
}

// append writes how far a move is.
func (m *moved) append(b *bson.Builder) *bson.Builder {
	return b.String("from", m.from).String("to", m.to).Int64("bytes", m.size).Int64("bytesCopied", m.copied).Int64("documentsCopied", m.documents).
		Int64("secs", int64(m.took/time.Second))
}

// configureCollectionBalancing sets the balancer's options of a collection. (Manual:
// configureCollectionBalancing.)
func (s *Server) configureCollectionBalancing() *command.Command {
	return newCommand("ConfigureCollectionBalancing", command.String(""), s.runConfigure, command.SafeInt("chunkSize"),
		command.OptionalBool("defragmentCollection"), command.OptionalBool("enableAutoMerger"), command.OptionalBool("noBalance"))
}

func (s *Server) runConfigure(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	a := &op.Args
	if a.Bool("defragmentCollection") {
		return mongoerr.New(mongoerr.CommandNotSupported, "defragmentCollection is not supported; mergeAllChunksOnShard joins the chunks of a shard")
	}
	mb := a.Int("chunkSize")
	if a.Has("chunkSize") && (mb < 0 || mb > 1024) {
		return mongoerr.New(mongoerr.InvalidOptions, "Chunk size '%d' is out of range [1MB, 1024MB]", mb)
	}
	return s.changeCollection(ctx, ns, func(collectionDoc) []field {
		var f []field
		switch {
		case a.Has("chunkSize") && mb == 0:
			f = append(f, field{"maxChunkSizeBytes", bson.Value{}})
		case a.Has("chunkSize"):
			f = append(f, field{"maxChunkSizeBytes", bson.Int64(int64(mb) << 20)})
		}
		if a.Has("enableAutoMerger") {
			f = append(f, field{"enableAutoMerge", bson.Bool(a.Bool("enableAutoMerger"))})
		}
		if a.Has("noBalance") {
			f = append(f, field{"noBalance", bson.Bool(a.Bool("noBalance"))})
		}
		return f
	})
}

// changeCollection sets fields of a document of config.collections.
func (s *Server) changeCollection(ctx context.Context, ns string, fields func(collectionDoc) []field) error {
	defer s.balanceSoon()
	return s.change(ctx, func() ([]write, error) {
		c, err := s.sharded(ns)
		if err != nil {
			return nil, err
		}
		return []write{put(collections, with(c.doc, append(fields(c), field{"lastmod", bson.Date(time.Now().UnixMilli())})...))}, nil
	})
}

// setAllowMigrations allows or forbids moves of a collection's chunks. Forbidding
// undoes the moves in progress. (mongosh: sh.disableMigrations.)
func (s *Server) setAllowMigrations() *command.Command {
	return newCommand("SetAllowMigrations", command.String(""), s.runSetAllowMigrations, command.Bool("allowMigrations").Required())
}

func (s *Server) runSetAllowMigrations(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	allow := op.Args.Bool("allowMigrations")
	err = s.changeCollection(ctx, ns, func(collectionDoc) []field {
		if allow {
			return []field{{"allowMigrations", bson.Value{}}}
		}
		return []field{{"allowMigrations", bson.Bool(false)}}
	})
	if err != nil || allow {
		return err
	}
	t, err := s.term()
	if err != nil {
		return err
	}
	for _, n := range s.claims.movesOf(ns) {
		t.cancel(n, mongoerr.New(mongoerr.ConflictingOperationInProgress, "Collection %s does not allow migrations", ns))
	}
	return nil
}
