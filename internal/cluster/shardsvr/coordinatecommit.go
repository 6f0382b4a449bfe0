package shardsvr

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// coordinationStats counts two-phase commits.
type coordinationStats struct{ started, committed, aborted atomic.Int64 }

// appendCoordinations writes serverStatus's section twoPhaseCommitCoordinator.
func (s *Shard) appendCoordinations(b *bson.Builder) {
	t := &s.coordinations
	t.Lock()
	open := len(t.all)
	t.Unlock()
	b.Int64("totalCreated", t.stats.started.Load()).Int64("totalStartedTwoPhaseCommit", t.stats.started.Load())
	b.Int64("totalCommittedTwoPhaseCommit", t.stats.committed.Load()).Int64("totalAbortedTwoPhaseCommit", t.stats.aborted.Load())
	b.Int64("currentOpen", int64(open))
}

// coordinateCommand answers {coordinateCommitTransaction: 1, transaction: {lsid, txnNumber},
// participants: [{shardId}]} when the transaction is committed on all of them. Without
// participants it only tells the outcome, and aborts what nobody commits. Errors: 251 if it
// is aborted.
func (s *Shard) coordinateCommand() *command.Command {
	return &command.Command{
		Name: "coordinateCommitTransaction", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "internal command of a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			id, err := transactionOf(op)
			if err != nil {
				return err
			}
			var participants []string
			if v := op.Body.Lookup("participants"); v.Type == bson.TypeArray {
				for p := range v.Doc().Values() {
					if p.Type != bson.TypeDocument || p.Doc().Lookup("shardId").Type != bson.TypeString {
						return mongoerr.New(mongoerr.BadValue, "participants are {shardId}, found %s", p)
					}
					participants = append(participants, p.Doc().Lookup("shardId").Str())
				}
			}
			told, err := s.coordinate(ctx, id, participants)
			if err == nil && told != 0 {
				op.Reply.Timestamp("told", told)
			}
			return err
		},
	}
}

// transactionOf reads the field transaction of a request.
func transactionOf(op *command.Op) (transactionID, error) {
	v := op.Body.Lookup("transaction")
	if v.Type != bson.TypeDocument || v.Doc().Lookup("lsid").Type != bson.TypeDocument || v.Doc().Lookup("txnNumber").Type != bson.TypeInt64 {
		return transactionID{}, mongoerr.New(mongoerr.BadValue, "%s needs transaction: {lsid, txnNumber}", op.Command.Name)
	}
	id, err := command.ParseSessionID(v.Doc().Lookup("lsid").Doc().Clone(), op.Client.Owner())
	return transactionID{id, v.Doc().Lookup("txnNumber").Int64()}, err
}

