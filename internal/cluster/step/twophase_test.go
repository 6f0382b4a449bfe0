package step_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/cluster/step"
)

// TestTwoPhaseScripts shows what a coordinator asks, stores and tells, event by event.
func TestTwoPhaseScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/twophase", func(t *testing.T, path string) {
		var m step.TwoPhase
		kinds := map[string]step.TwoPhaseEventKind{
			"started": step.Started, "found": step.Found, "yes": step.Yes, "no": step.No, "unanswered": step.Unanswered, "timeover": step.TimeOver,
			"stored": step.Stored, "notstored": step.NotStored, "told": step.Told, "removed": step.Removed,
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "commit" {
				m = step.TwoPhase{}
				for _, a := range d.CmdArgs {
					if a.Key == "own" || a.Key == "last" {
						d.ScanArgs(t, a.Key, &m.Own)
						m.Last = a.Key == "last"
						continue
					}
					m.Participants = append(m.Participants, a.Key)
				}
				return ""
			}
			kind, ok := kinds[d.Cmd]
			if !ok {
				t.Fatalf("no event %s", d.Cmd)
			}
			e := step.TwoPhaseEvent{Kind: kind, ReadOnly: d.HasArg("readonly")}
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "time":
					d.ScanArgs(t, "time", &e.Time)
				case "readonly":
				default:
					e.Shard = a.Key
				}
			}
			var a step.TwoPhaseAction
			m, a = step.StepTwoPhase(m, e)
			var out []string
			for _, w := range []struct {
				name string
				to   []string
			}{{"prepare", a.Prepare}, {"tell", a.Tell}} {
				if len(w.to) == 0 {
					continue
				}
				text := w.name + " " + strings.Join(w.to, ", ")
				if w.name == "tell" {
					text += map[bool]string{true: ": abort", false: fmt.Sprintf(": commit at %d", m.Time)}[m.Aborts]
				}
				if a.Again {
					text += " again"
				}
				out = append(out, text)
			}
			if a.Store {
				out = append(out, fmt.Sprintf("store commit at %d", m.Time))
			}
			if a.Remove {
				out = append(out, "remove the decision")
			}
			return strings.Join(append(out, "is "+m.Stage.String()), "\n")
		})
	})
}

// part is what a participant's set knows of the transaction. All but running is in its log.
type part byte

const (
	running   part = 'r'
	none      part = '-' // it was running, and its primary has gone
	prepared  part = 'p'
	committed part = 'c'
	dropped   part = 'a' // aborted
)

// mistake is a bug that is planted.
type mistake string

const (
	deposed mistake = "a deposed primary writes"
	// noTerm is none by itself: a deposed primary is kept from it by its own participant, which
	// is aborted before anybody is told that all is.
	noTerm  mistake = "a deposed primary writes if its own participant is prepared"
	noNote  mistake = "so it does, and abort is presumed without a note"
	unread  mistake = "what is stored is not read"
	errorOK mistake = "an error is taken for an ok"
	noPaper mistake = "the own part is committed, and the decision is not stored"
	noOwn   mistake = "the decision is stored, and the own part is not committed"
	early   mistake = "the own part is committed before all have said yes"
)

// commitBudget is how much goes wrong in one run.
type commitBudget struct {
	failovers int // of any shard; the machine of the primary before goes on as long as it can
	late      int // a message is done again, or its answer is lost
	recovers  int // another router asks for the outcome
	aborts    int // a client's abort arrives at any participant
	expires   int // the time is over, for a participant that is not prepared, or for a machine
}

// coordination is one machine, of one primary of the coordinator's shard.
type coordination struct {
	term     int
	way      byte // in which it commits; see ways
	machine  step.TwoPhase
	store    bool // it has the decision to store
	remove   bool
	dead     bool
	answered bool // the client has its answer
}

// letter is a message to a participant. It never goes away.
type letter struct {
	run    int
	to     int
	kind   byte // p: prepare, c: commit, a: abort
	closed bool // its sender has the answer
}

// ways are the ways to commit of the primaries of the shard that coordinates, in turns, a letter
// for each: l: the own part is committed with the decision, as it stands; o: it is prepared before;
// a: a build of before, which stores the decision apart, by a unit of its own, and tells its own
// participant, too.
type ways string

