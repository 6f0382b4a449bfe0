package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

const (
	// maxGraph bounds the memory of a $graphLookup for one document, in bytes
	// (internalDocumentSourceGraphLookupMaxMemoryBytes).
	maxGraph = 100 << 20
	// maxFrontier bounds the values in one query of a $graphLookup.
	maxFrontier = 1000
)

// GraphLookup is {$graphLookup: {from, startWith, connectFromField,
// connectToField, as, maxDepth, depthField, restrictSearchWithMatch}}.
type GraphLookup struct {
	arg      bson.Value
	as       []string
	start    expr.Expr
	from, to string
	fromPath []string
	depth    []string // depthField, nil for none
	max      int64    // maxDepth, -1 for none
	coll     *Foreign
	restrict match.Node // nil: none
	// refused is the error of restrict as a part of a $match, which the first search
	// returns.
	refused  error
	collator bson.Collator
	// Unwind is an $unwind of as that was joined to the stage, or nil.
	Unwind *Unwind
}

func parseGraphLookup(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "the $graphLookup stage specification must be an object, but found %s", arg.Type)
	}
	g := &GraphLookup{arg: arg, max: -1, collator: p.Collator}
	ns, err := graphFrom(arg.Doc(), p.DB)
	if err != nil {
		return nil, err
	}
	var as string
	for it := arg.Doc().Iter(); it.Next(); {
		if err := g.option(it.Key, it.Value, p); err != nil {
			return nil, err
		}
		if it.Key == "as" && it.Value.Type == bson.TypeString {
			as = it.Value.Str()
		}
	}
	if g.start == nil || g.from == "" || g.to == "" || as == "" {
		return nil, mongoerr.New(40105, "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified.")
	}
	g.fromPath = strings.Split(g.from, ".")
	g.coll, err = p.subPipeline(ns, nil, nil)
	return g, err
}

// graphFrom returns the collection that a specification names.
func graphFrom(spec bson.Doc, db string) (Namespace, error) {
	from, ns := spec.Lookup("from"), Namespace{DB: db}
	switch from.Type {
	case bson.Missing:
		return ns, mongoerr.New(mongoerr.FailedToParse, "missing 'from' option to $graphLookup stage specification: %s", spec)
	case bson.TypeString:
		ns.Coll = from.Str()
	case bson.TypeDocument:
		return ns, mongoerr.New(mongoerr.FailedToParse, "$graphLookup with syntax {from: {db:<>, coll:<>},..} is not supported for db: %s and coll: %s",
			str(from.Doc().Lookup("db")), str(from.Doc().Lookup("coll")))
	default:
		return ns, mongoerr.New(mongoerr.FailedToParse, "$graphLookup 'from' field must be a string, but found %s", from.Type)
	}
	if ns.Coll == "" || ns.Coll[0] == '.' || strings.IndexByte(ns.Coll, 0) >= 0 {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "invalid $graphLookup namespace: %s.%s", ns.DB, ns.Coll)
	}
	return ns, nil
}

// graphDepth is a maxDepth.
func graphDepth(v bson.Value) (int64, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(40100, "maxDepth must be numeric, found type: %s", v.Type)
	}
	n := bson.ClampToInt64(v)
	if n < 0 {
		return 0, mongoerr.New(40101, "maxDepth requires a nonnegative argument, found: %d", n)
	}
	if _, ok := bson.ExactInt64(v); !ok {
		return 0, mongoerr.New(40102, "maxDepth could not be represented as a long long: %d", n)
	}
	return n, nil
}

// parseRestriction parses restrictSearchWithMatch. It becomes part of a $match when a
// search starts, and an error of the $match is returned only then.
func (g *GraphLookup) parseRestriction(d bson.Doc, p *parsing) error {
	faults := &expr.Faults{}
	opts, surroundings := *p.matchOptions(), *p.Expr
	surroundings.Faults = faults
	opts.Expr = &surroundings
	f, err := match.Parse(d, &opts)
	if err != nil {
		return mongoerr.Under(err, "Failed to parse 'restrictSearchWithMatch' option to $graphLookup")
	}
	g.restrict = f.Root()
	opts.Forbid |= match.FeatureNear | match.FeatureJavaScript
	if _, g.refused = match.Parse(d, &opts); g.refused == nil {
		g.refused = faults.Err("pipeline")
	}
	return nil
}

// option reads one field of the specification.
func (g *GraphLookup) option(name string, v bson.Value, p *parsing) error {
	var err error
	switch name {
	case "startWith":
		g.start, err = expr.Parse(v, p.Expr)
		return err
	case "maxDepth":
		var err error
		g.max, err = graphDepth(v)
		return err
	case "restrictSearchWithMatch":
		if v.Type != bson.TypeDocument {
			return mongoerr.New(40185, "restrictSearchWithMatch must be an object, found %s", v.Type)
		}
		return g.parseRestriction(v.Doc(), p)
	case "from", "as", "connectFromField", "connectToField", "depthField":
	default:
		return mongoerr.New(40104, "Unknown argument to $graphLookup: %s", name)
	}
	if name == "from" {
		return nil
	}
	if v.Type != bson.TypeString {
		return mongoerr.New(40103, "expected string as argument for %s, found: %s", name, v.Type)
	}
	path, err := splitPath(v.Str())
	switch name {
	case "as":
		g.as = path
	case "connectFromField":
		g.from = v.Str()
	case "connectToField":
		g.to = v.Str()
	case "depthField":
		g.depth = path
	}
	return err
}

