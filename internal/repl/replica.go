package repl

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

const (
	// maxPosted bounds what waits for a member's goroutine.
	maxPosted = 4096
	// maxPostedARound bounds what happens between two rounds.
	maxPostedARound = 1024
)

// Replica is a group at work: the goroutine that owns it, and what others may ask of it
// from any goroutine.
type Replica struct {
	g     *Group
	store *Store
	net   *Network
	log   *slog.Logger
	fatal func(error)

	posted chan func(*Group)
	stop   chan struct{}
	done   chan struct{}
	failed error // of a round within a call; its goroutine's
	state  atomic.Pointer[State]
	// changed is closed when the state's role, configuration or primary changes.
	changed struct {
		sync.Mutex
		c chan struct{}
	}
}

// State is what a member was after its last round. Immutable.
type State struct {
	ID        uint64
	Role      Role
	Primary   bool // serves as primary
	Term      uint64
	Leader    uint64 // raft id; 0 for none
	Applied   Position
	Committed uint64
	Last      uint64 // entry of the log
	Config    *Config
	Clock     Timestamp
	Others    map[uint64]Report // as told, on the primary
	Waiting   int               // proposals without an answer
	// Changes counts changes of role, primary or configuration.
	Changes    int64
	evaluation Evaluation
}

// StartReplica starts the member of a set whose data are in a store. fatal hears of an
// error after which it cannot go on: the process should end.
func StartReplica(s *Store, n *Network, clock *Clock, log *slog.Logger, fatal func(error)) (*Replica, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Replica{store: s, net: n, log: log, fatal: fatal, posted: make(chan func(*Group), maxPosted), stop: make(chan struct{}), done: make(chan struct{})}
	m.changed.c = make(chan struct{})
	g, err := NewGroup(Options{Group: s.opts.Group, ID: s.id, Log: s, Machine: s, Out: replicaOutbox{m}, Clock: clock, Logger: log})
	if err != nil {
		return nil, err
	}
	m.g = g
	m.publish()
	n.add(m)
	go m.run()
	return m, nil
}

// run is the goroutine.
func (m *Replica) run() {
	defer close(m.done)
	timer := time.NewTimer(m.tick())
	defer timer.Stop()
	more := true
	for {
		if !more {
			select {
			case f := <-m.posted:
				f(m.g)
			case <-timer.C:
				m.g.Tick()
				timer.Reset(m.tick())
			case <-m.stop:
				m.g.Stop()
				return
			}
		}
		m.drain(timer)
		err := m.failed
		if err == nil {
			more, err = m.g.Round()
		}
		if err != nil {
			m.g.Stop()
			m.fatal(err)
			return
		}
		m.publish()
	}
}

// drain takes what else has happened, so that one round and one sync serve many.
func (m *Replica) drain(timer *time.Timer) {
	for range maxPostedARound {
		select {
		case f := <-m.posted:
			f(m.g)
		case <-timer.C:
			m.g.Tick()
			timer.Reset(m.tick())
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

// publish shows what the group is now.
func (m *Replica) publish() {
	g, old := m.g, m.state.Load()
	s := &State{ID: g.ID, Role: g.role, Primary: g.primary, Term: g.term, Leader: g.lead, Applied: g.applied, Last: g.Log.Last(),
		Committed: g.rn.BasicStatus().GetCommit(), Config: g.state.config, Clock: g.Clock.now(), Waiting: len(g.inflight) + len(g.queue),
		evaluation: Evaluation{g.term, g.epoch}}
	if g.role == Leader {
		s.Others = make(map[uint64]Report, len(g.peers))
		for id, p := range g.peers {
			s.Others[id] = Report{Applied: p.applied}
		}
	}
	if old == nil {
		m.state.Store(s)
		return
	}
	s.Changes = old.Changes
	same := old.Role == s.Role && old.Primary == s.Primary && old.Config == s.Config && old.Leader == s.Leader
	if !same {
		s.Changes++
	}
	m.state.Store(s)
	if !same {
		m.changed.Lock()
		close(m.changed.c)
		m.changed.c = make(chan struct{})
		m.changed.Unlock()
	}
}

// State is what the member was after its last round.
func (m *Replica) State() *State { return m.state.Load() }

// Changed is closed when the state's Changes rises.
func (m *Replica) Changed() <-chan struct{} {
	m.changed.Lock()
	defer m.changed.Unlock()
	return m.changed.c
}

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

// tryPost is post that gives up at once; what it posts may be lost.
func (m *Replica) tryPost(f func(*Group)) bool {
	select {
	case m.posted <- f:
		return true
	default:
		return false
	}
}

// answer is what a call of the group ends with.
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

// Evaluate begins an evaluation, as Group.Evaluate.
func (m *Replica) Evaluate() (Evaluation, error) {
	s := m.state.Load()
	if !s.Primary {
		return Evaluation{}, ErrNotPrimary
	}
	return s.evaluation, nil
}

// Propose proposes a write and waits until it is applied here, as Group.Propose. After
// ctx's end nobody knows whether it will be.
func (m *Replica) Propose(ctx context.Context, ev Evaluation, payload []byte, own any) (Position, error) {
	return m.ask(ctx, func(g *Group, done func(Position, error)) { g.Propose(ev, payload, own, done) })
}

// Reconfigure proposes a configuration and waits until it is applied here.
func (m *Replica) Reconfigure(ctx context.Context, c *Config) (Position, error) {
	return m.ask(ctx, func(g *Group, done func(Position, error)) { g.ProposeConfig(c, done) })
}

// ReadIndex waits as Group.ReadIndex.
func (m *Replica) ReadIndex(ctx context.Context) error {
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) {
		g.ReadIndex(func(err error) { done(Position{}, err) })
	})
	return err
}

// WaitConcern waits as Group.WaitConcern, and until ctx ends at the latest.
func (m *Replica) WaitConcern(ctx context.Context, at Position, c Concern) error {
	return m.wait(ctx, func(g *Group, done func(error)) *Wait { return g.WaitConcern(at, c, done) })
}

// WaitTime waits as Group.WaitTime, and until ctx ends at the latest.
func (m *Replica) WaitTime(ctx context.Context, t Timestamp) error {
	return m.wait(ctx, func(g *Group, done func(error)) *Wait { return g.WaitTime(t, done) })
}

func (m *Replica) wait(ctx context.Context, start func(g *Group, done func(error)) *Wait) error {
	var w *Wait
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) {
		w = start(g, func(err error) { done(Position{}, err) })
	})
	if ctx.Err() != nil {
		// The group must not keep who has gone. w belongs to its goroutine.
		go func() {
			if e := m.post(context.Background(), func(g *Group) {
				if w != nil {
					g.Cancel(w, context.Canceled)
				}
			}); e != nil && !errors.Is(e, errStopped) {
				m.log.Error("replication: a wait was not cancelled", "error", e)
			}
		}()
	}
	return err
}

// Do runs f on the member's goroutine, for what asks for no answer later: StepDown,
// Freeze, Truncate.
func (m *Replica) Do(ctx context.Context, f func(*Group) error) error {
	_, err := m.ask(ctx, func(g *Group, done func(Position, error)) { done(Position{}, f(g)) })
	return err
}

// replicaOutbox gives messages to the network.
type replicaOutbox struct{ m *Replica }

func (o replicaOutbox) Send(to uint64, msg *raftpb.Message, r Report) { o.m.net.send(o.m, to, msg, r) }

func (o replicaOutbox) SendSnapshot(msg *raftpb.Message) { o.m.net.sendSnapshot(o.m, msg) }
