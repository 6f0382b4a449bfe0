package configsvr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/telemetry"
)

// patience is how long an operation in phase Trying waits for a shard that does not
// answer.
const patience = 30 * time.Second

// maxPause bounds the pause before a request is sent again.
const maxPause = 5 * time.Second

// driver executes one operation.
type driver struct {
	s      *Server
	t      *term
	r      *running
	op     step.Operation  // as it was written last; requests get a copy
	ctx    context.Context // of its requests
	end    context.CancelFunc
	state  step.State
	events chan step.Event
	sends  sync.WaitGroup
	blocks time.Time               // when a move began to block writes; zero before, and for another term
	lost   map[int32]time.Time     // since when a request of the phase gets no answer
	pauses map[int32]time.Duration // before a request is sent again
	limit  *time.Timer             // of the time for which writes are blocked; nil while they are not
}

// drive executes an operation until it or the term ends.
func (s *Server) drive(t *term, r *running) {
	d := &driver{s: s, t: t, r: r, op: r.op, state: step.State{Operation: r.op}, events: make(chan step.Event), lost: map[int32]time.Time{}, pauses: map[int32]time.Duration{}}
	d.ctx, d.end = context.WithCancel(t.ctx)
	var span *telemetry.Span
	if s.Dispatcher != nil {
		d.ctx, span = s.Dispatcher.Tracer.Work(d.ctx, r.op.Kind)
		db, coll, _ := strings.Cut(r.op.Namespace, ".")
		span.Name(r.op.Kind, db, coll)
	}
	err := d.run()
	d.end()
	if d.limit != nil {
		d.limit.Stop()
	}
	d.sends.Wait()
	if err == nil {
		s.claims.free(r.op.Number)
		err = d.state.Cause
	}
	span.Fail(err)
	span.End()
	t.mu.Lock()
	if d.state.Phase == step.Ended {
		delete(t.running, r.op.Number)
	}
	t.mu.Unlock()
	r.got, r.cause = d.state.Got, err
	close(r.done)
	if r.placed {
		<-t.places
	}
}

// run feeds events to the operation's state machine until it ends.
func (d *driver) run() error {
	e := step.Event{Kind: step.Begin}
	for {
		var a step.Action
		d.state, a = step.Step(d.state, e)
		d.r.phase.Store(int32(d.state.Phase))
		if d.state.Phase == step.Ended {
			return nil
		}
		for _, send := range a.Send {
			d.note(&send)
			d.send(send, a.Again)
		}
		if a.Write != 0 {
			var err error
			if e, err = d.write(a.Write); err != nil {
				return err
			}
			continue
		}
		select {
		case e = <-d.events:
			if e.Kind == step.Answered && e.Err == nil { // it works: what is asked again is whether it is ready
				delete(d.pauses, e.Seq)
			}
			e = d.patient(e)
		case <-d.r.hurry:
			e = step.Event{Kind: step.Hurry}
		case cause := <-d.r.cancel:
			e = step.Event{Kind: step.Cancel, Err: cause}
		case <-d.t.ctx.Done():
			return context.Cause(d.t.ctx)
		}
	}
}

// patient replaces the loss of a request by the end of the operation if its shard has not
// answered for long, and the operation can be undone.
func (d *driver) patient(e step.Event) step.Event {
	switch {
	case e.Phase != d.state.Phase || e.Phase != step.Trying:
	case e.Kind == step.Answered:
		delete(d.lost, e.Seq)
	case d.lost[e.Seq].IsZero():
		d.lost[e.Seq] = time.Now()
	case time.Since(d.lost[e.Seq]) > patience:
		return step.Event{Kind: step.Cancel, Err: e.Err}
	}
	return e
}

// note notes the request of a resharding that is about to be sent. From the first block on
// its writes wait, which has a limit.
func (d *driver) note(m *step.Send) {
	if d.op.Kind != step.KindReshard {
		return
	}
	d.r.progress.sent(m.Name())
	if m.Name() == "_shardsvrBlock" && d.limit == nil {
		limit := d.s.CriticalSection()
		d.limit = time.AfterFunc(limit, func() {
			d.t.cancel(d.r.op.Number, mongoerr.New(reshardTooSlow, "writes of %s were blocked for %s, and not all of them are on the recipients", d.r.op.Namespace, limit))
		})
	}
}

// send sends a request, and reports the outcome as an event. It pauses before it sends
// one again.
func (d *driver) send(m step.Send, again bool) {
	o, got := d.op, slices.Clone(d.state.Got)
	if o.Kind == step.KindMove && m.Name() == "_shardsvrBlock" && d.blocks.IsZero() {
		d.blocks = time.Now()
	}
	pause := time.Duration(0)
	if again {
		d.pauses[m.Seq] = min(max(2*d.pauses[m.Seq], d.s.Pause), maxPause)
		pause = d.pauses[m.Seq]
	}
	d.sends.Go(func() {
		if pause > 0 {
			d.s.sleep(d.ctx, pause)
		}
		e := step.Event{Kind: step.Answered, Phase: o.Phase, Seq: m.Seq}
		e.Reply, e.Err = d.ask(&o, m, got)
		if e.Err != nil && !noAnswer(e.Err) && o.Phase != step.Trying {
			d.s.Log.ErrorContext(d.ctx, "A shard rejects a request that must succeed", "id", 9000602, "operation", o.Number, "kind", o.Kind, "shard", m.Shard, "request", m.Name(), "error", e.Err.Error())
		}
		if e.Err != nil && noAnswer(e.Err) {
			d.s.Log.WarnContext(d.ctx, "A shard does not answer", "id", 9000603, "operation", o.Number, "kind", o.Kind, "shard", m.Shard, "request", m.Name(), "error", e.Err.Error())
			e.Kind = step.Lost
		} else if e.Err == nil && (m.Name() == "_shardsvrReshardReceived" || m.Name() == "_shardsvrReceived") {
			d.r.progress.heard(m.Shard, e.Reply)
		}
		select {
		case d.events <- e:
		case <-d.ctx.Done():
		}
	})
}