// coordinate commits a transaction, or finds its outcome. It returns the highest time of the
// participants' commits, if it is known.
func (s *Shard) coordinate(ctx context.Context, id transactionID, participants []string) (told uint64, err error) {
	for {
		mine := s.newCoordination(id, participants)
		c, full := s.reserve(mine)
		switch {
		case c != nil:
		case full:
			if doc, err := s.decision(id); err != nil || doc != nil { // which is told; not refused
				return 0, cmp.Or(err, error(errMachineEnded))
			}
			return 0, mongoerr.New(mongoerr.ExceededMemoryLimit, "too many commits of transactions over shards at a time: %d", maxCoordinations)
		default:
			if c, err = s.beginCommit(ctx, mine); c == nil {
				return 0, err
			}
		}
		select {
		case <-c.decided:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if !c.launched.Load() { // it stood for who aborts it, or asks whether to begin: look again
			select {
			case <-c.ended:
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.told, c.err
	}
}

// beginCommit begins the reserved coordination of a transaction of which there is no machine: with
// its document, if an earlier primary has decided it, or by what its own participant says. If it
// does not begin, began is nil, and err the outcome.
func (s *Shard) beginCommit(ctx context.Context, c *coordination) (began *coordination, err error) {
	launched, doc, err := s.tryBegin(ctx, c)
	if launched {
		return c, nil
	}
	s.release(c)
	if err != nil || doc == nil {
		return nil, err
	}
	return s.goOn(c.id, doc)
}

// tryBegin is beginCommit without a document: if there is one, it has done nothing.
func (s *Shard) tryBegin(ctx context.Context, c *coordination) (launched bool, doc bson.Doc, err error) {
	d := s.node.Dispatcher
	if err := d.TakesWrites(); err != nil {
		return false, nil, err
	}
	if doc, err = s.decision(c.id); err != nil || doc != nil {
		return false, doc, err
	}
	state, err := d.Part(ctx, c.id.session, c.id.number)
	if err != nil {
		return false, nil, err
	}
	switch {
	case state == command.PartCommitted:
		return false, nil, nil
	case state == command.PartInProgress && len(c.machine.Participants) > 0:
		beside, err := s.collection(ctx, coordinators) // before anything is prepared
		if err != nil {
			return false, nil, err
		}
		if c.machine.Last, err = d.HoldLast(ctx, c.id.session, c.id.number, beside); err != nil {
			return false, nil, err
		}
		if !s.launch(c, step.TwoPhaseEvent{Kind: step.Started}) {
			return false, nil, errMachineEnded
		}
		return true, nil, nil
	}
	return false, nil, s.presumeAbort(ctx, c)
}

// presumeAbort aborts the own participant of a transaction that nobody commits, for good. The
// caller has reserved c. Errors: 251 when it is done, nil if it was committed.
func (s *Shard) presumeAbort(ctx context.Context, c *coordination) error {
	state, err := s.node.Dispatcher.AbortPart(ctx, c.id.session, c.id.number, true, func() error {
		if s.evaluation() != c.birth {
			return errMachineEnded
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case state == command.PartCommitted:
		return nil
	}
	return errAborted(c.id.number)
}

// decision returns the stored decision of a transaction, nil for none.
func (s *Shard) decision(id transactionID) (bson.Doc, error) {
	c := s.cat.Lookup(coordinators)
	if c == nil {
		return nil, nil
	}
	_, doc, closer, err := c.FindID(nil, s.cat.Engine(), bson.Document(id.key()))
	if err != nil || doc == nil {
		return nil, err
	}
	return doc.Clone(), closer.Close()
}

// goOn goes on with a stored decision.
func (s *Shard) goOn(id transactionID, doc bson.Doc) (*coordination, error) {
	if err := s.node.Dispatcher.TakesWrites(); err != nil {
		return nil, err
	}
	var participants []string
	for p := range doc.Lookup("participants").Doc().Values() {
		participants = append(participants, p.Doc().Lookup("shardId").Str())
	}
	c := s.newCoordination(id, participants)
	other, full := s.reserve(c)
	switch {
	case other != nil:
		return other, nil
	case full:
		return nil, errMachineEnded
	}
	at := doc.Lookup("decision").Doc().Lookup("commitTimestamp").Timestamp()
	if !s.launch(c, step.TwoPhaseEvent{Kind: step.Found, Time: at}) {
		s.release(c)
		return nil, errMachineEnded
	}
	return c, nil
}

// goOnWithAll goes on with all stored decisions, once in each term in which this member is
// primary.
func (s *Shard) goOnWithAll() error {
	now, t := s.evaluation(), &s.coordinations
	t.Lock()
	done := t.term == now
	t.Unlock()
	if done {
		return nil
	}
	docs, err := s.decisions()
	if err != nil {
		return err
	}
	for _, doc := range docs {
		key := doc.Lookup("_id").Doc()
		session, err := command.ParseSessionID(key.Lookup("lsid").Doc(), [32]byte{})
		if err != nil {
			return err
		}
		if _, err := s.goOn(transactionID{session, key.Lookup("txnNumber").Int64()}, doc); err != nil {
			return err
		}
	}
	t.Lock()
	t.term = now
	t.Unlock()
	return nil
}

// decisions returns all stored decisions.
func (s *Shard) decisions() ([]bson.Doc, error) {
	if s.cat.Lookup(coordinators) == nil {
		return nil, nil
	}
	reply, err := s.run(context.Background(), coordinators.DB, new(bson.Builder).String("find", coordinators.Coll).Int32("batchSize", 2*maxCoordinations).Bool("singleBatch", true).Finish())
	if err != nil {
		return nil, err
	}
	var docs []bson.Doc
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		docs = append(docs, v.Doc())
	}
	return docs, nil
}

// coordinates reports whether a commit is under way here.
func (s *Shard) coordinates() bool {
	s.coordinations.Lock()
	defer s.coordinations.Unlock()
	return len(s.coordinations.all) > 0
}

// decisionAnswer answers {_shardsvrDecision: 1, transaction: {lsid, txnNumber}}, which a
// participant asks: {decision: "commit", commitTimestamp}, {decision: "abort"}, or {} while
// there is none. Before it says abort, this shard's own participant is aborted for good, so
// that no commit can be decided afterwards.
func (s *Shard) decisionAnswer() *command.Command {
	return &command.Command{
		Name: "_shardsvrDecision", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "internal command of a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			id, err := transactionOf(op)
			if err != nil {
				return err
			}
			commit, aborts, err := s.decide(ctx, id)
			switch {
			case err != nil:
				return err
			case commit != 0:
				op.Reply.String("decision", "commit").Timestamp("commitTimestamp", commit)
			case aborts:
				op.Reply.String("decision", "abort")
			}
			return nil
		},
	}
}

// decide returns the decision about a transaction: the time of the commit, or that it is
// aborted, or neither.
func (s *Shard) decide(ctx context.Context, id transactionID) (commit uint64, aborts bool, err error) {
	if err := s.node.Dispatcher.TakesWrites(); err != nil {
		return 0, false, err
	}
	mine := s.newCoordination(id, nil)
	other, full := s.reserve(mine)
	doc, err := s.decision(id)
	if other == nil && !full {
		defer s.release(mine)
	}
	switch {
	case err != nil:
		return 0, false, err
	case doc != nil:
		return doc.Lookup("decision").Doc().Lookup("commitTimestamp").Timestamp(), false, nil
	case other != nil || full:
		return 0, false, nil
	}
	err = s.presumeAbort(ctx, mine)
	if mongoerr.Is(err, mongoerr.NoSuchTransaction) {
		return 0, true, nil
	}
	return 0, false, err
}

// askShard sends a command to another shard. It is sent again if the answer was lost. The reply
// is not nil.
func (s *Shard) askShard(ctx context.Context, name string, body bson.Doc) (bson.Doc, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, mongoerr.New(mongoerr.HostUnreachable, "shard %s has not answered in time", name))
	defer cancel()
	set, err := s.shardNamed(ctx, name)
	if err != nil {
		return bson.Empty, err
	}
	a, err := set.Run(ctx, client.Call{DB: "admin", Body: body, Idempotent: true})
	if mongoerr.Is(err, mongoerr.HostUnreachable, mongoerr.FailedToSatisfyReadPreference) { // it may be elsewhere by now
		s.work.Lock()
		delete(s.work.hosts, name)
		s.work.Unlock()
	}
	if a.Reply == nil {
		a.Reply = bson.Empty
	}
	return a.Reply, err
}

// shardNamed returns the client of another shard, whose address the config servers say.
func (s *Shard) shardNamed(ctx context.Context, name string) (*client.Set, error) {
	s.work.Lock()
	host := s.work.hosts[name]
	s.work.Unlock()
	if host == "" {
		body := new(bson.Builder).String("find", "shards").OpenDoc("filter").String("_id", name).Close().OpenDoc("readConcern").String("level", "majority").Close().Finish()
		reply, err := s.AskConfig(ctx, "config", body)
		if err != nil {
			return nil, err
		}
		for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
			if h := v.Doc().Lookup("host"); h.Type == bson.TypeString {
				host = h.Str()
			}
		}
		if host == "" {
			return nil, mongoerr.New(mongoerr.ShardNotFound, "Shard %s not found", name)
		}
		s.work.Lock()
		s.work.hosts[name] = host
		s.work.Unlock()
	}
	return s.set(host)
}

const (
	// undecidedTime is how long a prepared participant waits for the coordinator's word before
	// it asks.
	undecidedTime = time.Second
	// maxAsking bounds the participants that ask at a time.
	maxAsking = 64
)

// askAbout has the prepared participants of which nothing was heard ask their coordinators.
func (s *Shard) askAbout(ctx context.Context) {
	for _, u := range s.cat.Undecided() {
		if time.Since(u.Since) < undecidedTime {
			continue
		}
		id := transactionID{command.SessionID(u.Session), u.Txn}
		s.work.Lock()
		if s.work.asking[id] || len(s.work.asking) >= maxAsking {
			s.work.Unlock()
			continue
		}
		s.work.asking[id] = true
		s.work.running.Go(func() {
			defer func() {
				s.work.Lock()
				delete(s.work.asking, id)
				s.work.Unlock()
			}()
			if err := s.learn(ctx, id, u.Coordinator); err != nil && ctx.Err() == nil {
				s.log.InfoContext(ctx, "A prepared transaction waits for its coordinator", "id", logUndecided, "coordinator", u.Coordinator, "txnNumber", u.Txn, "error", err.Error())
			}
		})
		s.work.Unlock()
	}
}

// logUndecided is the id of the log line about a coordinator that does not answer.
const logUndecided = 9000045

// learn asks the coordinator for its decision, and does it here.
func (s *Shard) learn(ctx context.Context, id transactionID, coordinator string) error {
	var commit uint64
	var aborts bool
	if coordinator == s.node.ShardName() {
		var err error
		if commit, aborts, err = s.decide(ctx, id); err != nil || aborts { // then it is aborted here
			return err
		}
	} else {
		b := new(bson.Builder).Int32("_shardsvrDecision", 1).Doc("transaction", id.key())
		reply, err := s.askShard(ctx, coordinator, b.Finish())
		if err != nil {
			return err
		}
		if at := reply.Lookup("commitTimestamp"); at.Type == bson.TypeTimestamp {
			commit = at.Timestamp()
		}
		if v := reply.Lookup("decision"); v.Type == bson.TypeString {
			aborts = v.Str() == "abort"
		}
	}
	if commit == 0 && !aborts {
		return nil
	}
	_, err := s.run(ctx, "admin", decisionCommand(id, aborts, commit, coordinator))
	return err
}
