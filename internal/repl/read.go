package repl

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
)

// reads are the linearizable reads that wait until the primary knows that it
// still is primary.
type reads struct {
	attempts uint64
	waiting  []func(error)       // for the next attempt
	asked    map[string]*attempt // by the attempt's context
	ready    []confirmed         // that wait for the machine
	// told is the number of the last read that heartbeats of this term asked about.
	told uint64
}

// attempt is one ReadIndex. Each has its own context: an answer to an earlier
// attempt says nothing about readers that came later (rule 6).
type attempt struct {
	readers []func(error)
	tick    uint64
}

// confirmed are readers that are served once the machine holds index.
type confirmed struct {
	index   uint64
	readers []func(error)
}

// ReadIndex calls done once this member has been the primary at some moment after the
// call, and its machine holds everything that was acknowledged before it. Errors:
// ErrNotPrimary.
func (g *Group) ReadIndex(done func(error)) {
	switch {
	case !g.primary:
		done(ErrNotPrimary)
	case len(g.reads.waiting) >= maxReads:
		done(errBusy)
	default:
		g.reads.waiting = append(g.reads.waiting, done)
	}
}

// nextContext returns a context that no attempt has used.
func (r *reads) nextContext() []byte {
	r.attempts++
	return binary.BigEndian.AppendUint64(nil, r.attempts)
}

// readNumber is the context of a heartbeat: the number of the last read that it asks
// about, which raft counts from the election on.
func readNumber(context []byte) (uint64, bool) {
	if len(context) != 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(context), true
}

// startReads makes one attempt for all that wait.
func (g *Group) startReads() {
	if len(g.reads.waiting) == 0 || g.role != Leader {
		return
	}
	if g.reads.asked == nil {
		g.reads.asked = map[string]*attempt{}
	}
	ctx := g.seams.context()
	a := g.reads.asked[string(ctx)]
	if a == nil {
		a = &attempt{tick: g.ticks}
		g.reads.asked[string(ctx)] = a
	}
	a.readers = append(a.readers, g.reads.waiting...)
	g.reads.waiting = nil
	g.rn.ReadIndex(ctx)
}

// retryReads gives up unanswered attempts: their readers wait for new ones, and a
// late answer is ignored.
func (g *Group) retryReads() {
	var again []string
	for ctx, a := range g.reads.asked {
		if g.ticks-a.tick >= readRetryTicks {
			again = append(again, ctx)
		}
	}
	slices.Sort(again)
	for _, ctx := range again {
		g.reads.waiting = append(g.reads.waiting, g.reads.asked[ctx].readers...)
		delete(g.reads.asked, ctx)
	}
}

// confirmReads notes the answers.
func (g *Group) confirmReads(states []raft.ReadState) {
	for _, s := range states {
		if a := g.reads.asked[string(s.RequestCtx)]; a != nil {
			delete(g.reads.asked, string(s.RequestCtx))
			g.reads.ready = append(g.reads.ready, confirmed{s.Index, a.readers})
		}
	}
}

// serveReads serves the readers whose index the machine holds.
func (g *Group) serveReads() {
	for len(g.reads.ready) > 0 && g.reads.ready[0].index <= g.applied.Index {
		readers := g.reads.ready[0].readers
		g.reads.ready = g.reads.ready[1:]
		for _, done := range readers {
			done(nil)
		}
	}
}

// failReads ends all reads that wait.
func (g *Group) failReads(err error) {
	r := g.reads
	g.reads.waiting, g.reads.asked, g.reads.ready = nil, nil, nil
	contexts := make([]string, 0, len(r.asked))
	for ctx := range r.asked {
		contexts = append(contexts, ctx)
	}
	slices.Sort(contexts)
	all := r.waiting
	for _, ctx := range contexts {
		all = append(all, r.asked[ctx].readers...)
	}
	for _, c := range r.ready {
		all = append(all, c.readers...)
	}
	for _, done := range all {
		done(err)
	}
}