// Name is the stage's name.
func (g *GraphLookup) Name() string { return "$graphLookup" }

// Serialize is the specification, with the $unwind that was joined to it.
func (g *GraphLookup) Serialize() bson.Value {
	if g.Unwind == nil {
		return g.arg
	}
	b := new(bson.Builder).Fields(g.arg.Doc())
	b.OpenDoc("unwinding").Bool("preserveNullAndEmptyArrays", g.Unwind.Keep)
	if g.Unwind.Index != "" {
		b.String("includeArrayIndex", g.Unwind.Index)
	}
	return bson.Document(b.Close().Finish())
}

// Open searches for each document.
func (g *GraphLookup) Open(in Iterator, r *Run) (Iterator, error) {
	it := Iterator(&searching{g: g, in: in, r: r, memory: r.Env.Hold()})
	if g.Unwind == nil {
		return it, nil
	}
	return g.Unwind.Open(it, r)
}

// searching runs a GraphLookup: breadth first, each document of the collection
// once for each document of the pipeline.
type searching struct {
	g  *GraphLookup
	in Iterator
	r  *Run

	memory memory.Holding
}

func (s *searching) Close() {
	s.in.Close()
	s.memory.Release()
}

func (s *searching) Next(ctx context.Context) (bson.Doc, error) {
	d, err := s.in.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	meta := s.r.Meta
	w := walk{s: s, seen: map[string]bool{}, asked: map[string]bool{}}
	v, err := s.g.start.Eval(s.r.Env.WithRoot(d))
	if err != nil {
		return nil, err
	}
	if v.IsMissing() {
		v = bson.Null
	}
	if v.Type == bson.TypeArray {
		for e := range v.Doc().Values() {
			w.ask(e)
		}
	} else {
		w.ask(v)
	}
	for depth := int64(0); len(w.frontier) > 0 && (s.g.max < 0 || depth <= s.g.max); depth++ {
		if err := w.step(ctx, depth); err != nil {
			return nil, err
		}
	}
	s.r.Meta = meta
	return setPath(d, s.g.as, bson.Array(w.found...)), nil
}

// walk is the search for one document.
type walk struct {
	s        *searching
	seen     map[string]bool // _ids of found documents
	asked    map[string]bool // values that were in a frontier
	frontier []bson.Value
	found    []bson.Value
	bytes    int
}

// ask adds a value to the frontier, once.
func (w *walk) ask(v bson.Value) {
	key := string(keystring.Append(nil, v, false, w.s.g.collator))
	if w.asked[key] {
		return
	}
	w.asked[key] = true
	w.bytes += len(key) + len(v.Data)
	w.frontier = append(w.frontier, v.Clone())
}

// step queries the collection for the frontier, and makes the next one.
func (w *walk) step(ctx context.Context, depth int64) error {
	values := w.frontier
	w.frontier = nil
	for len(values) > 0 {
		n := min(len(values), maxFrontier)
		if err := w.query(ctx, values[:n:n], depth); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

func (w *walk) query(ctx context.Context, values []bson.Value, depth int64) error {
	g := w.s.g
	if g.refused != nil {
		return g.refused
	}
	filter := equalToAny(g.to, values, g.collator)
	if g.restrict != nil {
		filter = match.AndOf(filter, g.restrict)
	}
	it, err := g.coll.open(ctx, w.s.r, nil, filter)
	if err != nil {
		return err
	}
	defer it.Close()
	for {
		d, err := it.Next(ctx)
		if err != nil || d == nil {
			return err
		}
		if err := w.visit(d, depth); err != nil {
			return err
		}
	}
}

// visit adds a document that is found for the first time.
func (w *walk) visit(d bson.Doc, depth int64) error {
	g := w.s.g
	id := d.Lookup("_id")
	if id.IsMissing() {
		return mongoerr.New(40271, "Documents in the '%s' namespace must contain an _id for de-duplication in $graphLookup", g.coll.NS)
	}
	key := string(keystring.Append(nil, id, false, nil))
	if w.seen[key] {
		return nil
	}
	w.seen[key] = true
	d = d.Clone()
	for _, v := range valuesAt(nil, bson.Document(d), g.fromPath) {
		w.ask(v)
	}
	if g.depth != nil {
		d = setPath(d, g.depth, bson.Int64(depth))
	}
	w.found = append(w.found, bson.Document(d))
	if w.bytes += len(d) + len(key); w.bytes > maxGraph {
		return mongoerr.New(40099, "$graphLookup reached maximum memory consumption")
	}
	return w.s.memory.Set(2 * w.bytes)
}
