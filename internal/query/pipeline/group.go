package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// groupOverhead is what a group costs beside its key and its accumulators, in
// bytes.
const groupOverhead = 128

// Group is {$group: {_id: expression, field: {accumulator: …}}}.
type Group struct {
	ID     expr.Expr
	Fields []GroupField
	name   string
	engine engine
}

// GroupField is one accumulated field.
type GroupField struct {
	Name string
	Spec *expr.AccumulatorSpec
}

func parseGroup(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(15947, "a group's fields must be specified in an object")
	}
	g := &Group{name: "$group"}
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key == "_id" {
			if g.ID != nil {
				return nil, mongoerr.New(15948, "a group's _id may only be specified once")
			}
			if err := checkGroupID(it.Value); err != nil {
				return nil, err
			}
			id, err := expr.Parse(it.Value, p.Expr)
			if err != nil {
				return nil, err
			}
			g.ID = id
			continue
		}
		f, err := parseGroupField(it.Key, it.Value, p.Expr)
		if err != nil {
			return nil, err
		}
		g.Fields = append(g.Fields, f)
	}
	if g.ID == nil {
		return nil, mongoerr.New(15955, "a group specification must include an _id")
	}
	return g, nil
}

// checkGroupID refuses an _id that would mean inclusion in a projection: {a: 1}.
func checkGroupID(v bson.Value) error {
	if v.Type != bson.TypeDocument {
		return nil
	}
	if name, _ := v.Doc().First(); strings.HasPrefix(name, "$") {
		return nil
	}
	for field := range v.Doc().Values() {
		if field.IsNumber() || field.Type == bson.TypeBool {
			return mongoerr.New(17390, "$group does not support inclusion-style expressions")
		}
	}
	return nil
}

func parseGroupField(name string, v bson.Value, opts *expr.Options) (GroupField, error) {
	switch {
	case strings.Contains(name, "."):
		return GroupField{}, mongoerr.New(40235, "The field name '%s' cannot contain '.'", name)
	case strings.HasPrefix(name, "$"):
		return GroupField{}, mongoerr.New(40236, "The field name '%s' cannot be an operator name", name)
	case v.Type != bson.TypeDocument:
		return GroupField{}, mongoerr.New(40234, "The field '%s' must be an accumulator object", name)
	}
	op, arg := v.Doc().First()
	if !strings.HasPrefix(op, "$") {
		return GroupField{}, mongoerr.New(40234, "The field '%s' must be an accumulator object", name)
	}
	if v.Doc().Len() != 1 {
		return GroupField{}, mongoerr.New(40238, "The field '%s' must specify one accumulator", name)
	}
	spec, err := expr.ParseAccumulator(op, arg, opts)
	return GroupField{name, spec}, err
}

