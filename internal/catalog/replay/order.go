package replay

import (
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Errors of effects that were not applied, as in package repl.
var (
	errDropped = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was dropped")
	errUnknown = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "the outcome of the operation is unknown")
)

// order is the log of a primary without disk and members: effects whose order is
// decided, and that are not applied yet.
type order struct {
	mu   sync.Mutex
	at   catalog.Evaluation // the current evaluation; zero without a primary
	held bool               // only Apply applies effects
	list []*given
	// Of StepDown, for StepUp: what waited, and the evaluation that is over.
	lost []*given
	over catalog.Evaluation
}

// given is an effect with its encoding and its waiter.
type given struct {
	effect *catalog.Effect
	bytes  []byte
	done   chan error // capacity 1
}

// put decides the order of an effect, or rejects it if it was evaluated before another
// one was rejected.
func (o *order) put(e *catalog.Effect) (*given, error) {
	g := &given{e, e.AppendEncoded(nil), make(chan error, 1)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Evaluation() != o.at || o.at.Term == 0 {
		return nil, errDropped
	}
	o.list = append(o.list, g)
	e.Ordered()
	return g, nil
}

func (o *order) isHeld() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// next takes the first one.
func (o *order) next() *given {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		return nil
	}
	g := o.list[0]
	o.list = o.list[1:]
	return g
}

// begin makes at the current evaluation, and removes the effects after the first n.
func (o *order) begin(at catalog.Evaluation, n int) []*given {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(n, len(o.list))
	rest := o.list[n:]
	o.list, o.at = o.list[:n:n], at
	return rest
}

// Evaluate is that of a Committer on whose order of effects others may build.
func (r *Recorder) Evaluate() catalog.Evaluation {
	r.order.mu.Lock()
	defer r.order.mu.Unlock()
	return r.order.at
}

// Hold keeps effects from being applied, until Release: only their order is decided.
func (r *Recorder) Hold() {
	r.order.mu.Lock()
	defer r.order.mu.Unlock()
	r.order.held = true
}

// Release applies what waits, and from now on each effect at once.
func (r *Recorder) Release() {
	r.order.mu.Lock()
	r.order.held = false
	r.order.mu.Unlock()
	r.apply(1 << 30)
}

// Waiting is how many effects have a place and are not applied.
func (r *Recorder) Waiting() int {
	r.order.mu.Lock()
	defer r.order.mu.Unlock()
	return len(r.order.list)
}

// Apply applies the first n of the effects that wait.
func (r *Recorder) Apply(n int) { r.apply(n) }

// Drop refuses what waits behind the first n, as a log that takes no more: all that was
// evaluated before is refused, too.
func (r *Recorder) Drop(n int) {
	at := r.Evaluate()
	at.Epoch++
	for _, g := range r.order.begin(at, n) {
		g.done <- errDropped
	}
}

// Depose ends the primary's term, and begins another one. Nobody is told what becomes of
// what waits: the first n are applied in the end, as another member has had them in its
// log, the rest is gone.
func (r *Recorder) Depose(n int) error {
	r.StepDown()
	return r.StepUp(n)
}

// StepDown is the first part of Depose: there is no primary, and who waits is told that the
// outcome is unknown.
func (r *Recorder) StepDown() {
	for _, g := range r.order.end() {
		g.done <- errUnknown
	}
}

// end leaves the log without a primary, and returns what waited.
func (o *order) end() []*given {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost, o.over = o.list, o.at
	o.list, o.at = nil, catalog.Evaluation{}
	return o.lost
}

// StepUp is the second: the first n are applied, and the next term begins.
func (r *Recorder) StepUp(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.order.lost[:min(n, len(r.order.lost))] {
		e, err := r.catalog.Decode(g.bytes)
		if err != nil {
			return err
		}
		if err := r.take(e, g.bytes); err != nil {
			return err
		}
	}
	r.order.begin(catalog.Evaluation{Term: r.order.over.Term + 1, Epoch: r.order.over.Epoch + 1}, 0)
	return nil
}
