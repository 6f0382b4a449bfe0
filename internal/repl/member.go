package repl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/waits"
)

// endPatience is how long operations may take to end before a snapshot replaces the
// data; after that the process ends instead.
const endPatience = 30 * time.Second

// MemberOptions open a Member.
type MemberOptions struct {
	Set string // name of the replica set
	FS  storage.FS
	Dir string // of the server
	// Open opens the store in a directory.
	Open func(dir string) (*storage.Engine, error)
	// Catalog opens the catalog in the store. Its Committer is the member.
	Catalog catalog.Options
	Network NetworkOptions
	// Window is how much of the log the member keeps, unless SetWindow has stored another
	// one. Where Bytes is 0, that of DefaultWindow is used.
	Window Window
	// Wall is the wall clock; nil: the system's.
	Wall func() time.Time
	// Quiesce stops background work on the data before a snapshot replaces it, and
	// returns a function that starts it again; nil for nothing.
	Quiesce func() (resume func())
	Log     *slog.Logger // nil: discard
	// Fatal is called with an error after which the member cannot continue: the process
	// should end.
	Fatal func(error)
}

// Member is this process as a member of a replica set: the Committer of its catalog,
// and everything else that the process needs of its set. Safe for use by many
// goroutines.
type Member struct {
	o       MemberOptions
	clock   *Clock
	net     *Network
	store   *Store
	replica *Replica
	catalog *catalog.Catalog

	kept    KeptStates
	decoded decodedEntries
	large   lastLarge
	// followers are the change streams.
	streams Streams
	// replicated counts the operations of other members that this one has applied.
	replicated struct{ inserted, updated, deleted, commands atomic.Int64 }
	door       door
	resume     func() // what Quiesce has ended; the group's goroutine's

	opened time.Time
	ready  atomic.Uint64 // the term in which the member has stepped up
	steps  struct {
		sync.Mutex
		downs uint64 // how often it has stepped down
	}
	elected     atomic.Uint64 // the cluster time when it did
	maintenance atomic.Int64  // how often maintenance was asked for
	changes     atomic.Int64
	changed     struct {
		sync.Mutex
		c chan struct{}
	}
	chains   chains
	changing sync.Mutex // held while Initiate or Reconfigure runs
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// OpenMember opens the data of a member and starts it: in its set or, where the data
// belongs to none, waiting to be added to one. Errors: 93 if the data belongs to a
// set with another name; those of the disk.
func OpenMember(o MemberOptions) (_ *Member, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Window.Bytes == 0 {
		o.Window.Bytes = DefaultWindow(o.FS, o.Dir).Bytes
	}
	m := &Member{o: o, clock: NewClock(o.Wall, DefaultMaxDrift), opened: o.Wall()}
	m.changed.c = make(chan struct{})
	m.streams.opened = make(chan struct{}, 1)
	m.streams.max.Store(DefaultMaxStreams)
	m.SetAnswers(DefaultAnswers())
	m.kept.m = m
	m.chains.from, m.chains.part = maxEffectBytes, partBytes
	m.kept.SetHistory(DefaultHistory)
	m.o.Catalog.Committer, m.o.Catalog.Operations, m.o.Catalog.Oplog = m, true, oplogView{m}
	if m.store, err = OpenStore(StoreOptions{FS: o.FS, Dir: o.Dir, Open: o.Open, Effects: m.openEffects}); err != nil {
		return nil, err
	}
	o.Network.About = func() (string, bool) { return o.Set, m.catalog.HasData() }
	o.Network.Health, o.Network.Changed = m.Health, m.tell
	m.net = NewNetwork(o.Network)
	if m.replica, err = newReplica(m.store, m.net, m.clock, o.Log, o.Fatal); err == nil {
		m.replica.changed, m.replica.truncates, m.replica.nears, m.replica.deposed = m.wake, m.lose, m.warn, m.deposed
		if c := m.replica.State().Config; c != nil && c.Set != o.Set {
			err = invalidConfig("The data in %s belong to the replica set %s, but the member was started for %s", o.Dir, c.Set, o.Set)
		}
	}
	window := o.Window
	if err == nil {
		window, err = m.storedWindow(window)
	}
	if err != nil {
		m.net.Close()
		return nil, errors.Join(err, m.catalog.Close(), m.store.Close())
	}
	m.replica.SetWindow(window)
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.replica.start()
	m.work.Go(func() { m.lead(ctx) })
	m.work.Go(func() { m.replaceLost(ctx) })
	m.work.Go(func() { m.watchDisk(ctx) })
	m.work.Go(func() { m.keepMoving(ctx) })
	return m, nil
}

// Stop ends the member and closes its data. By then the catalog is not in use, and
// everything that Quiesce stops has ended.
func (m *Member) Stop() error {
	m.catalog.EndTransactions(true)
	m.catalog.LetPreparedGo()
	err := m.catalog.Close()
	m.stop()
	m.work.Wait()
	m.replica.Stop()
	m.net.Close()
	m.kept.stop()
	return errors.Join(err, m.store.Close())
}

// Catalog returns the member's data. The Catalog stays the same when a snapshot
// replaces what is in it; it is used only between Enter and leave.
func (m *Member) Catalog() *catalog.Catalog { return m.catalog }

// Clock returns the cluster clock, which clients' times advance.
func (m *Member) Clock() *Clock { return m.clock }

// Host is the host:port by which others reach this process.
func (m *Member) Host() string { return m.o.Network.Host }

// Set is the name of the set that the process was started for.
func (m *Member) Set() string { return m.o.Set }

// ServePeers accepts connections from other members on a listener, until Stop or until
// the listener is closed.
func (m *Member) ServePeers(l net.Listener) error { return m.net.Serve(l) }

// Enter lets an operation use the data until it calls leave. The context that it
// returns ends with error 11602 when a snapshot is about to replace the data; until
// that is done, Enter waits. Operations that need no data, such as hello, do not call
// it. Errors: the cause of ctx's end.
func (m *Member) Enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	return m.door.enter(ctx)
}

