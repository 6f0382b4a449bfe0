package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// maxDepth bounds how deeply a filter nests: as deep as a document may.
const maxDepth = 200

// Feature is a set of operators that some places of the language refuse.
type Feature uint8

// The features, for Options.Forbid.
const (
	FeatureText Feature = 1 << iota
	FeatureNear
	FeatureJavaScript
	FeatureExpr
	FeatureJSONSchema

	AllFeatures = FeatureText | FeatureNear | FeatureJavaScript | FeatureExpr | FeatureJSONSchema
)

// Options is what the meaning of a filter depends on besides its text. A nil
// *Options is the default.
type Options struct {
	// Collator orders strings in comparisons and $in; nil is the simple
	// collation.
	Collator bson.Collator
	// Expr is the context of $expr: the names of its variables.
	Expr *expr.Options
	// Forbid are the operators that are "not allowed in this context".
	Forbid Feature
}

// Parse parses a filter. The errors are *mongoerr.Error with the server's codes and
// messages. Errors of constant folding go to opts.Expr.Faults if that is set.
func Parse(filter bson.Doc, opts *Options) (f *Filter, err error) {
	if f := point(filter, opts); f != nil {
		return f, nil
	}
	defer expr.Interrupted(&err)
	p := newParser(opts)
	outer := p.opts.Expr.Faults
	faults := p.gather()
	n, err := p.document(filter, wholeFilter)
	if err != nil {
		return nil, err
	}
	if err := checkStructure(n); err != nil {
		return nil, err
	}
	if err := faults.Err("expression"); err != nil {
		if outer == nil {
			return nil, err
		}
		outer.Add(err)
	}
	z := normalizer{interrupt: &p.interrupt}
	root := z.node(n)
	if err := checkNear(root); err != nil {
		return nil, err
	}
	return &Filter{root, filter, p.opts, p.hasExpr}, nil
}

// point parses {path: value}, the filter of most reads, if it means plain
// equality; nil for any other filter.
func point(filter bson.Doc, opts *Options) *Filter {
	it := filter.Iter()
	if !it.Next() || it.Key == "" || it.Key[0] == '$' || it.Value.Type == bson.TypeRegex || isConditions(it.Value, false) {
		return nil
	}
	name, v := it.Key, it.Value
	if it.Next() || v.Type == bson.TypeUndefined {
		return nil
	}
	m := &struct { // in one piece
		Filter
		compare Compare
	}{}
	m.Filter = Filter{root: &m.compare, filter: filter}
	if opts != nil {
		m.opts = *opts
	}
	m.compare.init(name, Eq, v, m.opts.Collator)
	return &m.Filter
}

// level says what the document that a filter, or a part of it, is about is to
// the whole filter; some operators are for the outermost level only.
type level uint8

const (
	wholeFilter  level = iota // the filter itself
	sameDocument              // a branch of $and, $or, $nor
	subDocument               // the argument of an $elemMatch
)

// parser holds the state of one Parse.
type parser struct {
	opts    Options
	depth   int
	hasExpr bool

	interrupt expr.Interrupt
}

func newParser(opts *Options) *parser {
	p := &parser{}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.Expr == nil {
		p.opts.Expr = &expr.Options{Collator: p.opts.Collator}
	}
	p.interrupt.Of = p.opts.Expr.Op
	return p
}

// gather gives the filter's expressions a gatherer of failures of their own.
func (p *parser) gather() *expr.Faults {
	opts := *p.opts.Expr
	opts.Faults = &expr.Faults{}
	p.opts.Expr = &opts
	return opts.Faults
}

func badValue(format string, args ...any) error {
	return mongoerr.New(mongoerr.BadValue, format, args...)
}

// enter counts a level of nesting; leave undoes it.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return mongoerr.New(mongoerr.Overflow, "Object exceeded maximum nesting object depth: %d", maxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// document parses a filter or a branch of one: its fields must all match.
func (p *parser) document(d bson.Doc, at level) (Node, error) {
	defer p.leave()
	if err := p.enter(); err != nil {
		return nil, err
	}
	all := &And{}
	for it := d.Iter(); it.Next(); {
		nodes, err := p.field(it.Key, it.Value, at)
		if err != nil {
			return nil, err
		}
		all.Children = append(all.Children, nodes...)
	}
	return all, nil
}

// unknownTopLevel is the error for a name of no operator; it says what the $ may have
// been meant for.
func unknownTopLevel(name string) error {
	if name == "$not" {
		return badValue("unknown top level operator: $not. If you are trying to negate an entire expression, use $nor.")
	}
	return badValue("unknown top level operator: %s. If you have a field name that starts with a '$' symbol, "+
		"consider using $getField or $setField.", name)
}

