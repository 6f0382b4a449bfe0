package shardsvr

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// pendingInterval is how often a primary checks for ranges to receive or to remove that it has
// not started, because its predecessor did.
const pendingInterval = time.Second

// Shard is this member's part in its shard.
type Shard struct {
	node *node.Node
	cat  *catalog.Catalog
	exec *exec.Executor
	log  *slog.Logger
	// others are how it connects to other shards and the config servers.
	others client.Options

	names nameLocks
	kick  chan struct{} // holds a value if there may be new work
	work  struct {
		sync.Mutex
		running sync.WaitGroup
		life    context.Context           // nil while the shard does not run
		jobs    map[schema.Namespace]*job // in progress
		sets    map[string]*client.Set    // other shards, by their set strings
		ended   bool                      // there are no sets any more
		hosts   map[string]string         // set strings of other shards, by their names
		asking  map[transactionID]bool    // prepared here, and their coordinators are asked

		requests map[*request]context.CancelCauseFunc // in progress
	}
	coordinations coordinations
}

// New returns the Shard of a node, which connects to other servers of the cluster with the
// options others. From then on the node checks statements against what the shard owns.
func New(n *node.Node, others client.Options, log *slog.Logger) *Shard {
	s := &Shard{node: n, cat: n.Catalog, exec: n.Exec, others: others, log: log, kick: make(chan struct{}, 1)}
	s.work.jobs, s.work.sets = map[schema.Namespace]*job{}, map[string]*client.Set{}
	s.work.hosts, s.work.asking = map[string]string{}, map[transactionID]bool{}
	s.work.requests = map[*request]context.CancelCauseFunc{}
	n.Dispatcher.Status.Document("twoPhaseCommitCoordinator", s.appendCoordinations)
	n.Catalog.OnStepUp(func(context.Context) error { // before this member takes writes (invariant one-term)
		s.endTerm()
		s.wake()
		return nil
	})
	n.BecomeShard()
	return s
}

// Register adds the commands.
func (s *Shard) Register(r *command.Registry) {
	for _, c := range []*command.Command{
		s.command("_shardsvrIdentify", (*request).identify), s.command("_shardsvrLeave", (*request).leave),
		s.command("_shardsvrSettings", (*request).settings),
		s.command("_shardsvrSetDatabase", (*request).setDatabase), s.command("_shardsvrDropDatabase", (*request).dropDatabase),
		s.command("_shardsvrCreateSharded", (*request).createSharded), s.command("_shardsvrShard", (*request).shardCollection),
		s.command("_shardsvrUnshard", (*request).unshard), s.command("_shardsvrVersion", (*request).version),
		s.command("_shardsvrReceive", (*request).receive), s.command("_shardsvrReceived", (*request).received),
		s.command("_shardsvrBlock", (*request).block), s.command("_shardsvrOwn", (*request).own),
		s.command("_shardsvrGiven", (*request).given), s.command("_shardsvrAbort", (*request).abort),
		s.command("_shardsvrDrop", (*request).drop), s.command("_shardsvrRename", (*request).rename),
		s.command("_shardsvrRefine", (*request).refine), s.command("_shardsvrIndexes", (*request).indexes),
		s.command("_shardsvrOwned", (*request).owned), s.command("_shardsvrSplitPoints", (*request).splitPoints),
		s.command("_shardsvrClone", (*request).clone), s.command("_shardsvrSessions", (*request).sessions),
		s.command("_shardsvrDescribe", (*request).describe), s.command("_shardsvrCloneDatabase", (*request).cloneDatabase),
		s.command("_shardsvrDropUnsharded", (*request).dropUnsharded),
		s.command("_shardsvrReshard", (*request).reshard), s.command("_shardsvrReshardSample", (*request).reshardSample),
		s.command("_shardsvrDonate", (*request).donate), s.command("_shardsvrReshardReceive", (*request).reshardReceive),
		s.command("_shardsvrReshardReceived", (*request).reshardReceived), s.command("_shardsvrReshardOwn", (*request).reshardOwn),
		s.command("_shardsvrReshardAbort", (*request).reshardAbort),
		s.coordinateCommand(), s.decisionAnswer(), s.executedFor(), s.decideByHand(), s.cleanupOrphaned(),
	} {
		r.Register(c)
	}
	advance := s.command("_shardsvrAdvanceStream", (*request).advanceStream)
	advance.Place = command.WhereReadable // a stream may be read on a secondary
	r.Register(advance)
	r.Register(s.command("_shardsvrExpectSnapshots", (*request).expectSnapshots))
}

