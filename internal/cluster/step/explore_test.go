package step_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/clustertest"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// scenario is an operation and what there is before it.
type scenario struct {
	op     step.Operation
	shards func() []*clustertest.Shard
	// told is what the commit finds out.
	told bson.Doc
	// here does what the config primary does by itself.
	here map[string]bson.Doc
	// holds is what must be so in every state, and ended what must be so in the end.
	holds func(w *world) error
	ended func(w *world) error
	// moves are documents that move; clients insert more.
	ns       string
	from, to int
	old, own shard.Version
	clients  bool
	// wide says that the operation has so many requests at a time that it is explored less
	// deeply.
	wide bool
}

// budget is how much goes wrong in one run.
type budget struct {
	takeovers int // another primary takes over; the one before goes on as long as it can
	late      int // a request is done again, or late, or its answer is lost
	half      int // a shard dies between raising the fence and doing what is asked
	refusals  int // a shard refuses, or the commit is refused
	cancels   int
	writes    int // of clients, into the range that moves
}

// run is one primary's.
type run struct {
	term    int64
	state   step.State
	pending step.Phase // the write that it wants
	dead    bool       // it has met that it is none any more
}

// message is a request that was sent. It never goes away.
type message struct {
	run   int
	fence step.Fence
	req   step.Request
	done  bool // and its sender has the answer
}

type world struct {
	sc      *scenario
	phase   step.Phase // of the document; Ended where there is none
	commit  bool       // config.* has the change
	runs    []run
	sent    []message
	shards  []*clustertest.Shard
	texts   []string // of shards, "" where not made yet
	left    budget
	written int64
}

func (w *world) clone() *world {
	c := *w
	c.runs, c.sent, c.shards, c.texts = slices.Clone(w.runs), slices.Clone(w.sent), slices.Clone(w.shards), slices.Clone(w.texts)
	return &c
}

// own makes the shard at i one that may be changed.
func (w *world) own(i int) *clustertest.Shard {
	w.shards[i], w.texts[i] = w.shards[i].Clone(), ""
	w.shards[i].Peer = func(host string) *clustertest.Shard { return w.shards[w.index(host)] }
	return w.shards[i]
}

func (w *world) index(id string) int {
	return slices.IndexFunc(w.shards, func(s *clustertest.Shard) bool { return s.ID == id })
}

