package repl

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.etcd.io/raft/v3/raftpb"
)

const (
	// maxPosted bounds the calls that wait for a member's goroutine.
	maxPosted = 4096
	// maxPostedARound bounds the calls between two rounds.
	maxPostedARound = 1024
)

// Replica is a running group: the goroutine that owns it, and the methods by which
// other goroutines use it.
type Replica struct {
	g     *Group
	store *Store
	net   *Network
	log   *slog.Logger
	fatal func(error)

	inbox  inbox
	wake   chan struct{} // capacity 1: the inbox has something
	posted chan func(*Group)
	// applied has the error of what was run beside the group, when that is done.
	applied chan error // capacity 1
	stop    chan struct{}
	done    chan struct{}
	failed  error // of a round within a call; its goroutine's
	state   atomic.Pointer[State]
	at      atomic.Pointer[Position] // the last entry that is applied
	window  atomic.Pointer[Window]
	retain  atomic.Int64 // a time.Duration; see Member.Retain
	// trimmed is the tick at which the log was last too large; the goroutine's.
	trimmed uint64
	// truncations counts how often the log was truncated; short says that it had less than its
	// retention after the last one, and is the goroutine's.
	truncations atomic.Int64
	short       bool
	// sending is how many snapshots are on their way to others; the goroutine's.
	sending int
	// arrivals wakes those who wait for entries to be applied.
	arrivals catalog.Notifier
	// changed is called after the state's Changes has risen; nil for none.
	changed func()
	// truncates is called before the log is truncated up to a position; nil for none.
	truncates func(upTo Position)
	// deposed is called when the member ceases to serve as primary, once its state says so and
	// before the group does anything else; nil for none. It does not wait.
	deposed func()
	// nears is called from time to time with the position up to which the log is truncated
	// next; nil for none. foreseen is the tick at which it was; the goroutine's.
	nears    func(upTo Position)
	foreseen uint64
}

// State is the state of a member after its last round. Immutable.
type State struct {
	ID        uint64
	Role      Role
	Primary   bool // serves as primary
	Term      uint64
	Leader    uint64 // raft id; 0 for none
	Applied   Position
	Committed uint64
	Last      uint64   // entry of the log
	Base      Position // of the last entry that was truncated from the log
	LogBytes  uint64
	Config    *Config
	Removed   bool // the member is not in the configuration, or no longer
	Clock     Timestamp
	Others    map[uint64]Other
	Waiting   int // proposals without an answer
	// Changes counts changes of role, primary or configuration.
	Changes    int64
	evaluation Evaluation

	// Only Member.State sets what follows.
	Member      MemberState
	Writable    bool // primary, and has stepped up
	Maintenance bool
	Receiving   *Progress // of a snapshot; nil for none
}

// truncated reports whether entries are gone from the log that were there since the set was
// founded.
func (s *State) truncated() bool { return s.Base.Index > founded.Index }

// Other is what a member knows about another one.
type Other struct {
	Applied Position  // the last entry that its machine holds, as it reported
	Heard   time.Time // when it was last heard from
}

// inbox holds proposals that the member's goroutine has not taken yet. It is open
// while the member is primary. When it ceases to be, they fail at once: their callers
// may hold gates or locks that the entries of others need.
type inbox struct {
	sync.Mutex
	open bool
	list []*proposal
}

// put adds a proposal; false if the member is not primary.
func (b *inbox) put(p *proposal) bool {
	b.Lock()
	defer b.Unlock()
	if !b.open {
		return false
	}
	b.list = append(b.list, p)
	if p.ordered != nil {
		p.ordered() // nobody takes it, or adds another one after it, before this returns
	}
	return true
}

// take empties the inbox.
func (b *inbox) take() []*proposal {
	b.Lock()
	defer b.Unlock()
	list := b.list
	b.list = nil
	return list
}

// primary opens the inbox, or closes it.
func (b *inbox) primary(is bool) {
	b.Lock()
	b.open = is
	list := b.list
	b.list = nil
	b.Unlock()
	for _, p := range list {
		p.done(Position{}, ErrNotPrimary)
	}
}

// StartReplica starts the member of a set whose data is in a store. fatal is called
// with an error after which it cannot continue: the process should end.
func StartReplica(s *Store, n *Network, clock *Clock, log *slog.Logger, fatal func(error)) (*Replica, error) {
	m, err := newReplica(s, n, clock, log, fatal)
	if err == nil {
		m.start()
	}
	return m, err
}

func newReplica(s *Store, n *Network, clock *Clock, log *slog.Logger, fatal func(error)) (*Replica, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Replica{store: s, net: n, log: log, fatal: fatal, wake: make(chan struct{}, 1), posted: make(chan func(*Group), maxPosted), applied: make(chan error, 1), stop: make(chan struct{}), done: make(chan struct{})}
	g, err := NewGroup(Options{Group: s.opts.Group, ID: s.id, Log: s, Machine: s, Out: replicaOutbox{m}, Clock: clock, Logger: log, Primary: m.primary, Advanced: m.advanced,
		Beside: func(work func() error) { go func() { m.applied <- work() }() }})
	if err != nil {
		return nil, err
	}
	m.g = g
	m.publish()
	return m, nil
}