// parseSortByCount makes {$sortByCount: e} the group and the sort it stands
// for.
func parseSortByCount(arg bson.Value, p *parsing) (Stage, error) {
	switch {
	case arg.Type == bson.TypeDocument:
		if name, _ := arg.Doc().First(); name == "" || name[0] != '$' {
			return nil, mongoerr.New(40147, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object")
		}
	case arg.Type == bson.TypeString:
		if arg.Str() == "" || arg.Str()[0] != '$' {
			return nil, mongoerr.New(40148, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object")
		}
	default:
		return nil, mongoerr.New(40149, "the sortByCount field must be specified as a string or as an object")
	}
	spec := new(bson.Builder).Value("_id", arg).OpenDoc("count").Int32("$sum", 1).Close().Finish()
	g, err := parseGroup(bson.Document(spec), p)
	if err != nil {
		return nil, err
	}
	s, err := parseSort(bson.Document(new(bson.Builder).Int32("count", -1).Finish()), p)
	if err != nil {
		return nil, err
	}
	return &sequence{name: "$sortByCount", arg: arg, stages: []Stage{g, s}}, nil
}

// sequence is a stage that stands for several.
type sequence struct {
	name   string
	arg    bson.Value
	stages []Stage
}

func (s *sequence) Name() string          { return s.name }
func (s *sequence) Serialize() bson.Value { return s.arg }

// Open is there for the interface: parsing puts the stages in the place of the
// sequence.
func (s *sequence) Open(in Iterator, r *Run) (Iterator, error) {
	return (&Pipeline{s.stages}).Open(in, r)
}

// Name is the stage's name.
func (g *Group) Name() string { return g.name }

// Serialize is the specification.
func (g *Group) Serialize() bson.Value {
	b := new(bson.Builder).Value("_id", expr.Serialize(g.ID))
	for _, f := range g.Fields {
		b.Value(f.Name, f.Spec.Serialize())
	}
	return bson.Document(b.Finish())
}

// Open gathers all documents before it delivers the first group.
func (g *Group) Open(in Iterator, r *Run) (Iterator, error) {
	return &grouping{g: g, in: in, r: r, groups: map[string]*group{}}, nil
}

// group is one group under way.
type group struct {
	id  bson.Value // of the first document
	acc []expr.Accumulator
}

// grouping runs a Group. Groups are kept in memory; once they have filled it,
// documents of groups that are not there yet are sorted on disk by their group
// and gathered afterwards, one group at a time.
type grouping struct {
	g       *Group
	in      Iterator
	r       *Run
	groups  map[string]*group
	order   []*group
	bytes   int
	rest    *extsort.Sorter // documents of groups that found no room, or nil
	loaded  bool
	at      int
	key     []byte
	ahead   extsort.Row // first row of the next group of rest
	hasNext bool
}

func (w *grouping) Close() {
	w.in.Close()
	w.groups, w.order = nil, nil
	if w.rest != nil {
		w.rest.Close()
	}
}

func (w *grouping) load(ctx context.Context) error {
	for {
		d, err := w.in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			break
		}
		if err := w.r.check(ctx); err != nil {
			return err
		}
		if err := w.take(d); err != nil {
			return err
		}
	}
	w.groups = nil
	if w.rest == nil {
		return nil
	}
	if err := w.rest.Sort(); err != nil {
		return err
	}
	var err error
	w.ahead, w.hasNext, err = w.rest.Next()
	return err
}

// take adds a document to its group, or sets it aside where that is not there
// and memory is full.
func (w *grouping) take(d bson.Doc) error {
	env := w.env(d)
	defer w.leave()
	id, err := w.g.idOf(env)
	if err != nil {
		return err
	}
	w.key = keystring.Append(w.key[:0], id, false, env.Collator)
	gr := w.groups[string(w.key)]
	if gr == nil {
		if w.bytes > extsort.MaxMemory {
			return w.spill(w.key, d)
		}
		if gr, err = w.g.start(env, id); err != nil {
			return err
		}
		w.groups[string(w.key)] = gr
		w.order = append(w.order, gr)
		w.bytes += len(w.key) + len(id.Data) + groupOverhead
	}
	return w.add(gr, env.WithRoot(d))
}

// env is the environment in which the group evaluates d; leave gives it back
// to the other stages.
func (w *grouping) env(d bson.Doc) *expr.Env {
	w.r.Env.Grouping = w.g.engine.query
	return w.r.Env.WithRoot(d)
}

func (w *grouping) leave() { w.r.Env.Grouping = false }

// idOf is the _id of the group of env's document.
func (g *Group) idOf(env *expr.Env) (bson.Value, error) {
	id, err := g.ID.Eval(env)
	if id.IsMissing() {
		id = bson.Null
	}
	return id, err
}

// start makes the accumulators of a new group.
func (g *Group) start(env *expr.Env, id bson.Value) (*group, error) {
	gr := &group{id: id.Clone(), acc: make([]expr.Accumulator, len(g.Fields))}
	for i, f := range g.Fields {
		var err error
		if gr.acc[i], err = f.Spec.New(env, gr.id); err != nil {
			return nil, err
		}
	}
	return gr, nil
}

// add takes a document into a group and books the memory.
func (w *grouping) add(gr *group, env *expr.Env) error {
	for _, a := range gr.acc {
		before := a.Size()
		if err := a.Add(env); err != nil {
			return err
		}
		w.bytes += a.Size() - before
	}
	if w.bytes > extsort.MaxMemory && w.r.SpillDir == "" {
		return extsort.ErrMemory
	}
	return nil
}

func (w *grouping) spill(key []byte, d bson.Doc) error {
	if w.rest == nil {
		w.rest = extsort.New(0, w.r.SpillDir)
	}
	return w.rest.Add(key, nil, d)
}

func (w *grouping) Next(ctx context.Context) (bson.Doc, error) {
	if !w.loaded {
		w.loaded = true
		if err := w.load(ctx); err != nil {
			return nil, memoryError(err, "Exceeded memory limit for $group, but didn't allow external sort.")
		}
	}
	if w.at < len(w.order) {
		gr := w.order[w.at]
		w.order[w.at] = nil
		w.at++
		return gr.result(w.g)
	}
	w.order = nil
	if !w.hasNext {
		return nil, nil
	}
	return w.fromRest()
}

// fromRest gathers the next group from disk.
func (w *grouping) fromRest() (bson.Doc, error) {
	defer w.leave()
	key := w.ahead.Key
	var gr *group
	for w.hasNext && string(w.ahead.Key) == string(key) {
		env := w.env(w.ahead.Doc)
		if gr == nil {
			id, err := w.g.idOf(env)
			if err != nil {
				return nil, err
			}
			if gr, err = w.g.start(env, id); err != nil {
				return nil, err
			}
			env = env.WithRoot(w.ahead.Doc)
		}
		for _, a := range gr.acc {
			if err := a.Add(env); err != nil {
				return nil, err
			}
		}
		var err error
		if w.ahead, w.hasNext, err = w.rest.Next(); err != nil {
			return nil, err
		}
	}
	return gr.result(w.g)
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