// key tells a world from others.
func (w *world) key() [32]byte {
	b := make([]byte, 0, 2048)
	bit := func(is bool) {
		if is {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	b = append(b, byte(w.phase), byte(w.written), byte(w.left.takeovers), byte(w.left.late), byte(w.left.half), byte(w.left.refusals), byte(w.left.cancels), byte(w.left.writes))
	bit(w.commit)
	for _, r := range w.runs {
		b = append(b, byte(r.term), byte(r.pending))
		bit(r.dead)
		b = step.AppendText(b, r.state)
	}
	for _, m := range w.sent {
		b = append(b, byte(m.run), byte(m.fence.Phase), byte(m.fence.Seq))
		bit(m.done)
	}
	for i, s := range w.shards {
		if w.texts[i] == "" {
			w.texts[i] = s.String() + s.FencesText()
		}
		b = append(append(b, w.texts[i]...), '|')
	}
	return sha256.Sum256(b)
}

// act takes an event to a run and notes what it wants.
func (w *world) act(i int, e step.Event) {
	r := &w.runs[i]
	if r.dead {
		return
	}
	var a step.Action
	r.state, a = step.Step(r.state, e)
	if a.Write != 0 {
		r.pending = a.Write
	}
	if a.Again {
		return // it is in sent
	}
	for _, s := range a.Send {
		f := step.Fence{Number: w.sc.op.Number, Phase: r.state.Phase, Term: r.term, Seq: s.Seq, Low: w.sc.op.Number}
		w.sent = append(w.sent, message{run: i, fence: f, req: s.Request})
	}
}

func (m *message) body() bson.Doc {
	b := new(bson.Builder).Fields(m.req.Body)
	if !m.req.Asks {
		m.fence.Append(b)
	}
	return b.Finish()
}

var errNoAnswer = errors.New("no answer")

// deliver has a shard do a message.
func (w *world) deliver(m *message) (bson.Doc, error) {
	if m.req.Shard == step.Here {
		return w.sc.here[m.req.Name()], nil
	}
	reply, err := w.own(w.index(m.req.Shard)).Do(m.body())
	if mongoerr.Is(err, mongoerr.ExceededTimeLimit) {
		return nil, errNoAnswer
	}
	return reply, err
}

// current says whether a run is that of the primary.
func (w *world) current(i int) bool { return i == len(w.runs)-1 }

// free are the worlds that come next without anything going wrong.
func (w *world) free() (next []*world) {
	for i, m := range w.sent {
		if m.done || w.runs[m.run].dead {
			continue
		}
		n := w.clone()
		reply, err := n.deliver(&n.sent[i])
		if errors.Is(err, errNoAnswer) {
			continue
		}
		n.sent[i].done = true
		n.act(m.run, step.Event{Kind: step.Answered, Phase: m.fence.Phase, Seq: m.fence.Seq, Reply: reply, Err: err})
		if n.asksAgain(m.run, m.fence.Seq) {
			n.sent[i].done = false
		}
		next = append(next, n)
	}
	for i, r := range w.runs {
		if r.pending != 0 && !r.dead {
			next = append(next, w.write(i))
		}
	}
	if w.sc.clients {
		n := w.clone()
		n.own(w.sc.to).Copy(w.sc.ns, n.shards[w.sc.from])
		next = append(next, n)
	}
	return next
}

func (w *world) asksAgain(run int, seq int32) bool {
	r := w.runs[run]
	return !r.dead && step.Asks(r.state, seq)
}

// write makes the write that a run wants; who is not primary any more fails.
func (w *world) write(i int) *world {
	n := w.clone()
	r := &n.runs[i]
	p := r.pending
	r.pending = 0
	if !n.current(i) {
		r.dead = true
		return n
	}
	n.phase = p
	var told bson.Doc
	if p == step.Committed {
		n.commit, told = true, w.sc.told
	}
	n.act(i, step.Event{Kind: step.Written, Told: told})
	return n
}

// wrong are the worlds that come next where something goes wrong.
func (w *world) wrong() (next []*world) {
	try := func(n *int, f func(*world)) {
		if *n > 0 {
			c := w.clone()
			f(c)
			next = append(next, c)
		}
	}
	if w.phase != step.Ended {
		try(&w.left.takeovers, func(c *world) { c.left.takeovers--; c.takeOver() })
	}
	for i, m := range w.sent {
		if m.req.Shard == step.Here || m.req.Asks {
			continue
		}
		try(&w.left.late, func(c *world) { c.left.late--; _, _ = c.deliver(&c.sent[i]) })
		try(&w.left.half, func(c *world) { c.left.half--; _ = c.own(c.index(m.req.Shard)).Fenced(m.body()) })
		if !m.done && m.fence.Phase == step.Trying {
			try(&w.left.refusals, func(c *world) {
				c.left.refusals--
				c.sent[i].done = true
				c.act(m.run, step.Event{Kind: step.Answered, Phase: m.fence.Phase, Seq: m.fence.Seq, Err: mongoerr.New(mongoerr.OperationFailed, "refused")})
			})
		}
	}
	last := len(w.runs) - 1
	if w.runs[last].pending == step.Committed && w.phase == step.Trying {
		try(&w.left.refusals, func(c *world) {
			c.left.refusals--
			c.runs[last].pending = 0
			c.act(last, step.Event{Kind: step.Refused, Err: mongoerr.New(mongoerr.OperationFailed, "refused")})
		})
	}
	try(&w.left.cancels, func(c *world) {
		c.left.cancels--
		c.act(last, step.Event{Kind: step.Cancel, Err: mongoerr.New(mongoerr.Interrupted, "cancelled")})
	})
	if w.sc.clients {
		for i, v := range map[int]shard.Version{w.sc.from: w.sc.old, w.sc.to: w.sc.own} {
			try(&w.left.writes, func(c *world) {
				c.left.writes--
				if c.own(i).Insert(w.sc.ns, v, new(bson.Builder).Int64("_id", c.written).Int32("x", 1).Finish()) == nil {
					c.written++
				}
			})
		}
	}
	return next
}

// takeOver has another primary find the operation.
func (w *world) takeOver() {
	op := w.sc.op
	op.Phase = w.phase
	if w.phase == step.Committed {
		op.Told = w.sc.told
	}
	w.runs = append(w.runs, run{term: int64(len(w.runs) + 1), state: step.State{Operation: op}})
	w.act(len(w.runs)-1, step.Event{Kind: step.Begin})
}

// explore visits all worlds that can be reached, and returns how many, or what was
// broken first.
func explore(sc *scenario, b budget, plant func(*clustertest.Shard)) (int, error) {
	w := &world{sc: sc, phase: sc.op.Phase, commit: sc.op.Phase == step.Committed, shards: sc.shards(), left: b}
	w.texts = make([]string, len(w.shards))
	if plant != nil {
		for _, s := range w.shards {
			plant(s)
		}
	}
	w.takeOver()
	seen := map[[32]byte]bool{w.key(): true}
	for todo := []*world{w}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := sc.holds(w); err != nil {
			return len(seen), fmt.Errorf("%w\n%s", err, w)
		}
		progress := false
		add := func(n *world, free bool) {
			if k := n.key(); !seen[k] {
				seen[k] = true
				todo = append(todo, n)
				progress = progress || free
			} else if k != w.key() {
				progress = progress || free
			}
		}
		for _, n := range w.free() {
			add(n, true)
		}
		if !progress {
			if err := w.end(); err != nil {
				return len(seen), fmt.Errorf("ends: %w\n%s", err, w)
			}
		}
		for _, n := range w.wrong() {
			add(n, false)
		}
	}
	return len(seen), nil
}

// end checks a world in which nothing is left to do: the operation has ended, done
// or undone, and nothing that is still on its way changes that.
func (w *world) end() error {
	if w.phase != step.Ended {
		return fmt.Errorf("the operation is %s and nothing goes on", w.phase)
	}
	if err := w.sc.ended(w); err != nil {
		return err
	}
	for round := range 2 {
		c := w.clone()
		if round == 1 { // others have ended, too, and fences were forgotten
			for i := range c.shards {
				b := new(bson.Builder).String("_shardsvrVersion", "other.ns")
				step.Fence{Number: w.sc.op.Number + 1, Phase: step.Trying, Low: w.sc.op.Number + 1}.Append(b)
				_ = c.own(i).Fenced(b.Finish())
			}
		}
		for i := range c.sent {
			if m := &c.sent[i]; m.req.Shard != step.Here && !m.req.Asks {
				before := fmt.Sprint(c.shards)
				_, _ = c.deliver(m)
				if after := fmt.Sprint(c.shards); before != after {
					return fmt.Errorf("%s of term %d, late, changes\n%s\nto\n%s", m.req.Body, m.fence.Term, before, after)
				}
			}
		}
	}
	return nil
}

func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase %s commit %v written %d\n", w.phase, w.commit, w.written)
	for _, m := range w.sent {
		fmt.Fprintf(&b, "  term %d %s#%d to %s %s done %v\n", m.fence.Term, m.fence.Phase, m.fence.Seq, m.req.Shard, m.req.Body, m.done)
	}
	for _, s := range w.shards {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

var deep = flag.Bool("deep", false, "explore to the depth of three things that go wrong, not two")

// TestEveryPlanEnds explores each operation, all its orders of events, to the depth
// of two things that go wrong at any moment, anywhere: another primary takes over, a request is late
// or done twice or its answer is lost, a shard dies half way or refuses, somebody
// cancels. With -deep they are three. A resharding is explored to the depth of one of these and a write,
// or of a shard that dies half way and one that refuses, and with -deep of two. (Invariants
// one-write, forward, fence, again, and what they are for: owned-once, complete, told, ends.)
func TestEveryPlanEnds(t *testing.T) {
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			total := 0
			budgets := []budget{
				{takeovers: 1, late: 1}, {takeovers: 1, writes: 1}, {half: 1, refusals: 1}, {late: 1, cancels: 1}, {takeovers: 2},
			}
			if sc.wide {
				budgets = []budget{{takeovers: 1}, {late: 1, writes: 1}, {half: 1, writes: 1}, {cancels: 1, writes: 1}, {half: 1, refusals: 1}}
			}
			switch {
			case *deep && sc.wide:
				budgets = []budget{{takeovers: 1, writes: 1}, {takeovers: 1, late: 1}, {late: 1, cancels: 1}}
			case *deep:
				budgets = []budget{
					{takeovers: 1, late: 1, refusals: 1, writes: 1}, {takeovers: 1, half: 1, cancels: 1, writes: 1}, {takeovers: 2, late: 1}, {late: 2, cancels: 1},
				}
			}
			for _, b := range budgets {
				n, err := explore(sc, b, nil)
				if err != nil {
					t.Fatal(err)
				}
				total += n
			}
			t.Logf("%d states", total)
		})
	}
}