// Run does the background work until ctx ends, and returns when all of it has ended.
func (s *Shard) Run(ctx context.Context) {
	s.work.Lock()
	s.work.life = catalog.UntilEnd(catalog.Internally(ctx)) // (invariant one-term)
	s.work.Unlock()
	ticker := time.NewTicker(pendingInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if s.writable() {
			s.startPending()
			if err := s.goOnWithAll(); err != nil {
				s.log.WarnContext(ctx, "Cannot go on with decisions about transactions", "id", logUndecided, "error", err.Error())
			}
			s.askAbout(ctx)
		} else {
			s.endTerm()
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.kick:
		}
	}
	s.work.running.Wait()
	s.work.Lock()
	defer s.work.Unlock()
	s.work.life, s.work.ended = nil, true
	for _, set := range s.work.sets {
		set.Close()
	}
	clear(s.work.sets)
}

func (s *Shard) writable() bool { return s.node.Dispatcher.TakesWrites() == nil }

// wake makes Run check for new work.
func (s *Shard) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// startPending starts the work that is pending and not in progress.
func (s *Shard) startPending() {
	for _, db := range s.cat.Databases() {
		for _, c := range s.cat.Collections(db) {
			if c.Sharding() != nil && len(c.Sharding().Hidden) > 0 && !s.ending(c.Namespace) {
				s.begin(c.Namespace)
			}
		}
	}
}

// ending reports whether work for a collection is being ended; what is to follow begins then.
func (s *Shard) ending(ns schema.Namespace) bool {
	s.work.Lock()
	defer s.work.Unlock()
	j := s.work.jobs[ns]
	return j != nil && j.ctx.Err() != nil
}

// endTerm begins to end all background work, and the requests: they are a primary's, of one
// term. What is not done begins again from what is stored, and the config servers ask again.
func (s *Shard) endTerm() {
	s.work.Lock()
	defer s.work.Unlock()
	for _, j := range s.work.jobs {
		j.cancel()
	}
	for _, end := range s.work.requests {
		end(errEnded)
	}
}

// inTerm returns the context of a request, which ends with the term, and under which nothing is
// committed then (invariant one-term). A request that waits, for another shard or for what is
// prepared, might else go on in a later term, behind the fence of a later request; and who asks
// would wait for ever on a member that has the answer no more.
func (s *Shard) inTerm(ctx context.Context, r *request) (inside context.Context, leave func()) {
	inside, end := context.WithCancelCause(catalog.UntilEnd(ctx))
	s.work.Lock()
	defer s.work.Unlock()
	s.work.requests[r] = end
	return inside, func() {
		s.work.Lock()
		defer s.work.Unlock()
		delete(s.work.requests, r)
		end(nil)
	}
}

// job is the background work for one collection or database: receiving a range or a
// collection, removing ranges, or copying what is not sharded. Its units write only while ctx
// has not ended (invariant one-term).
type job struct {
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	run     func(context.Context) error
	receive *recipient // nil unless a range is being received
	reshard *resharder // nil unless a collection is being received under another shard key
	clone   *cloner    // nil unless a database is being copied
}

// begin starts the work that a collection needs, unless it is in progress.
func (s *Shard) begin(ns schema.Namespace) *job {
	return s.beginJob(ns, func() *job {
		if ns.IsResharding() {
			r := newResharder(s, ns)
			return &job{reshard: r, run: r.run}
		}
		if coll := s.cat.Lookup(ns); coll != nil && receivingOf(coll) != nil {
			r := &recipient{donor: donor{s: s, ns: ns}, destination: destination{cat: s.cat}, follower: follower{changed: make(chan struct{})}}
			return &job{receive: r, run: r.run}
		}
		return &job{run: func(ctx context.Context) error { return s.sweep(ctx, ns) }}
	})
}

// beginJob starts a job for a name, or returns the one in progress; nil if the shard is not
// running. It waits for one that is being ended.
func (s *Shard) beginJob(ns schema.Namespace, what func() *job) *job {
	s.work.Lock()
	defer s.work.Unlock()
	for {
		j := s.work.jobs[ns]
		if s.work.life == nil || s.work.life.Err() != nil || j != nil && j.ctx.Err() == nil {
			return j
		}
		if j == nil {
			break
		}
		s.work.Unlock()
		<-j.ended
		s.work.Lock()
	}
	j := what()
	ctx, cancel := context.WithCancel(s.work.life)
	j.ctx, j.cancel = ctx, cancel
	j.ended = make(chan struct{})
	s.work.jobs[ns] = j
	s.work.running.Go(func() {
		defer close(j.ended)
		defer j.cancel()
		if err := s.inside(ctx, j.run); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "Receiving or removing data of a cluster failed", "id", logMove, "namespace", ns.String(), "error", err.Error())
			if j.receive != nil && j.receive.stillReceives() == nil || j.reshard != nil && j.reshard.stillReceives() == nil || j.clone != nil {
				<-ctx.Done() // keeps the error available to the next request
			}
		}
		if j.receive != nil {
			j.receive.over()
		}
		if j.reshard != nil {
			j.reshard.over()
		}
		s.work.Lock()
		defer s.work.Unlock()
		delete(s.work.jobs, ns)
	})
	return j
}