// EnterUnder is Enter for who has a context of its own for the operation, and its end: a
// snapshot ends that one.
func (m *Member) EnterUnder(ctx context.Context, end context.CancelCauseFunc) (inside context.Context, leave func(), err error) {
	return m.door.enterUnder(ctx, end)
}

// SetSnapshotRate bounds how many bytes of its data the member sends to others in a
// second, all of them together; 0: no bound.
func (m *Member) SetSnapshotRate(bytes int64) { m.net.pace.rate.Store(bytes) }

// Evaluate returns the state on which a unit that begins now is evaluated: zero where
// the member is not primary, and then Commit rejects the unit.
func (m *Member) Evaluate() catalog.Evaluation {
	if m.replica == nil {
		return catalog.Evaluation{} // it is being opened
	}
	s := m.replica.State()
	if !s.Primary {
		return catalog.Evaluation{}
	}
	return catalog.Evaluation{Term: s.evaluation.term, Epoch: s.evaluation.epoch, Early: !m.writable(s)}
}

type stepUpKey struct{}

// Commit implements Committer: it proposes the effect to the set, and returns when a
// majority has it on disk and this member has applied it. It waits for that even after
// ctx has ended, since the unit's locks must stay until the outcome is known; a member
// that cannot reach a majority steps down. Errors: ErrNotPrimary and ErrDropped, which
// say that it left no trace; ErrSteppedDown, which says that the outcome is not known
// yet.
func (m *Member) Commit(ctx context.Context, e *catalog.Effect, _ storage.Durability) error {
	if e.Empty() {
		if err := e.Apply(catalog.LogPosition{}); err != nil {
			return err
		}
		noteOpTime(ctx, m.Shown())
		return nil
	}
	ev := e.Evaluation()
	if ev.Term == 0 || ev.Early && ctx.Value(stepUpKey{}) != m {
		return ErrNotPrimary
	}
	room := e.AppendEncoded(make([]byte, entryHead, entryHead+e.EncodedSize()))
	w := waits.Of(ctx)
	w.Begin(waits.Majority)
	defer w.End(waits.Majority)
	if len(room) > m.chains.from {
		if e.Timed() { // its encoding would be in several entries before it has a time
			return mongoerr.New(mongoerr.TransactionTooLarge, "the part of the coordinator of a transaction over shards is larger than one entry of the log")
		}
		at, err := m.commitChain(e, room[entryHead:])
		if err == nil {
			noteOpTime(ctx, at)
		}
		return err
	}
	at, err := m.replica.propose(entry{kind: kindEffect, term: ev.Term, payload: room[entryHead:], room: room}, ev.Epoch, e, e.OperationCount(), e.Ordered)
	if err == nil {
		noteOpTime(ctx, at)
	}
	return err
}

