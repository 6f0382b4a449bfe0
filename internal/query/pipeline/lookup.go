package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

const (
	// maxJoined bounds the documents that a $lookup joins to one document, in bytes
	// (internalLookupStageIntermediateDocumentMaxSizeBytes).
	maxJoined = 100 << 20
	// maxCached bounds the kept results of a sub-pipeline that does not depend on
	// the document, in bytes (internalDocumentSourceLookupCacheSizeBytes).
	maxCached = 100 << 20
)

// Lookup is {$lookup: {from, localField, foreignField, let, pipeline, as}}.
type Lookup struct {
	arg     bson.Value
	as      []string
	local   []string // components of localField, nil if there is none
	foreign string   // foreignField
	let     *expr.Let
	from    *Foreign
	eq      []boundEq
	// correlated says that the sub-pipeline reads variables of let.
	correlated bool
	collator   bson.Collator
	// Unwind is an $unwind of as that was joined to the stage, or nil.
	Unwind *Unwind
	keep   []string // the fields that are read behind the stage; nil: all
}

func parseLookup(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "the $lookup stage specification must be an object, but found %s", arg.Type)
	}
	ns, err := p.lookupFrom(arg.Doc())
	if err != nil {
		return nil, err
	}
	v, err := readSpec("$lookup", arg.Doc(), anyField("from"), stringField("as").must(), stringField("localField"), stringField("foreignField"),
		docField("let"), arrayField("pipeline").notNull(), anyField("_internalUnwind"))
	if err != nil {
		return nil, err
	}
	l := &Lookup{arg: arg, collator: p.Collator, foreign: str(v[3])}
	if l.as, err = splitPath(v[1].Str()); err != nil {
		return nil, err
	}
	if err := l.parseJoin(str(v[2]), v[3], v[4], v[5]); err != nil {
		return nil, err
	}
	var vars []string
	if !v[4].IsMissing() {
		if l.let, err = expr.ParseLet(v[4].Doc(), p.Expr); err != nil {
			return nil, err
		}
		vars = l.let.Names
	}
	var list []bson.Value
	if !v[5].IsMissing() {
		list = v[5].Doc().Slice()
	}
	if l.from, err = p.subPipeline(ns, list, vars); err != nil {
		return nil, err
	}
	if l.let != nil {
		l.eq = boundEqualities(l.from, p.Options.with(vars).Expr, len(p.Expr.Vars))
	}
	l.correlated = l.from.Pipeline.reads(vars)
	return l, nil
}

// lookupFrom reads the namespace of a $lookup; it has no collection if the pipeline
// begins with its own documents. Errors: 9, 73 and those of {db, coll}.
func (p *parsing) lookupFrom(d bson.Doc) (Namespace, error) {
	from := d.Lookup("from")
	ns := Namespace{DB: p.DB}
	switch from.Type {
	case bson.TypeString:
		ns.Coll = from.Str()
		if ns.Coll == "" || ns.Coll[0] == '.' || strings.IndexByte(ns.Coll, 0) >= 0 {
			return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", ns)
		}
		return ns, nil
	case bson.TypeDocument:
		v, err := readSpec("from", from.Doc(), stringField("db"), stringField("coll"))
		if err != nil {
			return ns, err
		}
		return ns, mongoerr.New(mongoerr.FailedToParse, "$lookup with syntax {from: {db:<>, coll:<>},..} is not supported for db: %s and coll: %s", str(v[0]), str(v[1]))
	case bson.Missing:
		if list := d.Lookup("pipeline"); list.Type == bson.TypeArray {
			_, first := list.Doc().First()
			if first.Type == bson.TypeDocument {
				if name, _ := first.Doc().First(); name == "$documents" {
					return ns, nil
				}
			}
		}
		return ns, mongoerr.New(mongoerr.FailedToParse, "must specify 'pipeline' when 'from' is empty")
	}
	return ns, mongoerr.New(mongoerr.FailedToParse, "$lookup 'from' field must be a string or an object, but found %s", from.Type)
}

// parseJoin checks the combination of fields.
func (l *Lookup) parseJoin(local string, foreign, let, list bson.Value) error {
	if (local == "") != (l.foreign == "") {
		return mongoerr.New(mongoerr.FailedToParse, "$lookup requires both or neither of 'localField' and 'foreignField' to be specified")
	}
	if list.IsMissing() {
		if !let.IsMissing() {
			return mongoerr.New(mongoerr.FailedToParse, "$lookup with a 'let' argument must also specify 'pipeline'")
		}
		if local == "" {
			return mongoerr.New(mongoerr.FailedToParse, "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified")
		}
	}
	if local == "" {
		return nil
	}
	var err error
	if l.local, err = splitPath(local); err != nil {
		return err
	}
	_, err = splitPath(l.foreign)
	return err
}