// inside runs f on the data of this member: ctx ends when a snapshot is about to replace them.
func (s *Shard) inside(ctx context.Context, f func(context.Context) error) error {
	m := s.node.Dispatcher.Member
	if m == nil {
		return f(ctx)
	}
	ctx, leave, err := m.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f(ctx)
}

// stop ends the background work for a collection.
func (s *Shard) stop(ns schema.Namespace) {
	s.work.Lock()
	j := s.work.jobs[ns]
	s.work.Unlock()
	if j != nil {
		j.cancel()
		<-j.ended
	}
}

// logMove is the id of the log line about a failed job.
const logMove = 9000040

// set returns the client of another shard. Errors: 91 after Run.
func (s *Shard) set(at string) (*client.Set, error) {
	s.work.Lock()
	defer s.work.Unlock()
	if set := s.work.sets[at]; set != nil {
		return set, nil
	}
	if s.work.ended {
		return nil, mongoerr.New(mongoerr.ShutdownInProgress, "the shard is ending")
	}
	parsed, err := client.ParseSetString(at)
	if err != nil {
		return nil, err
	}
	o := s.others
	o.AppName, o.Log = "mayfly shard", s.log
	set := client.OpenSet(parsed, o, repl.PartTimes{Clock: s.node.Dispatcher.Member.Clock()})
	s.work.sets[at] = set
	return set, nil
}

// AskConfig runs a command on the primary of the cluster's config servers. It is sent again if
// the answer was lost. Errors: 70 while this is no shard of a cluster.
func (s *Shard) AskConfig(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	doc, err := s.node.Stored(identities, node.ShardIdentity)
	if err != nil {
		return nil, err
	}
	at := doc.Lookup("configsvrConnectionString")
	if doc == nil || at.Type != bson.TypeString {
		return nil, mongoerr.New(mongoerr.ShardNotFound, "this is no shard of a cluster")
	}
	set, err := s.set(at.Str())
	if err != nil {
		return nil, err
	}
	answer, err := set.Run(ctx, client.Call{DB: db, Body: body, Idempotent: true})
	return answer.Reply, err
}

// server is the client of a shard's own commands.
var server = &command.Client{Internal: true}

// run runs a command on this member.
func (s *Shard) run(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	r := s.node.Dispatcher.Dispatch(ctx, &command.Request{Client: server, DB: db, Body: body})
	defer r.Release()
	reply := r.Body.Clone()
	if reply.Lookup("ok").Truthy() {
		return reply, nil
	}
	code, text := reply.Lookup("code"), reply.Lookup("errmsg")
	message := ""
	if text.Type == bson.TypeString {
		message = text.Str()
	}
	return reply, mongoerr.New(mongoerr.Code(bson.ClampToInt64(code)), "%s", message)
}

// collection returns a collection of the shard's own, which is created if it is not there.
func (s *Shard) collection(ctx context.Context, ns schema.Namespace) (*catalog.Collection, error) {
	if c := s.cat.Lookup(ns); c != nil {
		return c, nil
	}
	c, err := s.cat.Create(ctx, ns, nil)
	if mongoerr.Is(err, mongoerr.NamespaceExists) {
		return s.cat.Lookup(ns), nil
	}
	return c, err
}

// put replaces or inserts a document by its _id, in the unit u, or in one of its own if u
// is nil.
func (s *Shard) put(ctx context.Context, u *catalog.Unit, ns schema.Namespace, doc bson.Doc) error {
	c, err := s.collection(ctx, ns)
	if err != nil {
		return err
	}
	put := func(u *catalog.Unit) error {
		key, old, err := u.LockID(ctx, c, doc.Lookup("_id"))
		switch {
		case err != nil:
			return err
		case old == nil:
			return u.Insert(ctx, c, doc)
		}
		return u.Update(ctx, c, key, old, doc)
	}
	if u != nil {
		return put(u)
	}
	return s.cat.Run(ctx, storage.Journaled, put)
}

// remove removes the document with an _id, if it exists.
func (s *Shard) remove(ctx context.Context, ns schema.Namespace, id bson.Value) error {
	c := s.cat.Lookup(ns)
	if c == nil {
		return nil
	}
	return s.cat.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		key, old, err := u.LockID(ctx, c, id)
		if err != nil || old == nil {
			return err
		}
		return u.Delete(ctx, c, key, old)
	})
}