// ReadIndex waits until this member has been the primary at a moment after the call,
// and holds all that was acknowledged before it. Errors: ErrNotPrimary, and the cause
// of ctx's end.
func (m *Member) ReadIndex(ctx context.Context) error { return m.replica.ReadIndex(ctx) }

// WaitConcern waits until the members that a concern asks for hold an entry that this
// member has committed. Errors: 100 and 79 if the set cannot meet it, ErrSteppedDown,
// the cause of ctx's end.
func (m *Member) WaitConcern(ctx context.Context, at Position, c Concern) error {
	return m.replica.WaitConcern(ctx, at, c)
}

// Satisfiable returns error 100 or 79 if the set cannot meet a concern, whatever its
// members hold, and 94 outside a set.
func (m *Member) Satisfiable(c Concern) error {
	config := m.State().Config
	if config == nil {
		return mongoerr.New(mongoerr.NotYetInitialized, "no replset config has been received")
	}
	return config.satisfies(c)
}

// WaitTime waits until this member holds everything up to a cluster time. Errors: 205
// for one too far ahead, the cause of ctx's end.
func (m *Member) WaitTime(ctx context.Context, t Timestamp) error { return m.replica.WaitTime(ctx, t) }

// Note commits an entry that has a text and no effect (appendOplogNote).
func (m *Member) Note(ctx context.Context, text []byte) (Position, error) {
	at, err := m.replica.ask(ctx, func(g *Group, done func(Position, error)) { g.Noop(text, done) })
	if err == nil {
		noteOpTime(ctx, at)
	}
	return at, err
}

// effects is the catalog as the store's Effects.
type effects struct{ m *Member }

// openEffects opens the catalog on a store, or reopens it on another one.
func (m *Member) openEffects(e *storage.Engine) (_ Effects, err error) {
	if m.catalog == nil {
		m.catalog, err = catalog.Open(e, m.o.Catalog)
		return effects{m}, err
	}
	if err := m.catalog.Reopen(e); err != nil {
		return nil, err
	}
	if m.resume != nil {
		m.resume()
		m.resume = nil
	}
	m.door.open()
	m.tell()
	return effects{m}, nil
}

// Apply implements Effects.
func (f effects) Apply(run []Change) error {
	n, err := applyTo(f.m.catalog, run)
	if err != nil {
		return err
	}
	r := &f.m.replicated
	r.inserted.Add(n.Inserted)
	r.updated.Add(n.Updated)
	r.deleted.Add(n.Deleted)
	r.commands.Add(n.Commands)
	return nil
}

// applyTo applies the writes of entries to a catalog, and counts the operations of those that
// were not proposed here.
func applyTo(to *catalog.Catalog, run []Change) (n catalog.OperationCounts, err error) {
	all := make([]catalog.Logged, len(run))
	for i, c := range run {
		l := &all[i]
		l.At = catalog.LogPosition{Index: c.At.Index, Term: c.At.Term, Time: uint64(c.At.Time)}
		if e, ok := c.Own.(*catalog.Effect); ok {
			l.Effect = e
		} else if c.Payload != nil {
			if l.Effect, err = to.Decode(c.Payload); err != nil {
				return n, err
			}
			n.Add(l.Effect.OperationCounts())
		}
	}
	return n, to.ApplyAll(all)
}

