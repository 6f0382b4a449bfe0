package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxDepth bounds how deeply expressions nest; a stored document nests at most
// this deep too.
const maxDepth = 200

// Options is the context in which an expression is parsed. A nil *Options is the
// default.
type Options struct {
	// Collator is the collation that constants are compared under.
	Collator bson.Collator
	// Vars are the names of the user variables in scope (a command's or a
	// $lookup's `let`), by slot: Env.SetVar(i, …) binds Vars[i].
	Vars []string
	// Values are the values of the first of them, those of a command's let, if
	// they are known.
	Values []bson.Value
	// Redact allows $$KEEP, $$PRUNE and $$DESCEND, which only $redact has.
	Redact bool
	// NoDocument forbids field paths and $$ROOT: the expression of a command's
	// `let`, which sees no document.
	NoDocument bool
	// NoClock forbids $$NOW: the expression of a filter over what a command lists.
	NoClock bool
	// Filter marks the expression of a filter's $expr.
	Filter bool
	// Validator marks an expression of a collection's validator, where $function
	// is forbidden.
	Validator bool
	// JavaScript runs the functions of $function and the like; nil if the
	// server runs no JavaScript.
	JavaScript *javascript.Session
	// ClusterTime allows $$CLUSTER_TIME: the deployment has a cluster clock, or
	// the expression belongs to an update.
	ClusterTime bool
	// Late turns constant folding off: an error in a constant is found where the
	// expression is evaluated, and never if it is not evaluated.
	Late bool
	// Faults collects the errors of constant folding, for callers that parse more than
	// this expression: the server folds constants only once everything is parsed. Nil
	// makes such an error one of the parse.
	Faults *Faults
	// Op is the operation that a long parse belongs to, and ends with; nil for none.
	Op Ender
}

// Faults collects errors of constant folding.
type Faults struct{ first error }

// Add records an error; only the first one is kept.
func (f *Faults) Add(err error) {
	if f.first == nil {
		f.first = err
	}
}

// Err returns the first error, or nil. Its message says that it came from optimizing
// what ("pipeline").
func (f *Faults) Err(what string) error {
	return mongoerr.Prefix(f.first, "Failed to optimize "+what)
}

// Parse parses an expression and folds its constants, so that an error in a constant
// subexpression is found here, unless opts say otherwise (Late, Faults).
func Parse(v bson.Value, opts *Options) (parsed Expr, err error) {
	defer Interrupted(&err)
	p := newParser(opts)
	e, err := p.operand(v)
	if err != nil {
		return nil, err
	}
	return p.reduced(e)
}

// ParseOperator parses {$op: argument} given as name and argument, for callers
// that already have the operator's element.
func ParseOperator(name string, arg bson.Value, opts *Options) (parsed Expr, err error) {
	defer Interrupted(&err)
	p := newParser(opts)
	e, err := p.operator(name, arg)
	if err != nil {
		return nil, err
	}
	return p.reduced(e)
}

// IsOperator reports whether name ("$add") is an expression operator.
func IsOperator(name string) bool {
	_, ok := operators[name]
	return ok
}

// parser holds the state of one Parse.
type parser struct {
	opts  *Options
	scope *scope
	slots int // variables bound around the current subexpression
	depth int
	fold  *Env // evaluates constants

	interrupt Interrupt
}

func newParser(opts *Options) *parser {
	if opts == nil {
		opts = &Options{}
	}
	p := &parser{opts: opts, fold: &Env{Collator: opts.Collator, folding: true}}
	p.interrupt.Of = opts.Op
	for _, name := range opts.Vars {
		p.bind(name)
	}
	return p
}

// operatorParser parses the argument of one operator. The name is passed so
// that operators may share a parser.
type operatorParser func(p *parser, name string, arg bson.Value) (Expr, error)

// operators is the registry, filled by the init functions of the families.
var operators = map[string]operatorParser{}

func register(name string, parse operatorParser) {
	if _, dup := operators[name]; dup {
		panic("expr: operator registered twice: " + name)
	}
	operators[name] = parse
}

// operand parses a value at a place where an expression is expected.
func (p *parser) operand(v bson.Value) (Expr, error) {
	p.interrupt.Turn()
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, mongoerr.New(mongoerr.Overflow, "expression exceeds the maximum nesting depth of %d", maxDepth)
	}
	switch v.Type {
	case bson.TypeString:
		if s := v.Str(); len(s) > 0 && s[0] == '$' {
			return p.fieldPath(s)
		}
	case bson.TypeDocument:
		return p.object(v.Doc())
	case bson.TypeArray:
		return p.arrayLiteral(v.Doc())
	}
	return &constant{v}, checkLength(v)
}

// object parses {$op: …} or an object whose fields are expressions.
func (p *parser) object(d bson.Doc) (Expr, error) {
	name, arg := d.First()
	if len(name) == 0 || name[0] != '$' {
		return p.objectLiteral(d)
	}
	if d.Len() != 1 {
		return nil, mongoerr.New(mongoerr.Code(15983),
			"An object representing an expression must have exactly one field: %s", text(bson.Document(d)))
	}
	return p.operator(name, arg)
}

func (p *parser) operator(name string, arg bson.Value) (Expr, error) {
	parse, ok := operators[name]
	if !ok {
		return nil, mongoerr.New(mongoerr.InvalidPipelineOperator, "Unrecognized expression '%s'", name)
	}
	return parse(p, name, arg)
}