// TestReshardBugsAreFound plants bugs in a resharding that each break one invariant.
func TestReshardBugsAreFound(t *testing.T) {
	b := budget{takeovers: 1, late: 1, cancels: 1, writes: 1}
	with := func(name, field string) func(o *step.Operation, p step.Phase, r step.Request) bool {
		return func(_ *step.Operation, _ step.Phase, r step.Request) bool {
			return r.Name() == name && (field == "" || r.Body.Lookup(field).Truthy())
		}
	}
	for _, c := range []struct {
		bug, finds string
		leave      func(o *step.Operation, p step.Phase, r step.Request) bool
		told       bson.Doc
		plant      func(*clustertest.Shard)
	}{
		{"reads of the donors are not blocked", "owned-once", with("_shardsvrBlock", "reads"), nil, nil},
		{"nobody waits for what the donors wrote last", "complete", with("_shardsvrReshardReceived", "until"), nil, nil},
		{"the recipients are told before the commit", "told", nil, scenarios()["reshard"].told, nil},
		{"an undone resharding is not told to a recipient", "ends", func(_ *step.Operation, p step.Phase, r step.Request) bool {
			return p == step.Undone && r.Shard == "b"
		}, nil, nil},
		{"a donor that owns nothing any more is not told", "ends", with("_shardsvrDrop", ""), nil, nil},
		{"shards do what is late", "ends", nil, nil, func(s *clustertest.Shard) { s.NoFence = true }},
	} {
		t.Run(c.bug, func(t *testing.T) {
			defer step.Plant(step.KindReshard, c.leave, c.told)()
			_, err := explore(scenarios()["reshard"], b, c.plant)
			if err == nil || !strings.HasPrefix(err.Error(), c.finds+":") {
				t.Fatalf("want %s, got %v", c.finds, err)
			}
		})
	}
}