// ask sends a request of the operation with its fence and returns the reply.
func (d *driver) ask(o *step.Operation, m step.Send, got step.Answers) (bson.Doc, error) {
	if m.Shard == step.Here {
		return locals[m.Name()](d.s, d.ctx, o, got)
	}
	host := text(o.Args, "shardHost")
	if host == "" {
		sh, err := d.s.shard(m.Shard)
		if err != nil {
			return nil, err
		}
		host = sh.Host
	}
	b := new(bson.Builder).Fields(m.Body)
	if o.Args.Lookup("balanced").Truthy() && (m.Name() == "_shardsvrReceive" || m.Name() == "_shardsvrReceived") {
		set, err := d.s.settingsNow()
		if err != nil {
			return nil, err
		}
		b.Int64("bytesPerSecond", set.BytesPerSecond)
	}
	if !m.Asks {
		step.Fence{Number: o.Number, Phase: o.Phase, Term: int64(d.t.number), Seq: m.Seq, Low: d.t.low(), Cluster: d.t.cluster}.Append(b)
	}
	return d.s.Shards.Ask(d.ctx, host, "admin", b.Finish())
}

// noAnswer reports whether an error leaves open what the shard has done: errors of the
// network, of a primary that steps down, and of a time limit.
func noAnswer(err error) bool {
	var e *mongoerr.Error
	if !errors.As(err, &e) {
		return true
	}
	switch e.Code {
	case mongoerr.HostUnreachable, mongoerr.HostNotFound, mongoerr.FailedToSatisfyReadPreference, mongoerr.ShutdownInProgress, mongoerr.PrimarySteppedDown,
		mongoerr.InterruptedAtShutdown, mongoerr.InterruptedDueToReplStateChange, mongoerr.NotWritablePrimary, mongoerr.NotPrimaryNoSecondaryOk,
		mongoerr.NotPrimaryOrSecondary, mongoerr.MaxTimeMSExpired, mongoerr.ExceededTimeLimit, mongoerr.Interrupted:
		return true
	}
	return false
}

// write writes the next phase, and retries until that has succeeded. A commit that config.*
// does not take undoes the operation.
func (d *driver) write(p step.Phase) (step.Event, error) {
	for {
		e, err := d.tryWrite(p)
		if err == nil {
			d.lost, d.pauses = map[int32]time.Time{}, map[int32]time.Duration{}
			return e, nil
		}
		if d.t.ctx.Err() != nil {
			return e, context.Cause(d.t.ctx)
		}
		if p == step.Committed && !noAnswer(err) {
			return step.Event{Kind: step.Refused, Err: err}, nil
		}
		d.s.Log.ErrorContext(d.ctx, "The config servers cannot write an operation", "id", 9000604, "operation", d.r.op.Number, "phase", p.String(), "error", err.Error())
		d.s.sleep(d.t.ctx, d.s.Pause)
	}
}

// tryWrite writes the next phase (invariant one-change).
func (d *driver) tryWrite(p step.Phase) (step.Event, error) {
	s, o := d.s, &d.op
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.term(); err != nil || now != d.t {
		return step.Event{}, errDeposed
	}
	next := *o
	next.Phase = p
	var c commitment
	switch p {
	case step.Committed:
		var err error
		if c, err = commits[o.Kind](s, o, d.state.Got); err != nil {
			return step.Event{Kind: step.Refused, Err: err}, nil
		}
		next.Told = c.told
		c.writes = append(c.writes, put(operations, next.Doc()))
	case step.Undone:
		c.writes = []write{put(operations, next.Doc())}
	case step.Ended:
		c.writes = append(d.ending(o), remove(operations, bson.Int64(o.Number)))
	}
	if err := s.commit(d.t.ctx, c.writes...); err != nil {
		return step.Event{}, err
	}
	if c.after != nil {
		c.after()
	}
	*o = next
	if p == step.Undone {
		d.r.why = d.state.Cause
		close(d.r.undone)
	}
	return step.Event{Kind: step.Written, Told: c.told}, nil
}

// ending returns the entries in config.changelog for an operation that ends.
func (d *driver) ending(o *step.Operation) []write {
	if o.Kind != step.KindMove {
		return nil
	}
	s, cause := d.s, d.state.Cause
	b := new(bson.Builder).Value("min", o.Args.Lookup("min")).Value("max", o.Args.Lookup("max")).Value("to", o.Args.Lookup("to")).Value("from", o.Args.Lookup("from"))
	switch {
	case o.Phase == step.Committed:
		b.String("note", "success")
	case cause != nil:
		b.String("note", "aborted").String("errmsg", mongoerr.From(cause).Message)
	default:
		b.String("note", "aborted")
	}
	if !d.blocks.IsZero() {
		b.Int64("writesBlockedMillis", time.Since(d.blocks).Milliseconds())
	}
	return []write{s.logged("moveChunk.from", o.Namespace, b.Finish())}
}