// Replicated counts the operations that other members have proposed and this one has
// applied since it was opened.
func (m *Member) Replicated() catalog.OperationCounts {
	r := &m.replicated
	return catalog.OperationCounts{Inserted: r.inserted.Load(), Updated: r.updated.Load(), Deleted: r.deleted.Load(), Commands: r.commands.Load()}
}

// Close implements Effects: when it returns, the data is not in use.
func (f effects) Close() error {
	f.m.tell() // even before an operation fails because of it
	defer f.m.tell()
	f.m.catalog.LetPreparedGo() // DDL may wait for them
	if !f.m.door.close(endPatience) {
		return fmt.Errorf("operations did not end within %s", endPatience)
	}
	if f.m.o.Quiesce != nil {
		f.m.resume = f.m.o.Quiesce()
	}
	f.m.catalog.EndBuilds()
	f.m.catalog.EndTransactions(true)
	f.m.kept.drop()
	return nil
}

// lead is the goroutine that follows the role of the group: it steps up, and writes
// the configuration where tools read it.
func (m *Member) lead(ctx context.Context) {
	var shown *Config
	for {
		changed := m.Changed()
		s := m.replica.State()
		if s.Primary && m.ready.Load() != s.Term {
			m.stepUp(ctx, s.Term)
		}
		if s.Config != shown && s.Config != nil {
			if err := m.showConfig(ctx, s.Config); err == nil {
				shown = s.Config
			} else if ctx.Err() == nil {
				m.o.Log.Warn("replication: cannot write the configuration to local.system.replset", "error", err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// logTransitionComplete is the id of the line that the member is the primary: mongod's, for which
// tools wait.
const logTransitionComplete = 21331

// stepUp prepares the catalog for being primary; then the member accepts writes. Where
// that fails, another member must step up.
func (m *Member) stepUp(ctx context.Context, term uint64) {
	ctx, leave, err := m.door.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	m.steps.Lock()
	downs := m.steps.downs
	m.steps.Unlock()
	err = m.catalog.StepUp(context.WithValue(ctx, stepUpKey{}, m))
	if err == nil {
		m.replica.tryPost(func(g *Group) { g.Noop(firstNote(term), func(Position, error) {}) }) // before any write
		m.elected.Store(uint64(m.Applied().Time))
		if !m.nowReady(term, downs) {
			return // the change of role has been told
		}
		m.tell()
		m.o.Log.Info("Transition to primary complete; database writes are now permitted", "id", logTransitionComplete, "term", term)
		return
	}
	if s := m.replica.State(); ctx.Err() != nil || !s.Primary || s.Term != term {
		return
	}
	m.o.Log.Error("replication: cannot step up", "error", err)
	if err := m.replica.Do(ctx, func(g *Group) error { return g.ForceStepDown(electionTicks) }); err != nil {
		m.o.Log.Debug("replication: cannot step down", "error", err)
	}
}

// nowReady says that the member has stepped up, unless it has stepped down since.
func (m *Member) nowReady(term, downs uint64) bool {
	m.steps.Lock()
	defer m.steps.Unlock()
	if m.steps.downs != downs {
		return false
	}
	m.ready.Store(term)
	return true
}

// deposed is called by the group's goroutine when the member has ceased to serve as primary,
// before anything else is applied: an entry may close gates that prepared transactions are
// in. It may serve again in the same term, and then steps up again.
func (m *Member) deposed() {
	m.steps.Lock()
	m.steps.downs++
	m.ready.Store(0)
	m.steps.Unlock()
	if m.catalog != nil {
		m.catalog.LetPreparedGo()
	}
}

// showConfig writes the configuration where tools read it.
func (m *Member) showConfig(ctx context.Context, c *Config) error {
	ctx, leave, err := m.door.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return replaceOnly(ctx, m.catalog, shownConfig, c.Shown(), storage.Buffered)
}