func (m *Replica) start() {
	m.net.add(m)
	go m.run()
}

// run is the goroutine.
func (m *Replica) run() {
	defer close(m.done)
	timer := time.NewTimer(m.tick())
	defer timer.Stop()
	m.standAlone()
	more := true
	for {
		if !more {
			select {
			case <-m.wake:
			case f := <-m.posted:
				f(m.g)
			case <-timer.C:
				m.g.Tick()
				timer.Reset(m.tick())
			case err := <-m.applied:
				m.failed = errors.Join(m.failed, m.g.Applied(err))
			case <-m.stop:
				if err := m.end(); err != nil {
					m.fatal(err)
				}
				return
			}
		}
		m.drain(timer)
		if m.failed == nil {
			m.failed = m.trim()
		}
		for _, p := range m.inbox.take() {
			m.g.enqueue(p)
		}
		err := m.failed
		if err == nil {
			more, err = m.g.Round()
		}
		if err != nil {
			m.fatal(errors.Join(err, m.end()))
			return
		}
		m.publish()
	}
}

// end stops the group, when what runs beside it is done.
func (m *Replica) end() (err error) {
	if m.g.beside != nil {
		err = m.g.Applied(<-m.applied)
	}
	m.g.Stop()
	return err
}

// drain takes all other calls that are waiting, so that they share one round and
// one sync.
func (m *Replica) drain(timer *time.Timer) {
	for range maxPostedARound {
		select {
		case f := <-m.posted:
			f(m.g)
		case <-timer.C:
			m.g.Tick()
			timer.Reset(m.tick())
		case err := <-m.applied:
			m.failed = errors.Join(m.failed, m.g.Applied(err))
		default:
			return
		}
	}
}

func (m *Replica) tick() time.Duration {
	if c := m.g.state.config; c != nil {
		return c.Election / electionTicks
	}
	return defaultElection / electionTicks
}

// publish makes the state of the group visible.
func (m *Replica) publish() {
	g, old := m.g, m.state.Load()
	s := &State{ID: g.ID, Role: g.role, Primary: g.primary, Term: g.term, Leader: g.lead, Applied: g.applied, Last: g.Log.Last(), Base: g.Log.Base(), LogBytes: m.store.Bytes(),
		Committed: g.rn.BasicStatus().GetCommit(), Config: g.state.config, Clock: g.Clock.Now(), Waiting: len(g.inflight) + len(g.queue),
		evaluation: Evaluation{g.term, g.epoch}}
	s.Removed = g.removed || s.Config != nil && s.Config.Member(s.ID) == nil
	if len(g.peers) > 0 {
		s.Others = make(map[uint64]Other, len(g.peers))
		for id, p := range g.peers {
			s.Others[id] = Other{p.applied, p.at}
		}
	}
	if old == nil {
		m.state.Store(s)
		m.advanced(s.Applied)
		return
	}
	s.Changes = old.Changes
	same := old.Role == s.Role && old.Primary == s.Primary && old.Config == s.Config && old.Leader == s.Leader && old.Removed == s.Removed
	if !same {
		s.Changes++
	}
	m.state.Store(s)
	m.advanced(s.Applied)
	if s.Applied != old.Applied {
		m.arrivals.Broadcast()
	}
	if !same && m.changed != nil {
		m.changed()
	}
}

// advanced notes what is applied, which is State's Applied only at the end of the round: a round
// may apply entries, and then wait for the disk that others are to go to.
func (m *Replica) advanced(upTo Position) { m.at.Store(&upTo) }

// Applied returns the position of the last entry that is applied: not before any entry whose
// proposer has been answered, as State's may be.
func (m *Replica) Applied() Position { return *m.at.Load() }

// primary is called by the group when it begins or ceases to serve as primary. The
// state must say so before any operation fails because of it: the error has a topology
// version, and a driver that knows that version already ignores the error as an old
// one, and tries again on this member.
func (m *Replica) primary(is bool) {
	if !is {
		m.publish()
		if m.deposed != nil {
			m.deposed()
		}
	}
	m.inbox.primary(is)
}

// State returns the state of the member after its last round.
func (m *Replica) State() *State { return m.state.Load() }

// Stop ends the member. Its store stays open.
func (m *Replica) Stop() {
	m.net.remove(m)
	close(m.stop)
	<-m.done
}

// post has f run by the member's goroutine. Errors: the cause of ctx's end, errStopped.
func (m *Replica) post(ctx context.Context, f func(*Group)) error {
	select {
	case m.posted <- f:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.done:
		return errStopped
	}
}

// tryPost is like post, but gives up at once where the queue is full.
func (m *Replica) tryPost(f func(*Group)) bool {
	select {
	case m.posted <- f:
		return true
	default:
		return false
	}
}

// answer is the result of a call of the group.
type answer struct {
	at  Position
	err error
}

