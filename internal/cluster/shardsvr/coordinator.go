package shardsvr

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// coordinators has the decisions to commit of which not all participants have said ok yet:
// {_id: {lsid, txnNumber}, participants: [{shardId}], decision: {decision: "commit",
// commitTimestamp}}. Where there is none, and nobody coordinates, the decision is to abort.
var coordinators = node.DecisionsNamespace

const (
	// maxCoordinations bounds the two-phase commits that are under way. One more is aborted.
	maxCoordinations = 10_000
	// Bounds of the pause before a participant is asked again, which doubles each time.
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
	// askTime bounds one request to a participant.
	askTime = 30 * time.Second
)

// transactionID names a transaction.
type transactionID struct {
	session command.SessionID
	number  int64
}

// append appends what names the transaction in a statement.
func (id transactionID) append(b *bson.Builder) {
	b.Doc("lsid", id.session.Document()).Int64("txnNumber", id.number).Bool("autocommit", false)
}

// key is its _id in coordinators.
func (id transactionID) key() bson.Doc {
	return new(bson.Builder).Doc("lsid", id.session.Document()).Int64("txnNumber", id.number).Finish()
}

// coordinations are the two-phase commits that this shard coordinates. A transaction has one
// entry at a time: who coordinates it, or who is about to abort it.
type coordinations struct {
	sync.Mutex
	all   map[transactionID]*coordination
	term  catalog.Evaluation // in which the documents were read
	next  *removal           // gathers decisions to remove; nil while there are none
	stats coordinationStats
}

// coordination is one two-phase commit: it drives a step.TwoPhase. It ends with the term in
// which it began: what is stored says how it goes on.
type coordination struct {
	s      *Shard
	id     transactionID
	me     string // this shard's name, which it keeps meanwhile
	birth  catalog.Evaluation
	events chan step.TwoPhaseEvent
	ended  chan struct{} // closed when it is over, or has ended with its term

	machine  step.TwoPhase // the running goroutine's
	launched atomic.Bool   // it is no placeholder of who aborts the transaction

	mu      sync.Mutex
	decided chan struct{} // closed when the client may be told
	err     error         // what it is told: nil for a commit
	told    uint64        // the highest time of a participant's commit
	tries   map[string]int
}

// errMachineEnded is the answer while it is not known how a commit goes on.
var errMachineEnded = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "the coordinator of the transaction has ended with its term; ask again")

// errNoCoordinators is the answer where a client has dropped the collection of decisions.
var errNoCoordinators = mongoerr.New(mongoerr.NamespaceNotFound, "%s was dropped", coordinators)

func errAborted(number int64) error {
	return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", number)
}

// evaluation is the term of this member as primary, zero if it is none.
func (s *Shard) evaluation() catalog.Evaluation {
	if s.node.Dispatcher.Member == nil {
		return catalog.Evaluation{}
	}
	return s.node.Dispatcher.Member.Evaluate()
}

// newCoordination makes a coordination, which is not running yet.
func (s *Shard) newCoordination(id transactionID, participants []string) *coordination {
	me := s.node.ShardName()
	return &coordination{
		s: s, id: id, me: me, birth: s.evaluation(), machine: step.TwoPhase{Participants: participants, Own: me}, tries: map[string]int{},
		events: make(chan step.TwoPhaseEvent, 2*len(participants)+1), decided: make(chan struct{}), ended: make(chan struct{}),
	}
}

// reserve enters a coordination as the one of its transaction. If there is another one, it
// returns that; full says that there are too many.
func (s *Shard) reserve(c *coordination) (other *coordination, full bool) {
	t := &s.coordinations
	t.Lock()
	defer t.Unlock()
	if other = t.all[c.id]; other != nil {
		return other, false
	}
	if len(t.all) >= maxCoordinations {
		return nil, true
	}
	if t.all == nil {
		t.all = map[transactionID]*coordination{}
	}
	t.all[c.id] = c
	return nil, false
}

// release removes a coordination, and wakes who waits for it.
func (s *Shard) release(c *coordination) {
	t := &s.coordinations
	t.Lock()
	delete(t.all, c.id)
	t.Unlock()
	c.settle(errMachineEnded)
	close(c.ended)
}

// settle notes what the client is told, unless that was noted before.
func (c *coordination) settle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.decided:
	default:
		c.err = err
		close(c.decided)
	}
}

// launch runs a reserved coordination from its first event on, in the background.
func (s *Shard) launch(c *coordination, first step.TwoPhaseEvent) bool {
	s.work.Lock()
	defer s.work.Unlock()
	life := s.work.life
	if life == nil || life.Err() != nil {
		return false
	}
	c.launched.Store(true)
	s.coordinations.stats.started.Add(1)
	s.work.running.Go(func() {
		defer s.release(c)
		ctx, cancel := context.WithCancel(life)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		c.run(ctx, &asking, first)
	})
	return true
}