// of is the way of the primary of a term, from 1 on.
func (w ways) of(term int) byte { return w[(term-1)%len(w)] }

// commitWorld is a transaction with writes on several shards. The first of them coordinates.
type commitWorld struct {
	bug      mistake
	ways     ways
	names    []string
	parts    []part
	term     int
	document bool // the decision to commit
	runs     []coordination
	letters  []letter
	asked    bool   // the router's request has arrived once
	told     string // what the client was told, "" for nothing
	left     commitBudget
}

func (w *commitWorld) clone() *commitWorld {
	c := *w
	c.parts, c.runs, c.letters = slices.Clone(w.parts), slices.Clone(w.runs), slices.Clone(w.letters)
	return &c
}

func (w *commitWorld) key() string {
	var b strings.Builder
	fmt.Fprint(&b, w.parts, w.term, w.document, w.asked, w.told, w.left)
	for _, r := range w.runs {
		fmt.Fprint(&b, r)
	}
	fmt.Fprint(&b, w.letters)
	return b.String()
}

// current is the machine of the current primary, -1 for none.
func (w *commitWorld) current() int {
	return slices.IndexFunc(w.runs, func(r coordination) bool { return r.term == w.term && !r.dead && r.machine.Stage != step.Over })
}

// run begins a machine of the current primary.
func (w *commitWorld) run(first step.TwoPhaseEvent) {
	r := coordination{term: w.term, way: w.ways.of(w.term), machine: step.TwoPhase{Participants: w.names}}
	if r.way != 'a' {
		r.machine.Own = w.names[0]
	}
	r.machine.Last = r.way == 'l'
	w.runs = append(w.runs, r)
	w.act(len(w.runs)-1, first)
}

// act takes an event to a machine, and notes what it wants.
func (w *commitWorld) act(i int, e step.TwoPhaseEvent) {
	r := &w.runs[i]
	if r.dead {
		return
	}
	var a step.TwoPhaseAction
	r.machine, a = step.StepTwoPhase(r.machine, e)
	r.store, r.remove = r.store || a.Store, r.remove || a.Remove
	if w.bug == "commit is told before it is stored" && a.Store {
		a.Tell = r.machine.Participants
	}
	if w.bug == "the first yes decides" && e.Kind == step.Yes {
		r.store = true
		r.machine.Stage = step.Deciding
	}
	if w.bug == early && e.Kind == step.Started {
		r.store = true
		r.machine.Stage = step.Deciding
	}
	for kind, to := range map[byte][]string{'p': a.Prepare, 't': a.Tell} {
		if a.Again {
			continue // it is in letters
		}
		for _, name := range to {
			k := kind
			if k == 't' {
				k = map[bool]byte{true: 'a', false: 'c'}[r.machine.Aborts]
			}
			l := letter{run: i, to: slices.Index(w.names, name), kind: k}
			if !slices.ContainsFunc(w.letters, func(o letter) bool { return o.run == l.run && o.to == l.to && o.kind == l.kind }) {
				w.letters = append(w.letters, l)
			}
		}
	}
	slices.SortFunc(w.letters, func(x, y letter) int {
		return (x.run-y.run)*1000 + (x.to-y.to)*100 + int(x.kind) - int(y.kind)
	})
	if m := r.machine; !r.answered && (m.Decided() && m.Aborts || m.Stage > step.Telling && !m.Aborts) {
		r.answered = true
		w.tellClient(map[bool]string{true: "aborted", false: "committed"}[m.Aborts])
	}
}

func (w *commitWorld) tellClient(outcome string) {
	if w.told == "" || w.told == outcome {
		w.told = outcome
	} else {
		w.told = "committed and aborted"
	}
}