// field parses one field of a filter.
func (p *parser) field(name string, v bson.Value, at level) ([]Node, error) {
	p.interrupt.Turn()
	switch {
	case len(name) > 0 && name[0] == '$' && !isDBRefField(name):
		parse, ok := topLevel[name]
		if !ok {
			return nil, unknownTopLevel(name)
		}
		return one(parse(p, name, v, at))
	case isConditions(v, false):
		return p.conditions(name, v.Doc(), at)
	case v.Type == bson.TypeRegex:
		return one(p.regexValue(name, v))
	}
	return one(p.compare(name, Eq, v))
}

// one is the list of one node, or of none for an operator that says nothing.
func one(n Node, err error) ([]Node, error) {
	if n == nil || err != nil {
		return nil, err
	}
	return []Node{n}, nil
}

// conditions parses {$op: …, …} about a path: one node for each operator.
func (p *parser) conditions(path string, d bson.Doc, at level) ([]Node, error) {
	defer p.leave()
	if err := p.enter(); err != nil {
		return nil, err
	}
	if name, v := d.First(); isNear(name) && (v.Type == bson.TypeDocument || v.Type == bson.TypeArray) {
		return one(p.near(path, d))
	}
	var nodes []Node
	for it := d.Iter(); it.Next(); {
		parse, ok := operators[it.Key]
		if !ok {
			if it.Key == "$where" {
				return nil, badValue("$where cannot be applied to a field")
			}
			return nil, badValue("unknown operator: %s", it.Key)
		}
		n, err := parse(p, argument{path, it.Key, it.Value, d, at})
		if err != nil {
			return nil, err
		}
		if n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// argument is an operator on a path, and its place.
type argument struct {
	path     string
	op       string
	v        bson.Value
	siblings bson.Doc // the document of conditions that holds the operator
	at       level
}

// text is the operator's element as messages print it: $size: -1.
func (a argument) text() string { return a.op + ": " + a.v.String() }

// operators are the operators about a path, topLevel those in the place of a
// field name. Each operator's file has the functions.
var (
	operators map[string]func(p *parser, a argument) (Node, error)
	topLevel  map[string]func(p *parser, name string, v bson.Value, at level) (Node, error)
)

func init() {
	operators = map[string]func(*parser, argument) (Node, error){
		"$eq": parseCompare, "$ne": parseCompare, "$lt": parseCompare, "$lte": parseCompare,
		"$gt": parseCompare, "$gte": parseCompare,
		"$in": parseIn, "$nin": parseIn,
		"$not":   parseNot,
		"$regex": parseRegex, "$options": parseRegexOptions,
		"$exists": parseExists, "$type": parseType, "$mod": parseMod,
		"$size": parseSize, "$all": parseAll, "$elemMatch": parseElemMatch,
		"$bitsAllSet": parseBits, "$bitsAllClear": parseBits, "$bitsAnySet": parseBits, "$bitsAnyClear": parseBits,
		"$geoWithin": parseGeoWithin, "$within": parseGeoWithin, "$geoIntersects": parseGeoWithin,
		"$near": parseNearBehind, "$nearSphere": parseNearBehind, "$geoNear": parseNearBehind,
	}
	topLevel = map[string]func(*parser, string, bson.Value, level) (Node, error){
		"$and": parseLogical, "$or": parseLogical, "$nor": parseLogical,
		"$alwaysTrue": parseAlways, "$alwaysFalse": parseAlways,
		"$expr": parseExpr, "$sampleRate": parseSampleRate,
		"$jsonSchema": parseJSONSchema, "$where": parseWhere, "$text": parseText,
		"$comment": func(*parser, string, bson.Value, level) (Node, error) { return nil, nil },
	}
}

func isDBRefField(name string) bool { return name == "$ref" || name == "$id" || name == "$db" }

// isConditions reports whether v is a document of operators rather than a value:
// its first name starts with $, and it is no DBRef. Where any DBRef field will
// do, loose is set; else it takes $ref and $id.
func isConditions(v bson.Value, loose bool) bool {
	if v.Type != bson.TypeDocument {
		return false
	}
	name, _ := v.Doc().First()
	if name == "" || name[0] != '$' {
		return false
	}
	ref, id := v.Doc().Has("$ref"), v.Doc().Has("$id")
	if loose {
		return !ref && !id && !v.Doc().Has("$db")
	}
	return !(ref && id)
}