// ask runs f on the member's goroutine and waits for its answer.
func (m *Replica) ask(ctx context.Context, f func(g *Group, done func(Position, error))) (Position, error) {
	c := make(chan answer, 1)
	if err := m.post(ctx, func(g *Group) { f(g, func(at Position, err error) { c <- answer{at, err} }) }); err != nil {
		return Position{}, err
	}
	select {
	case a := <-c:
		return a.at, a.err
	case <-ctx.Done():
		return Position{}, context.Cause(ctx)
	case <-m.done:
		select {
		case a := <-c:
			return a.at, a.err
		default:
			return Position{}, errStopped
		}
	}
}

// Evaluate begins an evaluation; see Group.Evaluate.
func (m *Replica) Evaluate() (Evaluation, error) {
	s := m.state.Load()
	if !s.Primary {
		return Evaluation{}, ErrNotPrimary
	}
	return s.evaluation, nil
}

// Propose proposes a write and waits until it is applied here; see Group.Propose. It
// always returns: a member that cannot reach a majority steps down.
func (m *Replica) Propose(ev Evaluation, payload []byte, own any) (Position, error) {
	return m.propose(entry{kind: kindEffect, term: ev.term, payload: payload}, ev.epoch, own, 1, nil)
}

// propose is Propose for a write of several operations, each of which has its own time;
// the last is that of the entry's position. ordered is called once the order of the
// proposal among those of this member is decided (invariant no-hole); nil for none.
func (m *Replica) propose(e entry, epoch uint64, own any, times int, ordered func()) (Position, error) {
	c := make(chan answer, 1)
	p := &proposal{entry: e, epoch: epoch, own: own, times: times, ordered: ordered,
		done: func(at Position, err error) { c <- answer{at, err} }}
	if !m.inbox.put(p) {
		return Position{}, ErrNotPrimary
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
	a := <-c
	return a.at, a.err
}

// Found makes the member's data the data of a new set. Errors: 23 if it belongs to a
// set already, and those of the function Found.
func (m *Replica) Found(ctx context.Context, c *Config) error {
	return m.Do(ctx, func(g *Group) error {
		if g.state.config != nil {
			return mongoerr.New(mongoerr.AlreadyInitialized, "already initialized")
		}
		if err := Found(m.store, c, g.Clock); err != nil {
			return err
		}
		founded, err := NewGroup(g.Options)
		if err != nil {
			m.failed = err
			return err
		}
		g.Stop()
		m.g = founded
		m.campaign() // nobody else has anything
		return nil
	})
}

// standAlone makes the only voter of a set, which need not wait for others, stand
// for election at once.
func (m *Replica) standAlone() {
	if v := m.g.state.conf.GetVoters(); len(v) == 1 && v[0] == m.g.ID {
		m.campaign()
	}
}

// campaign makes the member stand for election now, if it may.
func (m *Replica) campaign() {
	if !m.g.mayCampaign() {
		return
	}
	if err := m.g.StepUp(); err != nil {
		m.log.Debug("replication: cannot start an election", "error", err)
	}
}

// Reconfigure proposes a configuration and waits until it is applied here.
func (m *Replica) Reconfigure(ctx context.Context, c *Config) (Position, error) {
	return m.ask(ctx, func(g *Group, done func(Position, error)) { g.ProposeConfig(c, done) })
}

// ReadIndex waits; see Group.ReadIndex.
func (m *Replica) ReadIndex(ctx context.Context) error {
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) {
		g.ReadIndex(func(err error) { done(Position{}, err) })
	})
	return err
}

// WaitConcern waits until ctx ends at the latest; see Group.WaitConcern.
func (m *Replica) WaitConcern(ctx context.Context, at Position, c Concern) error {
	return m.wait(ctx, func(g *Group, done func(error)) *Wait { return g.WaitConcern(at, c, done) })
}

// WaitTime waits until ctx ends at the latest; see Group.WaitTime.
func (m *Replica) WaitTime(ctx context.Context, t Timestamp) error {
	return m.wait(ctx, func(g *Group, done func(error)) *Wait { return g.WaitTime(t, done) })
}

func (m *Replica) wait(ctx context.Context, start func(g *Group, done func(error)) *Wait) error {
	var w *Wait
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) {
		w = start(g, func(err error) { done(Position{}, err) })
	})
	if ctx.Err() != nil {
		// The group must not keep waits of callers that have left. w belongs to its
		// goroutine.
		go func() {
			if e := m.post(context.Background(), func(g *Group) {
				if w != nil {
					g.Cancel(w, context.Canceled)
				}
			}); e != nil && !errors.Is(e, errStopped) {
				m.log.Error("replication: cannot cancel a wait", "error", e)
			}
		}()
	}
	return err
}

// Do runs f on the member's goroutine, for calls whose outcome is known immediately:
// StepDown, Freeze, Truncate.
func (m *Replica) Do(ctx context.Context, f func(*Group) error) error {
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) { done(Position{}, f(g)) })
	return err
}

// replicaOutbox passes messages to the network.
type replicaOutbox struct{ m *Replica }

func (o replicaOutbox) Send(to uint64, msg *raftpb.Message, r Report) { o.m.net.send(o.m, to, msg, r) }

func (o replicaOutbox) SendSnapshot(msg *raftpb.Message) { o.m.net.sendSnapshot(o.m, msg) }