// maxPathParts bounds the components of a path in a specification.
const maxPathParts = 200

// splitPath checks and splits a dotted path.
func splitPath(path string) ([]string, error) {
	if strings.Count(path, ".") >= maxPathParts {
		return nil, mongoerr.New(mongoerr.Overflow, "FieldPath is too long")
	}
	if err := expr.ValidatePath(path); err != nil {
		return nil, err
	}
	return strings.Split(path, "."), nil
}

// Name is the stage's name.
func (l *Lookup) Name() string { return "$lookup" }

// Serialize is the specification, with the $unwind that was joined to it.
func (l *Lookup) Serialize() bson.Value {
	if l.Unwind == nil {
		return l.arg
	}
	b := new(bson.Builder).Fields(l.arg.Doc())
	b.OpenDoc("unwinding").Bool("preserveNullAndEmptyArrays", l.Unwind.Keep)
	if l.Unwind.Index != "" {
		b.String("includeArrayIndex", l.Unwind.Index)
	}
	return bson.Document(b.Close().Finish())
}

// Open joins each document to its matches.
func (l *Lookup) Open(in Iterator, r *Run) (Iterator, error) {
	return &joining{l: l, in: in, r: r, env: &match.Env{Expr: r.Env}, memory: r.Env.Hold()}, nil
}

