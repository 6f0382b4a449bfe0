package configsvr

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// plan is an operation that a command requests.
type plan struct {
	kind, ns string
	claim    claim
	// op is the command of a client, if it changes definitions: where user writes are blocked it
	// fails.
	op *command.Op
	// decide runs under Server.mu, with the claim held.
	decide func() (decision, error)
}

// decision is how an operation begins.
type decision struct {
	// nothing says that there is nothing to do.
	nothing bool
	args    bson.Doc
	// commitment is what it writes if it has no phase Trying.
	commitment
}

// commitment is what a commit writes.
type commitment struct {
	writes []write
	told   bson.Doc
	// after updates the state in memory once they are written.
	after func()
}

// commits has the commits of operations with a phase Trying. They run under Server.mu.
// An error undoes the operation.
var commits map[string]func(s *Server, o *step.Operation, got step.Answers) (commitment, error)

// locals has the requests that the config primary executes itself (step.Here).
var locals map[string]func(s *Server, ctx context.Context, o *step.Operation, got step.Answers) (bson.Doc, error)

func init() {
	commits = map[string]func(*Server, *step.Operation, step.Answers) (commitment, error){
		step.KindMove: (*Server).commitMove, step.KindShardCollection: (*Server).commitShardCollection, step.KindMovePrimary: (*Server).commitMovePrimary,
		step.KindRename: (*Server).commitRename, step.KindRefine: (*Server).commitRefine, step.KindUnshard: (*Server).commitUnshard,
		step.KindAddShard: (*Server).commitAddShard, step.KindRemoveShard: (*Server).commitRemoveShard,
		step.KindReshard: (*Server).commitReshard, step.KindIndexes: commitNothing, step.KindRenameUnsharded: commitNothing,
		step.KindSettings: (*Server).commitSettings,
	}
	locals = map[string]func(*Server, context.Context, *step.Operation, step.Answers) (bson.Doc, error){
		step.LayChunks: (*Server).layChunks, step.DropChunks: (*Server).dropChunks, step.LayResharded: (*Server).layResharded,
		step.AwaitDDL: (*Server).awaitDDL, step.RestoreSettings: (*Server).restoreSettings,
	}
}

func commitNothing(*Server, *step.Operation, step.Answers) (commitment, error) {
	return commitment{}, nil
}

// running is an operation in progress.
type running struct {
	op     step.Operation // as it was created or found; it does not change
	cancel chan error     // at most one cause
	hurry  chan struct{}  // holds a value if it is to commit soon
	// progress is that of a resharding or a move.
	progress progress
	phase    atomic.Int32 // the step.Phase it is in
	placed   bool         // it holds a place in term.places; an operation that was found does not
	// undone is closed once it is decided that it is undone, because of why.
	undone chan struct{}
	why    error
	done   chan struct{}
	// got and cause are set when done is closed.
	got   step.Answers
	cause error
}

// lastID is the _id of the document with the number of the last operation.
var lastID = bson.String("last")

// claiming numbers the callers that wait for a claim, below all operations.
var claiming atomic.Int64

// operate starts an operation and waits for it to end. If ctx ends first, the operation
// continues. Errors: those of the plan, the cause of an undo, 117,
// and the cause of ctx.
func (s *Server) operate(ctx context.Context, p plan) (step.Answers, error) {
	return s.operateWith(ctx, p, func(*running) {})
}

// operateWith is operate, and passes the operation to began when it has begun.
func (s *Server) operateWith(ctx context.Context, p plan, began func(*running)) (step.Answers, error) {
	t, err := s.term()
	if err != nil {
		return nil, err
	}
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	placed := true
	defer func() {
		if placed {
			<-t.places
		}
	}()
	me := -claiming.Add(1)
	err = s.claims.wait(ctx, p.claim, me, func(other int64) {
		if p.kind != step.KindMove && p.kind != step.KindChunks { // a DDL does not wait for a move
			t.interrupt(other, mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s changes", p.ns))
		}
	})
	if err != nil {
		return nil, err
	}
	r, err := s.begin(ctx, t, p, me)
	if r == nil || err != nil {
		s.claims.free(me)
		return nil, err
	}
	placed = false // the driver frees it
	began(r)
	undone := r.undone
	if p.kind != step.KindSettings { // who waits for it may hold up others, whom a shard that is away does not concern
		undone = nil
	}
	for {
		select {
		case <-r.done:
			return r.got, r.cause
		case <-undone:
			var end func()
			ctx, end = context.WithTimeoutCause(ctx, claimWait, r.why)
			defer end()
			undone = nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin decides, writes the document, and starts the operation. It returns nil if there
// is nothing to do. (invariant one-change)
func (s *Server) begin(ctx context.Context, t *term, p plan, me int64) (*running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.term(); err != nil || now != t {
		return nil, errDeposed
	}
	if p.op != nil {
		if err := p.op.MayWrite(databaseOf(p.ns)); err != nil {
			return nil, err
		}
	}
	d, err := p.decide()
	if err != nil || d.nothing {
		return nil, err
	}
	last, err := s.stored(operations, lastID)
	if err != nil {
		return nil, err
	}
	n, _ := bson.ExactInt64(last.Lookup("number"))
	o := step.Operation{Number: n + 1, Kind: p.kind, Namespace: p.ns, Phase: step.Trying, Args: d.args}
	if step.StartsCommitted(p.kind) {
		o.Phase, o.Told = step.Committed, d.told
	}
	writes := append(d.writes, put(operations, o.Doc()), put(operations, new(bson.Builder).Value("_id", lastID).Int64("number", o.Number).Finish()))
	if err := s.commit(ctx, writes...); err != nil {
		return nil, err
	}
	if d.after != nil {
		d.after()
	}
	s.claims.rename(me, o.Number)
	return s.start(t, &o, true), nil
}

// start starts the driver of an operation.
func (s *Server) start(t *term, o *step.Operation, placed bool) *running {
	r := &running{op: *o, placed: placed, cancel: make(chan error, 1), hurry: make(chan struct{}, 1), undone: make(chan struct{}), done: make(chan struct{}), progress: progress{began: time.Now()}}
	t.mu.Lock()
	t.running[o.Number] = r
	t.mu.Unlock()
	r.phase.Store(int32(o.Phase))
	end := s.show(t, r)
	t.work.Go(func() {
		defer end()
		s.drive(t, r)
	})
	return r
}

// cancel requests that an operation be undone.
func (t *term) cancel(number int64, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.running[number]; r != nil {
		select {
		case r.cancel <- cause:
		default: // already requested
		}
	}
}

// awaited are the kinds of operations for which a DDL waits. Only abortReshardCollection ends a
// resharding; what changes settings or the list of shards is what another client waits for.
var awaited = []string{step.KindReshard, step.KindSettings, step.KindAddShard, step.KindRemoveShard}

// interrupt requests that an operation be undone for which a DDL does not wait.
func (t *term) interrupt(number int64, cause error) {
	if r := t.find(number); r != nil && !slices.Contains(awaited, r.op.Kind) {
		t.cancel(number, cause)
	}
}

// low returns a number below which all operations have ended.
func (t *term) low() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	low := int64(1) << 62
	for n := range t.running {
		low = min(low, n)
	}
	return low
}

// uses reports whether a shard takes part in an operation in progress.
func (t *term) uses(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.running {
		for _, sh := range r.op.Shards() {
			if sh == id {
				return true
			}
		}
	}
	return false
}