// run drives the machine until it is over, or this member is not primary in its term any more.
func (c *coordination) run(ctx context.Context, asking *sync.WaitGroup, e step.TwoPhaseEvent) {
	limit := time.NewTimer(c.s.node.Dispatcher.Transactions.Lifetime())
	defer limit.Stop()
	tick := time.NewTicker(maxPause) // notices the end of the term
	defer tick.Stop()
	for {
		var a step.TwoPhaseAction
		c.machine, a = step.StepTwoPhase(c.machine, e)
		c.report()
		for _, name := range a.Prepare {
			asking.Go(func() { c.prepare(ctx, name, a.Again) })
		}
		for _, name := range a.Tell {
			word := decisionCommand(c.id, c.machine.Aborts, c.machine.Time, c.me)
			asking.Go(func() { c.tell(ctx, name, word, a.Again) })
		}
		switch next, ok := c.write(ctx, a); {
		case !ok:
			return
		case next != nil:
			e = *next
			continue
		}
		if c.machine.Stage == step.Over {
			return
		}
		select {
		case e = <-c.events:
		case <-limit.C:
			e = step.TwoPhaseEvent{Kind: step.TimeOver}
		case <-tick.C:
			e = step.TwoPhaseEvent{Kind: step.Unanswered} // of nobody: it changes nothing
		case <-ctx.Done():
			return
		}
		if c.s.evaluation() != c.birth {
			return
		}
	}
}

// report tells waiting clients the outcome as soon as they may know it.
func (c *coordination) report() {
	stats := &c.s.coordinations.stats
	switch m := &c.machine; {
	case m.Aborts && m.Decided():
		select {
		case <-c.decided:
		default:
			stats.aborted.Add(1)
		}
		c.settle(errAborted(c.id.number))
	case m.Stage > step.Telling:
		select {
		case <-c.decided:
		default:
			stats.committed.Add(1)
		}
		c.settle(nil)
	}
}

// write stores or removes the decision. ok is false if the outcome is not known: the machine
// ends then.
func (c *coordination) write(ctx context.Context, a step.TwoPhaseAction) (next *step.TwoPhaseEvent, ok bool) {
	switch {
	case a.Store && c.machine.Last:
		return c.storeLast(ctx)
	case a.Store:
		err := c.store(ctx)
		switch {
		case mongoerr.Is(err, mongoerr.NoSuchTransaction):
			return &step.TwoPhaseEvent{Kind: step.NotStored}, true
		case err != nil:
			return nil, false
		}
		return &step.TwoPhaseEvent{Kind: step.Stored}, true
	case a.Remove:
		if err := c.s.removeDecision(ctx, c.id, c.birth); err != nil {
			return nil, false
		}
		return &step.TwoPhaseEvent{Kind: step.Removed}, true
	}
	return nil, true
}