// deliver has a participant do what a letter says, and returns the event of its answer.
func (w *commitWorld) deliver(l letter) (e step.TwoPhaseEvent) {
	p := &w.parts[l.to]
	e = step.TwoPhaseEvent{Kind: step.Told, Shard: w.names[l.to]}
	switch l.kind {
	case 'p':
		e.Kind, e.Time = step.Yes, uint64(3+l.to)
		switch *p {
		case running:
			*p = prepared
		case prepared:
		case dropped, none:
			e.Kind = step.No
			if w.bug == "who has aborted prepares" && *p == dropped {
				*p, e.Kind = prepared, step.Yes
			}
		case committed:
			e.Kind = step.No
		}
	case 'c':
		switch *p {
		case prepared:
			*p = committed
		case committed:
		default:
			e.Kind = step.Unanswered
		}
	case 'a':
		switch *p {
		case committed:
			e.Kind = step.Unanswered
		case none:
		default:
			*p = dropped
		}
	}
	return e
}

// coordinate is coordinateCommitTransaction, with the list of participants or without it.
func (w *commitWorld) coordinate(list bool) {
	if w.document && w.bug != unread || w.current() >= 0 {
		return // it waits
	}
	switch w.parts[0] {
	case committed:
		w.tellClient("committed")
	case dropped, none:
		w.tellClient("aborted")
	case running, prepared:
		if w.parts[0] == running && list {
			w.run(step.TwoPhaseEvent{Kind: step.Started})
			return
		}
		w.parts[0] = dropped
		w.tellClient("aborted")
	}
}

// ask has a prepared participant ask for the decision.
func (w *commitWorld) ask(i int) {
	switch {
	case w.document && w.bug != unread:
		w.parts[i] = committed
	case w.current() >= 0:
	case w.parts[0] == committed && i != 0:
	default:
		if w.bug != noNote {
			w.parts[0] = dropped
		}
		w.parts[i] = dropped
	}
}

// write stores or removes the decision that a machine wants. What stores it commits the own
// participant.
func (w *commitWorld) write(i int) {
	r := &w.runs[i]
	current := r.term == w.term || w.bug == deposed || w.bug == noTerm || w.bug == noNote
	switch {
	case !current:
		r.dead = true
	case r.store:
		r.store = false
		own := prepared
		if r.machine.Last {
			own = running
		}
		if w.parts[0] != own && w.bug != deposed {
			w.act(i, step.TwoPhaseEvent{Kind: step.NotStored})
			return
		}
		w.document = w.bug != noPaper
		if r.way != 'a' && w.bug != noOwn {
			w.parts[0] = committed
		}
		e := step.TwoPhaseEvent{Kind: step.Stored}
		if r.machine.Last {
			e.Time = uint64(2 + len(w.names))
		}
		w.act(i, e)
	case r.remove:
		r.remove, w.document = false, false
		w.act(i, step.TwoPhaseEvent{Kind: step.Removed})
	}
}

func (w *commitWorld) failover(i int) {
	if w.parts[i] == running {
		w.parts[i] = none
	}
	if i > 0 {
		return
	}
	w.term++
	if w.document && w.bug != unread {
		w.run(step.TwoPhaseEvent{Kind: step.Found, Time: uint64(2 + len(w.names))})
	}
}

// free are the worlds that come next without anything going wrong.
func (w *commitWorld) free() (next []*commitWorld) {
	do := func(f func(*commitWorld)) {
		c := w.clone()
		f(c)
		next = append(next, c)
	}
	if w.told == "" {
		do(func(c *commitWorld) { c.asked = true; c.coordinate(true) })
	}
	for i, l := range w.letters {
		if !l.closed && !w.runs[l.run].dead {
			do(func(c *commitWorld) {
				e := c.deliver(l)
				c.letters[i].closed = e.Kind != step.Unanswered
				c.act(l.run, e)
			})
		}
	}
	for i, r := range w.runs {
		if (r.store || r.remove) && !r.dead {
			do(func(c *commitWorld) { c.write(i) })
		}
	}
	for i, p := range w.parts {
		switch {
		case p == prepared && !(w.bug == "no participant asks"):
			do(func(c *commitWorld) { c.ask(i) })
		case p == running && w.told != "":
			do(func(c *commitWorld) { c.parts[i] = dropped }) // its life is over
		}
	}
	return next
}

