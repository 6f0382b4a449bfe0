package router

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

const (
	// maxSampleBytes is the size of a command from which on it is not sampled.
	maxSampleBytes = 64 << 10
	// maxPendingSamples and maxPendingBytes bound the samples that are not written yet. Others
	// are dropped.
	maxPendingSamples, maxPendingBytes = 10_000, 8 << 20
	// samplesTick is how often it is looked whether it is time to do so.
	samplesTick = time.Second
	// samplesTime bounds the time of asking for the configuration, and of writing samples.
	samplesTime = 5 * time.Second
)

// samples are the queries that the router samples, as configureQueryAnalyzer says.
type samples struct {
	router *Router
	any    atomic.Bool // something is sampled
	// every is how often, in seconds, the configuration is asked for and samples are written;
	// life how long they are kept.
	every, life *command.IntParam

	mu      sync.Mutex
	of      map[string]*sampling // by namespace
	pending []bson.Doc
	bytes   int
}

// sampling is the sampling of one collection: a bucket of tokens, of which each sample takes one.
type sampling struct {
	uuid         bson.Value
	rate, tokens float64 // samples per second, and those that may be taken now
	last         time.Time
	began        time.Time
	taken, bytes int64
}

// burst is how many seconds' samples may be taken at once.
const burst = 2

// take takes a token if there is one.
func (s *sampling) take(now time.Time) bool {
	s.tokens = min(s.tokens+s.rate*now.Sub(s.last).Seconds(), max(burst*s.rate, 1))
	s.last = now
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// FollowQueryAnalyzers asks the config servers what is to be sampled, and writes samples, until
// ctx ends.
func (r *Router) FollowQueryAnalyzers(ctx context.Context) {
	for last := time.Now(); client.Sleep(ctx, samplesTick) == nil; {
		if time.Since(last) < time.Duration(r.samples.every.Load())*time.Second {
			continue
		}
		last = time.Now()
		now, cancel := context.WithTimeout(ctx, samplesTime)
		err := r.samples.refresh(now)
		if err == nil {
			err = r.samples.write(now)
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			r.Log.InfoContext(ctx, "The router could not keep samples of queries", "error", err)
		}
	}
}

// refresh asks what is to be sampled.
func (s *samples) refresh(ctx context.Context) error {
	a, err := s.router.config.Run(ctx, adminCall(new(bson.Builder).String("_configsvrRefreshQueryAnalyzers", s.router.Process.Name()).Finish()))
	if err != nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*sampling{}
	for _, d := range documents(a.Reply.Lookup("configurations")) {
		ns, id := d.Lookup("ns").Str(), d.Lookup("collectionUuid")
		one := s.of[ns]
		if one == nil || !bson.Equal(one.uuid, id) {
			one = &sampling{uuid: id.Clone(), last: now.Add(-burst * time.Second), began: now}
		}
		one.rate = bson.ToDouble(d.Lookup("samplesPerSecond"))
		next[ns] = one
	}
	s.of = next
	s.any.Store(len(next) > 0)
	return nil
}

// write writes the samples into config.sampledQueries. Those that are written twice, as an answer
// was lost, have one _id.
func (s *samples) write(ctx context.Context) error {
	s.mu.Lock()
	docs := s.pending
	s.pending, s.bytes = nil, 0
	s.mu.Unlock()
	if len(docs) == 0 {
		return nil
	}
	b := new(bson.Builder).String("insert", "sampledQueries").Bool("ordered", false).OpenDoc("writeConcern").String("w", "majority").Close().OpenArray("documents")
	for i, d := range docs {
		b.Doc(bson.Index(i), d)
	}
	_, err := s.router.config.Run(ctx, client.Call{DB: "config", Body: b.Close().Finish(), Idempotent: true})
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range docs {
		s.keep(d)
	}
	return err
}

// keep keeps a sample until it is written. The caller holds mu.
func (s *samples) keep(d bson.Doc) bool {
	if len(s.pending) >= maxPendingSamples || s.bytes+len(d) > maxPendingBytes {
		return false
	}
	s.pending, s.bytes = append(s.pending, d), s.bytes+len(d)
	return true
}

// sample may take a sample of a query on a collection. cmd makes what is kept of it.
func (r *Router) sample(ns, name string, cmd func() bson.Doc) {
	s := &r.samples
	if !s.any.Load() {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of[ns]
	if one == nil || !one.take(now) {
		return
	}
	body := cmd()
	if len(body) > maxSampleBytes {
		return
	}
	id := bson.NewUUID()
	expires := now.Add(time.Duration(s.life.Load()) * time.Second)
	d := new(bson.Builder).Binary("_id", 4, id[:]).String("ns", ns).Value("collectionUuid", one.uuid).String("cmdName", name).Doc("cmd", body).
		Date("expireAt", expires.UnixMilli()).Finish()
	if s.keep(d) {
		one.taken, one.bytes = one.taken+1, one.bytes+int64(len(d))
	}
}

// sampleRead may take a sample of a read with a filter.
func (r *Router) sampleRead(op *command.Op, ns, name string, filter bson.Doc) {
	r.sample(ns, name, func() bson.Doc {
		b := new(bson.Builder).Doc("filter", notNil(filter)).Doc("collation", notNil(document(op.Body.Lookup("collation"))))
		return b.Value("let", op.Body.Lookup("let")).Finish()
	})
}

// sampleWrite may take a sample of an update or a delete.
func (r *Router) sampleWrite(op *command.Op, ns string, s *statement) {
	if s.kind == inserts {
		return
	}
	k := kinds[s.kind]
	r.sample(ns, k.command, func() bson.Doc {
		_, coll := splitNamespace(ns)
		b := new(bson.Builder).String(k.command, coll).OpenArray(k.batch).Doc("0", s.doc).Close()
		return b.Value("let", op.Body.Lookup("let")).Finish()
	})
}

// sampleModify may take a sample of a findAndModify.
func (r *Router) sampleModify(op *command.Op, ns string) {
	r.sample(ns, "findAndModify", func() bson.Doc {
		b := new(bson.Builder).String("findAndModify", op.Collection)
		for _, name := range []string{"query", "sort", "update", "remove", "upsert", "new", "collation", "arrayFilters", "let"} {
			b.Value(name, op.Body.Lookup(name))
		}
		return b.Finish()
	})
}

func notNil(d bson.Doc) bson.Doc {
	if d == nil {
		return bson.Empty
	}
	return d
}

// shown lists what is sampled, as currentOp shows it. (Manual: configureQueryAnalyzer, "Query
// Sampling Progress")
func (s *samples) shown() (out []bson.Doc) {
	if !s.any.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ns, one := range s.of {
		var reads, writes int64
		for _, d := range s.pending {
			if d.Lookup("ns").Str() != ns {
				continue
			}
			if isRead(d) {
				reads++
			} else {
				writes++
			}
		}
		b := new(bson.Builder).String("desc", "query analyzer").String("ns", ns).Value("collUuid", one.uuid).Double("samplesPerSecond", one.rate).
			Date("startTime", one.began.UnixMilli())
		out = append(out, b.Int64("sampledQueriesCount", one.taken).Int64("sampledQueriesBytes", one.bytes).Int64("pendingReadsCount", reads).Int64("pendingWritesCount", writes).Finish())
	}
	return out
}

// isRead reports whether a sample is one of a read.
func isRead(sample bson.Doc) bool {
	switch sample.Lookup("cmdName").Str() {
	case "update", "delete", "findAndModify":
		return false
	}
	return true
}
