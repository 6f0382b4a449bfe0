package pipeline

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// Open gathers all documents before it delivers the first group.
func (g *Group) Open(in Iterator, r *Run) (Iterator, error) {
	w := &grouping{g: g, in: in, r: r, memory: extsort.MaxMemory, cached: cachedGroups, hold: r.Env.Hold()}
	var d expr.Deps
	// Spilled documents lose their metadata.
	if exprsOf(g, &d); len(d.Meta) == 0 {
		w.dir = r.SpillDir
	}
	return w, nil
}

// group is an unfinished group.
type group struct {
	key string
	id  bson.Value // of the first document
	acc []expr.Accumulator
}

// grouping runs a Group. Groups are kept in memory. Once there are too many,
// some of the parts that the hash of the key divides them into are spilled: their
// groups, to disk if need be, and every later document of such a part. Each part is
// grouped afterwards in the same way, so memory is bounded however many groups there
// are.
type grouping struct {
	g  *Group
	in Iterator
	r  *Run
	// memory is what groups and spilled parts may hold together.
	memory int
	dir    string // where to spill; "" if spilling is not possible
	hold   memory.Holding
	// cached is cachedGroups.
	cached int

	groups map[string]*group
	order  []*group // in the order of their arrival, then of the results
	at     int
	bytes  int
	taken  int // documents
	most   int // the most bytes held, of groups and spilled
	key    []byte
	slab   groupSlab

	begun   bool
	space   *spillSpace
	spill   *spillParts  // the spilled documents of the current part, or nil
	parts   []*spillPart // still to be grouped
	saved   []byte       // memory for the states of a group
	state   []byte
	builder bson.Builder
}

const (
	// fewDocuments is the number of documents per group from which on lookups in groups
	// beyond the processor's caches pay off.
	fewDocuments = 4
	// cachedGroups is the memory of groups, in bytes, from which on groups with fewer
	// documents are spilled.
	cachedGroups = 16 << 20
)

// groupOverhead is what a group costs in addition to its key and its accumulators, in
// bytes.
const groupOverhead = 128

func (w *grouping) Close() {
	w.in.Close()
	w.groups, w.order, w.slab = nil, nil, groupSlab{}
	if w.spill != nil {
		w.spill.close()
	}
	for _, p := range w.parts {
		p.close()
	}
	w.spill, w.parts = nil, nil
	w.hold.Release()
}

// load groups all documents of in.
func (w *grouping) load(ctx context.Context, in Iterator) error {
	if err := w.gather(ctx, in); err != nil {
		return err
	}
	w.groups = nil
	if w.spill != nil {
		w.spill, w.parts = nil, append(w.spill.finish(), w.parts...)
	}
	return nil
}

// gather reads documents, or column batches if in has those.
func (w *grouping) gather(ctx context.Context, in Iterator) error {
	if s, ok := in.(ColumnBatches); ok {
		if p := w.g.planColumns(s); p != nil {
			return w.loadColumnBatches(ctx, s, p)
		}
	}
	for {
		d, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			return nil
		}
		if err := w.r.check(ctx); err != nil {
			return err
		}
		if err := w.take(d); err != nil {
			return err
		}
	}
}

// take adds a document to its group, or spills it.
func (w *grouping) take(d bson.Doc) error {
	env := w.env(d)
	defer w.leave()
	id, err := w.g.idOf(env)
	if err != nil {
		return err
	}
	w.key = keystring.Append(w.key[:0], id, false, env.Collator)
	if p := w.spilledPart(); p != nil {
		return p.add(d, w.g.keep)
	}
	gr := w.groups[string(w.key)]
	if gr == nil {
		if gr, err = w.start(env, id); err != nil {
			return err
		}
	}
	w.taken++
	if w.g.joins {
		grown, err := gr.join(env, d)
		if err != nil {
			return err
		}
		w.bytes += grown
		return w.room()
	}
	if err := w.add(gr, env.WithRoot(d)); err != nil {
		return err
	}
	return w.room()
}

// spilledPart returns the part of the current key if that part was spilled, else nil.
func (w *grouping) spilledPart() *spillPart {
	if w.spill == nil {
		return nil
	}
	return w.spill.parts[w.spill.partOf(w.key)]
}

// env returns the environment in which the group evaluates d; leave returns it to the
// other stages.
func (w *grouping) env(d bson.Doc) *expr.Env {
	w.r.Env.Grouping = w.g.engine.query
	return w.r.Env.WithRoot(d)
}

func (w *grouping) leave() { w.r.Env.Grouping = false }

// idOf is the _id of the group of env's document.
func (g *Group) idOf(env *expr.Env) (bson.Value, error) {
	if g.joins {
		return env.Root().Lookup("_id"), nil
	}
	id, err := g.ID.Eval(env)
	switch {
	case id.IsMissing():
		id = bson.Null
	case g.idWithout.Type == bson.TypeDocument && id.Type == bson.TypeDocument && id.Doc().IsEmpty():
		id = g.idWithout
	}
	return id, err
}