// wrong are the worlds that come next where something goes wrong.
func (w *commitWorld) wrong() (next []*commitWorld) {
	try := func(pick func(*commitBudget) *int, f func(*commitWorld)) {
		c := w.clone()
		if n := pick(&c.left); *n > 0 {
			*n--
			f(c)
			next = append(next, c)
		}
	}
	for i, p := range w.parts {
		try(func(b *commitBudget) *int { return &b.failovers }, func(c *commitWorld) { c.failover(i) })
		try(func(b *commitBudget) *int { return &b.aborts }, func(c *commitWorld) {
			if p == running || p == prepared && w.bug == "a client aborts what is prepared" {
				c.parts[i] = dropped
			}
		})
		if p == running {
			try(func(b *commitBudget) *int { return &b.expires }, func(c *commitWorld) { c.parts[i] = dropped })
		}
	}
	for i, l := range w.letters {
		try(func(b *commitBudget) *int { return &b.late }, func(c *commitWorld) { c.deliver(l) })
		if w.bug == errorOK && !l.closed && l.kind != 'p' { // it is not delivered
			try(func(b *commitBudget) *int { return &b.late }, func(c *commitWorld) {
				c.letters[i].closed = true
				c.act(l.run, step.TwoPhaseEvent{Kind: step.Told, Shard: c.names[l.to]})
			})
		}
	}
	for i := range w.runs {
		try(func(b *commitBudget) *int { return &b.expires }, func(c *commitWorld) { c.act(i, step.TwoPhaseEvent{Kind: step.TimeOver}) })
	}
	if w.asked {
		try(func(b *commitBudget) *int { return &b.late }, func(c *commitWorld) { c.coordinate(true) })
	}
	try(func(b *commitBudget) *int { return &b.recovers }, func(c *commitWorld) { c.coordinate(false) })
	return next
}

// holds checks what must be so in every world.
func (w *commitWorld) holds() error {
	has := func(p part) bool { return slices.Contains(w.parts, p) }
	switch {
	case w.document && (has(running) || has(none) || has(dropped)):
		return errors.New("yes-binds: the decision is commit, and a participant cannot")
	case has(committed) && (has(dropped) || has(none)), has(committed) && w.told == "aborted", w.told == "committed" && (has(dropped) || has(none)), w.told == "committed and aborted":
		return errors.New("one-decision: it has ended differently")
	case w.removed() && slices.ContainsFunc(w.parts, func(p part) bool { return p != committed }):
		return errors.New("explicit-ok: the decision is forgotten, and not all have committed")
	case has(committed) && !w.document && slices.ContainsFunc(w.parts, func(p part) bool { return p != committed }):
		return errors.New("decided-first: a participant has committed, another one not yet, and nothing is stored")
	}
	return nil
}

// removed reports whether the decision was stored and removed.
func (w *commitWorld) removed() bool {
	return !w.document && slices.ContainsFunc(w.runs, func(r coordination) bool { return r.machine.Stage == step.Over && !r.machine.Aborts })
}

// again checks a step from one world to the next.
func (w *commitWorld) again(n *commitWorld) error {
	for i, p := range w.parts {
		if p == dropped && n.parts[i] != dropped {
			return errors.New("no-again: what was aborted is prepared")
		}
		if p == committed && n.parts[i] != committed {
			return errors.New("one-decision: a commit is undone")
		}
	}
	return nil
}

// ends checks a world in which nothing is left to do.
func (w *commitWorld) ends() error {
	if slices.Contains(w.parts, prepared) || w.document || w.told == "" {
		return fmt.Errorf("ends: nothing goes on")
	}
	return nil
}

func (w *commitWorld) String() string {
	return fmt.Sprintf("parts %s, term %d, document %v, client %q, machines %+v, letters %+v", string(joined(w.parts)), w.term, w.document, w.told, w.runs, w.letters)
}

func joined(parts []part) (b []byte) {
	for _, p := range parts {
		b = append(b, byte(p))
	}
	return b
}