// store stores the decision to commit, and commits this shard's own participant by the same
// unit, while that is prepared and the term is the one in which the participants were asked
// (invariant one-decision). Errors: 251 if it is not prepared any more. After any other it may
// be that the decision is stored.
func (c *coordination) store(ctx context.Context) error {
	doc := c.decision()
	coll := c.s.cat.Lookup(coordinators) // nothing is done to it since the own prepare
	if coll == nil {
		return errNoCoordinators
	}
	at := new(repl.OpTime)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := c.s.node.Dispatcher.CommitPart(repl.WithOpTime(ctx, at), c.id.session, c.id.number, c.machine.Time, func(u *catalog.Unit) error {
			if c.s.evaluation() != c.birth {
				return errMachineEnded
			}
			return u.Insert(ctx, coll, doc)
		})
		if !errors.Is(err, storage.ErrLockBusy) { // DDL there; nothing was done
			c.heard(uint64(at.Last().Time))
			return err
		}
		if err := client.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// decision is the document of the decision to commit. Its last field is the time, timeDepth
// documents deep.
func (c *coordination) decision() bson.Doc {
	b := new(bson.Builder).Doc("_id", c.id.key()).OpenArray("participants")
	for i, name := range c.machine.Participants {
		b.OpenDoc(bson.Index(i)).String("shardId", name).Close()
	}
	b.Close().OpenDoc("decision").String("decision", "commit").Timestamp("commitTimestamp", c.machine.Time).Close()
	return b.Finish()
}

const timeDepth = 2

// storeLast is store where this shard's own participant is not prepared: it is committed by the
// same unit, at the time of that, while it is in progress. If it has ended without that for good,
// it is a no (invariant one-decision). ok is false after any other error: it may be that the
// decision is stored.
func (c *coordination) storeLast(ctx context.Context) (next *step.TwoPhaseEvent, ok bool) {
	coll := c.s.cat.Lookup(coordinators)
	if coll == nil { // somebody has dropped it: the machine ends, and abort is presumed
		return nil, false
	}
	at := new(repl.OpTime)
	never, err := c.s.node.Dispatcher.CommitLast(repl.WithOpTime(ctx, at), c.id.session, c.id.number, c.machine.Time, coll, func(u *catalog.Unit) error {
		if c.s.evaluation() != c.birth {
			return errMachineEnded
		}
		return u.InsertTimed(ctx, coll, c.decision(), timeDepth)
	})
	switch {
	case never && c.s.evaluation() == c.birth: // else a later primary says how it goes on
		return &step.TwoPhaseEvent{Kind: step.NotStored}, true
	case err != nil:
		return nil, false
	}
	c.heard(uint64(at.Last().Time))
	return &step.TwoPhaseEvent{Kind: step.Stored, Time: uint64(at.Last().Time)}, true
}

// heard notes the time of a participant's commit.
func (c *coordination) heard(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = max(c.told, at)
}

// decisionCommand is the coordinator's word for a participant.
func decisionCommand(id transactionID, aborts bool, at uint64, coordinator string) bson.Doc {
	b := new(bson.Builder)
	if aborts {
		b.Int32("abortTransaction", 1).String("coordinator", coordinator)
	} else {
		b.Int32("commitTransaction", 1).Timestamp("commitTimestamp", at)
	}
	id.append(b)
	return b.Finish()
}

// prepare asks a participant to prepare.
func (c *coordination) prepare(ctx context.Context, name string, again bool) {
	b := new(bson.Builder).Int32("prepareTransaction", 1).String("coordinator", c.me)
	if name == c.me {
		b.Bool("own", true)
	}
	c.id.append(b)
	reply, err := c.ask(ctx, name, b.Finish(), again)
	e := step.TwoPhaseEvent{Kind: step.No, Shard: name}
	switch at := reply.Lookup("prepareTimestamp"); {
	case err == nil && reply.Lookup("readOnly").Truthy():
		e.Kind, e.ReadOnly = step.Yes, true
	case err == nil && at.Type == bson.TypeTimestamp:
		e.Kind, e.Time = step.Yes, at.Timestamp()
	case err == nil || saysNothing(err):
		e.Kind = step.Unanswered
	}
	c.send(ctx, e)
}

// tell tells a participant the decision. Only an ok is an ok, and to an abort that there is
// no such transaction (invariant explicit-ok), or no such shard: one with a prepared
// transaction does not leave the cluster.
func (c *coordination) tell(ctx context.Context, name string, word bson.Doc, again bool) {
	reply, err := c.ask(ctx, name, word, again)
	e := step.TwoPhaseEvent{Kind: step.Unanswered, Shard: name}
	if err == nil || nameOf(word) == "abortTransaction" && mongoerr.Is(err, mongoerr.NoSuchTransaction, mongoerr.TransactionTooOld, mongoerr.ShardNotFound) {
		e.Kind = step.Told
	}
	if at := reply.Lookup("operationTime"); err == nil && at.Type == bson.TypeTimestamp {
		c.heard(at.Timestamp())
	}
	c.send(ctx, e)
}

func nameOf(body bson.Doc) string {
	name, _ := body.First()
	return name
}

// send hands an event to the machine.
func (c *coordination) send(ctx context.Context, e step.TwoPhaseEvent) {
	select {
	case c.events <- e:
	case <-ctx.Done():
	}
}

// ask sends a command to a participant, this shard among them, after a pause if it was sent
// before. The reply is not nil.
func (c *coordination) ask(ctx context.Context, name string, body bson.Doc, again bool) (bson.Doc, error) {
	if again {
		c.mu.Lock()
		n := c.tries[name]
		c.tries[name]++
		c.mu.Unlock()
		if err := client.Sleep(ctx, min(firstPause<<min(n, 10), maxPause)); err != nil {
			return bson.Empty, err
		}
	}
	if name != c.me {
		return c.s.askShard(ctx, name, body)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, mongoerr.New(mongoerr.HostUnreachable, "this shard has not answered in time"))
	defer cancel()
	return c.s.run(ctx, "admin", body)
}

// saysNothing reports whether an error of a request leaves open what the participant does.
func saysNothing(err error) bool {
	return mongoerr.From(err).Code == mongoerr.InternalError || command.MayRetry(mongoerr.From(err).Code) ||
		mongoerr.Is(err, mongoerr.FailedToSatisfyReadPreference, mongoerr.MaxTimeMSExpired, mongoerr.ShardNotFound, mongoerr.Interrupted)
}