// start makes the group with the current key.
func (w *grouping) start(env *expr.Env, id bson.Value) (*group, error) {
	gr := w.slab.group(len(w.g.Fields))
	gr.key, gr.id = string(w.key), bson.Value{Type: id.Type, Data: w.slab.bytes(id.Data)}
	for i, f := range w.g.Fields {
		var err error
		if gr.acc[i], err = f.Spec.New(env, gr.id); err != nil {
			return nil, err
		}
		w.bytes += gr.acc[i].Size()
	}
	w.groups[gr.key] = gr
	w.order = append(w.order, gr)
	w.bytes += len(w.key) + len(id.Data) + groupOverhead
	return gr, nil
}

// add adds a document to a group and accounts for the memory.
func (w *grouping) add(gr *group, env *expr.Env) error {
	for _, a := range gr.acc {
		before := a.Size()
		if err := a.Add(env); err != nil {
			return err
		}
		w.bytes += a.Size() - before
	}
	return w.room()
}

// room spills if the groups have no memory left, and fails if they may not spill.
func (w *grouping) room() error {
	held := w.bytes
	if w.space != nil {
		held += w.space.held
	}
	w.most = max(w.most, held)
	fits, err := w.hold.Spilling(held)
	switch {
	case err != nil:
		return err
	case !fits && (w.dir == "" || len(w.order) <= 1):
		return memory.ErrNone()
	case !fits:
		return w.giveWay()
	case held <= w.memory && (w.bytes <= w.cached || w.dir == "" || w.taken >= fewDocuments*len(w.order)):
		return nil
	case w.dir == "":
		return extsort.ErrMemory
	case len(w.order) <= 1:
		return nil // it has a limit of its own
	}
	return w.evict()
}

// largeResult is the size of all groups, in bytes, from which on single results may be
// large.
const largeResult = 1 << 20

// giveWay spills groups to disk, because there is no memory.
func (w *grouping) giveWay() error {
	if w.space == nil {
		w.space = newSpillSpace(w.dir, 0)
	}
	w.space.memory = 0
	err := w.evict()
	w.hold.Shrink(w.bytes + w.space.held)
	return err
}

func (w *grouping) Next(ctx context.Context) (bson.Doc, error) {
	for w.at == len(w.order) {
		more, err := w.next(ctx)
		if err != nil {
			return nil, memoryError(err, "Exceeded memory limit for $group, but didn't allow external sort.")
		}
		if !more {
			return nil, nil
		}
	}
	gr := w.order[w.at]
	w.order[w.at] = nil
	w.at++
	if w.bytes > largeResult {
		// A result has a copy of each value, which grows while it is copied.
		if err := w.hold.Set(w.bytes + 3*gr.size()); err != nil {
			return nil, err
		}
	}
	if w.g.states {
		return w.states(gr)
	}
	return gr.result(w.g)
}

// next groups all documents, and then one spilled part after the other; false at the end.
func (w *grouping) next(ctx context.Context) (bool, error) {
	if w.begun && len(w.parts) == 0 {
		w.order, w.at = nil, 0
		return false, nil
	}
	w.groups, w.order, w.at, w.bytes, w.taken, w.slab = make(map[string]*group, len(w.order)), w.order[:0], 0, 0, 0, groupSlab{}
	if !w.begun {
		w.begun = true
		return true, w.load(ctx, w.in)
	}
	p := w.parts[0]
	w.parts = w.parts[1:]
	defer p.close()
	if err := w.reload(ctx, p); err != nil {
		return false, err
	}
	return true, w.load(ctx, p)
}

// states is a group with the states of its accumulators, valid until the following call.
func (w *grouping) states(gr *group) (_ bson.Doc, err error) {
	b := w.builder.Reset(w.saved[:0]).Value("_id", gr.id)
	if w.state, err = gr.appendStates(b, w.state); err != nil {
		return nil, err
	}
	w.saved = b.Finish()
	return w.saved, nil
}

func (gr *group) result(g *Group) (bson.Doc, error) {
	b := new(bson.Builder).Value("_id", g.engine.id(gr.id))
	for i, a := range gr.acc {
		v, err := a.Result()
		if err != nil {
			return nil, err
		}
		if v.IsMissing() {
			v = bson.Null
		}
		b.Value(g.Fields[i].Name, g.engine.result(v))
	}
	return b.Finish(), nil
}

// groupSlab is memory from which groups are cut, many at a time.
type groupSlab struct {
	groups []group
	acc    []expr.Accumulator
	data   []byte
	size   int // of the next slab, in groups
}

const (
	firstSlab    = 4
	largestSlab  = 512
	slabIDBytes  = 32
	largestSmall = 1 << 10 // an _id that is larger has memory of its own
)

// group is a group with room for so many accumulators.
func (s *groupSlab) group(fields int) *group {
	if len(s.groups) == 0 {
		s.size = min(max(2*s.size, firstSlab), largestSlab)
		s.groups = make([]group, s.size)
		s.acc = make([]expr.Accumulator, s.size*fields)
	}
	gr := &s.groups[0]
	gr.acc, s.acc = s.acc[:fields:fields], s.acc[fields:]
	s.groups = s.groups[1:]
	return gr
}

// bytes copies b.
func (s *groupSlab) bytes(b []byte) []byte {
	if len(b) > largestSmall {
		return slices.Clone(b)
	}
	if cap(s.data)-len(s.data) < len(b) {
		s.data = make([]byte, 0, max(s.size*slabIDBytes, len(b)))
	}
	at := len(s.data)
	s.data = append(s.data, b...)
	return s.data[at:len(s.data):len(s.data)]
}