// TestBugsAreFound plants bugs that each break one invariant.
func TestBugsAreFound(t *testing.T) {
	b := budget{takeovers: 1, late: 1, cancels: 1, writes: 1}
	leave := func(name string, with func(step.Request) bool) func(o *step.Operation, p step.Phase, r step.Request) bool {
		return func(_ *step.Operation, _ step.Phase, r step.Request) bool {
			return r.Name() == name && (with == nil || with(r))
		}
	}
	has := func(field string) func(step.Request) bool {
		return func(r step.Request) bool { return r.Body.Lookup(field).Truthy() }
	}
	told := scenarios()["move"].told
	for _, c := range []struct {
		bug, finds string
		leave      func(o *step.Operation, p step.Phase, r step.Request) bool
		told       bson.Doc
		plant      func(*clustertest.Shard)
	}{
		{"reads of the donor are not blocked", "owned-once", leave("_shardsvrBlock", has("reads")), nil, nil},
		{"nobody waits for what the donor wrote last", "complete", leave("_shardsvrReceived", has("until")), nil, nil},
		{"the recipient is told before the commit", "told", nil, told, nil},
		{"an undone move is not told to the recipient", "ends", func(o *step.Operation, p step.Phase, r step.Request) bool {
			return p == step.Undone && r.Shard == o.Args.Lookup("to").Str()
		}, nil, nil},
		{"shards do what is late", "ends", nil, nil, func(s *clustertest.Shard) { s.NoFence = true }},
	} {
		t.Run(c.bug, func(t *testing.T) {
			defer step.Plant(step.KindMove, c.leave, c.told)()
			_, err := explore(scenarios()["move"], b, c.plant)
			if err == nil || !strings.HasPrefix(err.Error(), c.finds+":") {
				t.Fatalf("want %s, got %v", c.finds, err)
			}
		})
	}
}
