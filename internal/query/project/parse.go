package project

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// parser holds the state of parsing the specification of a find or a $project,
// which share their grammar: {a: 1, "b.c": 0, d: {e: 1}, f: {$add: …}}.
type parser struct {
	opts *Options
	find bool // the features of find are allowed
	root *node

	decided bool // kind is known: a field other than _id was kept, dropped or computed
	kind    Kind

	idNamed, idKept, idDropped          bool
	hasPositional, hasPick, hasMetaOnly bool
	positional                          string // the path of the positional operator
}

// ParseStage parses the argument of the stage with that name: $project,
// $addFields, $set, $unset, $replaceRoot or $replaceWith.
func ParseStage(stage string, arg bson.Value, opts *Options) (*Projection, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch stage {
	case "$addFields", "$set":
		return parseAddFields(stage, arg, opts)
	case "$unset":
		return parseUnset(arg, opts)
	case "$replaceRoot":
		return parseReplaceRoot(arg, opts)
	case "$replaceWith":
		return parseReplaceWith(arg, opts)
	}
	return parseProject(arg, opts)
}

func parseProject(arg bson.Value, opts *Options) (*Projection, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(15969), "$project specification must be an object")
	}
	if arg.Doc().IsEmpty() {
		return nil, inStage("$project", mongoerr.New(mongoerr.Code(51272), "projection specification must have at least one field"))
	}
	p, err := (&parser{opts: opts, root: &node{}}).parse(arg.Doc())
	return p, inStage("$project", err)
}

func inStage(stage string, err error) error { return mongoerr.Prefix(err, "Invalid "+stage) }

func (p *parser) parse(spec bson.Doc) (*Projection, error) {
	for it := spec.Iter(); it.Next(); {
		if it.Key == "_id" || strings.HasPrefix(it.Key, "_id.") {
			p.idNamed = true
		}
		if err := p.element("", it.Key, it.Value); err != nil {
			return nil, err
		}
	}
	p.decide()
	if p.kind == Inclusion && !p.idNamed {
		id := &node{}
		id.append(&field{name: "_id", do: keep})
		for _, f := range p.root.fields {
			id.append(f)
		}
		p.root = id
	}
	p.root.finish()
	return &Projection{kind: p.kind, stage: "$project", spec: spec, root: p.root, positional: p.hasPositional}, nil
}

// decide settles the kind of a specification that names nothing but _id or
// find's operators.
func (p *parser) decide() {
	if p.decided {
		return
	}
	p.kind = Exclusion
	if p.idKept || p.hasPick || !p.find && p.hasMetaOnly {
		p.kind = Inclusion
	}
}

// settle sets the kind of the projection. It reports whether that is consistent.
func (p *parser) settle(kind Kind) bool {
	if p.decided {
		return p.kind == kind
	}
	p.decided, p.kind = true, kind
	return true
}

// element parses one field; prefix is the path of its object, followed by a dot.
func (p *parser) element(prefix, name string, v bson.Value) error {
	if err := p.positionalAllowed(name, v); err != nil {
		return err
	}
	switch {
	case v.Type == bson.TypeDocument:
		return p.object(prefix, name, v.Doc())
	case !v.IsNumber() && v.Type != bson.TypeBool:
		return p.literal(prefix, name, v)
	case !v.Truthy():
		return p.exclude(prefix, name)
	case isPositional(name):
		return p.includePositional(prefix, name)
	}
	return p.include(prefix, name)
}

func (p *parser) include(prefix, name string) error {
	if err := validatePath(name); err != nil {
		return err
	}
	if err := p.root.add(prefix+name, field{do: keep}); err != nil {
		return err
	}
	if prefix == "" && name == "_id" {
		p.idKept = true
		return nil
	}
	if !p.settle(Inclusion) {
		return mongoerr.New(mongoerr.Code(31253), "Cannot do inclusion on field %s in exclusion projection", name)
	}
	return nil
}

func (p *parser) exclude(prefix, name string) error {
	if err := validatePath(name); err != nil {
		return err
	}
	if err := p.root.add(prefix+name, field{do: drop}); err != nil {
		return err
	}
	if prefix == "" && name == "_id" {
		p.idDropped = true
		return nil
	}
	if !p.settle(Exclusion) {
		return mongoerr.New(mongoerr.Code(31254), "Cannot do exclusion on field %s in inclusion projection", name)
	}
	return nil
}

// literal parses a value that is neither a flag nor an object: "$a", "text",
// null, ["$a", 1].
func (p *parser) literal(prefix, name string, v bson.Value) error {
	e, err := expr.Parse(v, p.opts.Expr)
	if err != nil {
		return err
	}
	if err := validatePath(name); err != nil {
		return err
	}
	if err := p.root.add(prefix+name, field{do: compute, expr: e}); err != nil {
		return err
	}
	if !p.settle(Inclusion) {
		return mongoerr.New(mongoerr.Code(31310), "Cannot use an expression %s: %s in an exclusion projection", name, v)
	}
	return nil
}

// object parses {$op: …} or an object of further fields.
func (p *parser) object(prefix, name string, d bson.Doc) error {
	if err := validatePath(name); err != nil {
		return err
	}
	if d.IsEmpty() {
		return mongoerr.New(mongoerr.Code(51270), "An empty sub-projection is not a valid value. Found empty object at path")
	}
	if op, arg := d.First(); op != "" && op[0] == '$' && d.Len() == 1 {
		if p.find {
			if done, err := p.findOperator(prefix, name, op, arg); done || err != nil {
				return err
			}
		}
		// The fields of a DBRef are fields like others.
		if expr.IsOperator(op) || op == "$elemMatch" || expr.ValidateFieldName(op) != nil {
			return p.expression(prefix, name, op, arg)
		}
	}
	prefix += name + "."
	for it := d.Iter(); it.Next(); {
		if err := p.element(prefix, it.Key, it.Value); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) expression(prefix, name, op string, arg bson.Value) error {
	if !expr.IsOperator(op) && op != "$elemMatch" {
		return mongoerr.New(mongoerr.Code(31325), "Unknown expression %s", op)
	}
	if op == "$meta" {
		p.hasMetaOnly = true
	} else if !p.settle(Inclusion) {
		return mongoerr.New(mongoerr.Code(31252), "Cannot use expression other than $meta in exclusion projection")
	}
	e, err := expr.ParseOperator(op, arg, p.opts.Expr)
	if err != nil {
		return err
	}
	return p.root.add(prefix+name, field{do: compute, expr: e})
}

// validatePath checks a dotted name as the path of an expression is checked.
func validatePath(path string) error {
	err := expr.ValidatePath(path)
	if mongoerr.Is(err, 5984700) {
		return mongoerr.New(mongoerr.Overflow, "FieldPath is too long")
	}
	return err
}