// exploreCommit visits all worlds that can be reached, and returns how many, or what was
// broken first.
func exploreCommit(names []string, b commitBudget, of ways, bug mistake) (int, error) {
	w := &commitWorld{bug: bug, ways: of, names: names, left: b, term: 1}
	for range names {
		w.parts = append(w.parts, running)
	}
	seen := map[string]bool{w.key(): true}
	for todo := []*commitWorld{w}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := w.holds(); err != nil {
			return len(seen), fmt.Errorf("%w\n%s", err, w)
		}
		progress := false
		for n, next := range [][]*commitWorld{w.free(), w.wrong()} {
			for _, c := range next {
				if err := w.again(c); err != nil {
					return len(seen), fmt.Errorf("%w\n%s\n%s", err, w, c)
				}
				k := c.key()
				progress = progress || n == 0 && k != w.key()
				if !seen[k] {
					seen[k] = true
					todo = append(todo, c)
				}
			}
		}
		if !progress {
			if err := w.ends(); err != nil {
				return len(seen), fmt.Errorf("%w\n%s", err, w)
			}
		}
	}
	return len(seen), nil
}

// TestTwoPhaseCommit explores the commit of a transaction over shards, all its orders of
// events, to the depth of three things that go wrong at any moment (two for three shards):
// a failover of any shard, whose machine goes on as long as it can, a message that is done
// again or late, another router that asks for the outcome, a client's abort, time that is
// over. It holds one-decision, yes-binds, decided-first, explicit-ok, no-again and ends. The
// primaries of the coordinator's shard commit in one way, or in several in turns, as they do in a
// rolling upgrade.
func TestTwoPhaseCommit(t *testing.T) {
	two, three := []string{"a", "b"}, []string{"a", "b", "c"}
	total := 0
	for _, c := range []struct {
		names  []string
		budget commitBudget
	}{
		{two, commitBudget{failovers: 2, late: 1}}, {two, commitBudget{failovers: 1, late: 1, recovers: 1}}, {two, commitBudget{failovers: 1, aborts: 1, expires: 1}},
		{two, commitBudget{recovers: 1, aborts: 1, expires: 1}}, {two, commitBudget{failovers: 2, recovers: 1}}, {two, commitBudget{failovers: 1, late: 2}},
		{three, commitBudget{failovers: 1, late: 1}}, {three, commitBudget{failovers: 1, expires: 1}}, {three, commitBudget{recovers: 1, aborts: 1}},
	} {
		for _, of := range []ways{"l", "o", "lo", "ol", "la", "al", "oa", "ao"} {
			if len(of) > 1+c.budget.failovers {
				continue
			}
			n, err := exploreCommit(c.names, c.budget, of, "")
			if err != nil {
				t.Fatalf("%+v %s: %v", c.budget, of, err)
			}
			total += n
		}
	}
	t.Logf("%d states", total)
	for _, of := range []ways{"o", "oa", "ao"} {
		if _, err := exploreCommit(two, commitBudget{failovers: 2, late: 1, recovers: 1}, of, noTerm); err != nil {
			t.Fatal(of, err)
		}
	}
}

// TestTwoPhaseBugsAreFound plants bugs that each break one invariant.
func TestTwoPhaseBugsAreFound(t *testing.T) {
	b := commitBudget{failovers: 2, late: 1, recovers: 1, aborts: 1, expires: 1}
	for _, c := range []struct {
		bug   mistake
		of    ways
		finds string
	}{
		{"commit is told before it is stored", "l", "one-decision"},
		{"commit is told before it is stored", "o", "decided-first"},
		{"the first yes decides", "o", "yes-binds"},
		{early, "l", "yes-binds"},
		{"who has aborted prepares", "l", "no-again"},
		{errorOK, "o", "explicit-ok"},
		{unread, "o", "ends"},
		{noNote, "o", "yes-binds"},
		{deposed, "l", "no-again"},
		{deposed, "o", "no-again"},
		{"a client aborts what is prepared", "l", "yes-binds"},
		{"no participant asks", "l", "ends"},
		{noPaper, "l", "decided-first"},
		{noOwn, "l", "yes-binds"},
		{noOwn, "o", "explicit-ok"},
	} {
		t.Run(fmt.Sprint(c.bug, ", ", c.of), func(t *testing.T) {
			n, err := exploreCommit([]string{"a", "b"}, b, c.of, c.bug)
			if err == nil {
				t.Fatalf("not found in %d states", n)
			}
			if !strings.HasPrefix(err.Error(), c.finds) {
				t.Fatalf("want %s, got %v", c.finds, err)
			}
			t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
		})
	}
}