// join returns the filter that joins a document, or nil.
func (l *Lookup) join(d bson.Doc, vars []bson.Value, r *Run) (match.Node, error) {
	var nodes []match.Node
	if l.local != nil {
		nodes = append(nodes, equalToAny(l.foreign, valuesAt(nil, bson.Document(d), l.local), l.collator))
	}
	if len(l.eq) > 0 {
		sub := r.within(l.from.outer, vars)
		for _, e := range l.eq {
			n, err := e.bind(sub.Env, l.collator)
			if err != nil {
				return nil, err
			}
			if n != nil {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	return match.AndOf(nodes...), nil
}

// valuesAt appends the values at a path: through documents, through all
// elements of arrays and, for a number, to that element; an array at the end
// gives its elements.
func valuesAt(dst []bson.Value, v bson.Value, path []string) []bson.Value {
	if len(path) == 0 {
		if v.Type != bson.TypeArray {
			return append(dst, v)
		}
		for e := range v.Doc().Values() {
			dst = append(dst, e)
		}
		return dst
	}
	switch v.Type {
	case bson.TypeDocument:
		if f := v.Doc().Lookup(path[0]); !f.IsMissing() {
			dst = valuesAt(dst, f, path[1:])
		}
	case bson.TypeArray:
		if isIndex(path[0]) {
			if e := v.Doc().Lookup(path[0]); !e.IsMissing() {
				dst = valuesAt(dst, e, path[1:])
			}
			return dst
		}
		for e := range v.Doc().Values() {
			if e.Type == bson.TypeDocument {
				dst = valuesAt(dst, e, path)
			}
		}
	}
	return dst
}

// isIndex reports whether a component of a path is an array index.
func isIndex(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && (s == "0" || s[0] != '0')
}

// equalToAny returns the filter that path equals one of the values; no values mean null.
func equalToAny(path string, values []bson.Value, coll bson.Collator) match.Node {
	switch len(values) {
	case 0:
		return match.NewCompare(path, match.Eq, bson.Null, coll)
	case 1:
		return match.NewCompare(path, match.Eq, values[0], coll)
	}
	return match.NewIn(path, values, nil, coll)
}

// joining runs a Lookup.
type joining struct {
	l   *Lookup
	in  Iterator
	r   *Run
	env *match.Env

	cached []bson.Doc // results of an uncorrelated sub-pipeline
	whole  bool       // cached is complete
	full   bool       // it would not fit

	doc  bson.Doc // being unwound, or nil
	meta bson.Doc
	sub  Iterator
	at   int64
	base []byte // of doc, where fields are left out
	out  []byte // of the last result

	opened     int        // sub-pipelines
	table      *hashTable // the hash table, or nil
	noHashJoin bool       // it would not fit, or changes with time

	memory memory.Holding
	kept   int // bytes of cached and table

	stats LookupStats // for explain
}

func (j *joining) Close() {
	j.in.Close()
	j.closeSub()
	j.cached, j.table = nil, nil
	j.memory.Release()
}

// closeSub ends the sub-pipeline that is being unwound.
func (j *joining) closeSub() {
	if j.sub != nil {
		j.r.leave(inside(j.sub))
		j.addStats(j.sub)
		j.sub.Close()
		j.sub = nil
	}
}

// inside returns the pipeline whose results are cached, or the pipeline itself.
func inside(it Iterator) Iterator {
	if c, ok := it.(*caching); ok {
		return c.Iterator
	}
	return it
}

func (j *joining) Next(ctx context.Context) (bson.Doc, error) {
	if j.l.Unwind != nil {
		return j.unwind(ctx)
	}
	d, err := j.in.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	sub, err := j.open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	defer j.addStats(sub)
	meta := j.r.Meta
	var b bson.Builder
	b.Reset(nil)
	size := 0
	for i := 0; ; i++ {
		f, err := sub.Next(ctx)
		if err != nil {
			return nil, err
		}
		if f == nil {
			break
		}
		if size += len(f); size > maxJoined {
			return nil, mongoerr.New(4568, "Total size of documents in %s matching pipeline's $lookup stage exceeds %d bytes", j.l.from.NS.Coll, maxJoined)
		}
		// The results are copied once more into the document.
		if err := j.memory.Set(j.kept + 2*size); err != nil {
			return nil, err
		}
		b.Doc(bson.Index(i), f)
	}
	j.r.Meta = meta
	return setPath(d, j.l.as, bson.ArrayOf(b.Finish())), nil
}

// open starts the sub-pipeline for a document.
func (j *joining) open(ctx context.Context, d bson.Doc) (Iterator, error) {
	l := j.l
	if j.whole {
		return &List{Docs: j.cached}, nil
	}
	var vars []bson.Value
	var err error
	if l.let != nil {
		if vars, err = l.let.Eval(j.r.Env.WithRoot(d)); err != nil {
			return nil, err
		}
	}
	if found, ok, err := j.hashJoin(ctx, d); err != nil || ok {
		return found, err
	}
	join, err := l.join(d, vars, j.r)
	if err != nil {
		return nil, err
	}
	it, err := l.from.open(ctx, j.r, vars, join)
	if err == nil && l.local == nil && !l.correlated && !j.full {
		it = &caching{Iterator: it, j: j}
	}
	return it, err
}

// caching caches the results of an uncorrelated sub-pipeline, as long as they fit.
type caching struct {
	Iterator
	j     *joining
	docs  []bson.Doc
	bytes int
}

func (c *caching) Next(ctx context.Context) (bson.Doc, error) {
	d, err := c.Iterator.Next(ctx)
	switch {
	case err != nil || c.j.full:
	case d == nil:
		c.j.cached, c.j.whole = c.docs, true
	default:
		c.bytes += len(d)
		c.j.kept = c.bytes
		if c.bytes > maxCached || c.j.memory.Set(c.bytes) != nil {
			c.j.full, c.docs, c.j.kept = true, nil, 0
			break
		}
		c.docs = append(c.docs, d.Clone())
	}
	return d, err
}

// unwind returns a document for each match.
func (j *joining) unwind(ctx context.Context) (bson.Doc, error) {
	u := j.l.Unwind
	for {
		if j.sub == nil {
			d, err := j.in.Next(ctx)
			if err != nil || d == nil {
				return nil, err
			}
			j.meta, j.at = j.r.Meta, 0
			if j.sub, err = j.open(ctx, d); err != nil {
				return nil, err
			}
			j.r.enter(inside(j.sub))
			j.doc = j.narrow(d)
		}
		f, err := j.sub.Next(ctx)
		if err != nil {
			return nil, err
		}
		j.r.Meta = j.meta
		if f != nil {
			j.at++
			return j.emit(bson.Document(f), bson.Int64(j.at-1)), nil
		}
		j.closeSub()
		if j.at == 0 && u.Keep {
			return j.emit(bson.Value{}, bson.Null), nil
		}
		if err := j.r.check(ctx); err != nil {
			return nil, err
		}
	}
}

// narrow returns d without unread fields.
func (j *joining) narrow(d bson.Doc) bson.Doc {
	if j.l.keep == nil {
		return d
	}
	j.base = new(bson.Builder).Reset(j.base[:0]).Only(d, j.l.keep).Finish()
	return j.base
}

// emit returns the document with v in the place of the joined array.
func (j *joining) emit(v, index bson.Value) bson.Doc {
	var b bson.Builder
	b.Reset(j.out[:0])
	writePath(&b, j.doc, j.l.as, v)
	out := b.Finish()
	j.out = out
	if j.l.Unwind.Index != "" {
		out = setPath(out, j.l.Unwind.indexing, index)
	}
	return out
}
