package configsvr

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"

	"github.com/mayflydb/mayfly/internal/bson"
)

// term is one term of this process as primary. Its goroutines end with it.
type term struct {
	ctx    context.Context
	end    context.CancelCauseFunc
	number uint64
	began  time.Time
	// cluster is the cluster's id.
	cluster [12]byte
	work    sync.WaitGroup

	mu      sync.Mutex
	running map[int64]*running
	// places bounds the number of operations in progress.
	places chan struct{}
}

// maxOperations bounds the operations in progress; others wait. Each has a goroutine,
// and a request to each of its shards.
const maxOperations = 128

// errDeposed ends the work of a deposed primary.
var errDeposed = mongoerr.New(mongoerr.PrimarySteppedDown, "the config server is no longer primary")

// Run does the work of the config servers' primary until ctx ends.
func (s *Server) Run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := s.Primary.Changed()
		n := s.Primary.Term()
		if n == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		s.runTerm(ctx, n)
	}
}

// runTerm works until term n ends.
func (s *Server) runTerm(ctx context.Context, n uint64) {
	inside, leave, err := s.Enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	ctx, end := context.WithCancelCause(inside)
	t := &term{ctx: ctx, end: end, number: n, began: time.Now(), running: map[int64]*running{}, places: make(chan struct{}, maxOperations)}
	if err := s.take(t); err != nil {
		s.Log.ErrorContext(ctx, "The config server cannot begin its term", "id", 9000601, "term", n, "error", err.Error())
		end(err)
		s.sleep(inside, s.Pause)
		return
	}
	t.work.Go(func() { s.balance(t) })
	for s.Primary.Term() == n && ctx.Err() == nil {
		changed := s.Primary.Changed()
		if s.Primary.Term() != n {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	s.terms.Lock()
	s.terms.now = nil
	s.terms.Unlock()
	end(errDeposed)
	t.work.Wait()
}

// take prepares config.*, and resumes the operations that it finds (invariant resumed).
func (s *Server) take(t *term) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terms.Lock()
	s.terms.taken = t
	s.terms.Unlock()
	clear(s.maps)
	s.claims.init()
	if err := s.prepare(t.ctx); err != nil {
		return err
	}
	id, err := s.clusterID()
	if err != nil {
		return err
	}
	if id.Type == bson.TypeObjectID {
		t.cluster = id.ObjectID()
	}
	docs, err := s.all(operations)
	if err != nil {
		return err
	}
	var found []step.Operation
	for _, d := range docs {
		if d.Lookup("_id").Type != bson.TypeInt64 {
			continue // the last number
		}
		o, err := step.Parse(d)
		if err != nil {
			return err
		}
		s.claims.take(claimOf(&o), o.Number)
		found = append(found, o)
	}
	for i := range found {
		s.start(t, &found[i], false)
	}
	s.terms.Lock()
	s.terms.now = t
	s.terms.Unlock()
	return nil
}

// endTerm ends the term whose metadata are in memory: others may have changed them since.
func (s *Server) endTerm() {
	s.terms.Lock()
	defer s.terms.Unlock()
	if s.terms.now = nil; s.terms.taken != nil {
		s.terms.taken.end(errDeposed)
	}
}

// term returns the current term. Errors: 10107.
func (s *Server) term() (*term, error) {
	s.terms.Lock()
	defer s.terms.Unlock()
	if s.terms.now == nil {
		return nil, mongoerr.New(mongoerr.NotWritablePrimary, "not primary")
	}
	return s.terms.now, nil
}

// forget drops the cached chunks of a collection.
func (s *Server) forget(id bson.UUID) { delete(s.maps, id) }

func (s *Server) keep(id bson.UUID, m *shard.Map) { s.maps[id] = m }
