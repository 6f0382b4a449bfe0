package project

import (
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// ParseFind parses the projection of a find or a findAndModify. An empty
// specification keeps everything.
func ParseFind(spec bson.Doc, opts *Options) (*Projection, error) {
	if opts == nil {
		opts = &Options{}
	}
	p, err := (&parser{opts: opts, find: true, root: &node{}}).parse(spec)
	if err != nil {
		return nil, err
	}
	p.stage = ""
	if p.positional {
		if p.filter, err = positionalFilter(opts); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// positionalFilter is the find's filter for the positional operator, nil where
// there is none. The last condition that holds of an array tells the element, in the
// normal order of the filter; the server reads it anew, without what it bans here.
func positionalFilter(opts *Options) (*match.Filter, error) {
	if opts.Filter == nil {
		return nil, nil
	}
	m := match.Options{}
	if opts.Match != nil {
		m = *opts.Match
	}
	m.Forbid = match.AllFeatures
	return match.Parse(opts.Filter.Text(), &m)
}

func isPositional(name string) bool { return strings.HasSuffix(name, ".$") }

// positionalAllowed rejects the positional operator at invalid positions.
func (p *parser) positionalAllowed(name string, v bson.Value) error {
	if strings.Contains(name, ".$.") {
		return mongoerr.New(mongoerr.Code(31394),
			"As of 4.4, it's illegal to specify positional operator in the middle of a path."+
				"Positional projection may only be used at the end, for example: a.b.$. If the query "+
				"previously used a form like a.b.$.d, remove the parts following the '$' and the results "+
				"will be equivalent.")
	}
	if !isPositional(name) {
		return nil
	}
	switch {
	case !p.find:
		return mongoerr.New(mongoerr.Code(31324), "Cannot use positional projection in aggregation projection")
	case v.Type == bson.TypeDocument:
		return mongoerr.New(mongoerr.Code(31271), "positional projection cannot be used with an expression or sub object")
	case !v.IsNumber() && v.Type != bson.TypeBool:
		return mongoerr.New(mongoerr.Code(31308), "positional projection cannot be used with a literal")
	case !v.Truthy():
		return mongoerr.New(mongoerr.Code(31395), "positional projection cannot be used with exclusion")
	}
	return nil
}

func (p *parser) includePositional(prefix, name string) error {
	if p.hasPositional {
		return mongoerr.New(mongoerr.Code(31276), "Cannot specify more than one positional projection per query.")
	}
	if p.hasPick {
		return mongoerr.New(mongoerr.Code(31256), "Cannot specify positional operator and $elemMatch.")
	}
	name = strings.TrimSuffix(name, ".$")
	if name == "" {
		return mongoerr.New(mongoerr.Code(5392900), "Projection on field .$ is invalid")
	}
	if err := validatePath(name); err != nil {
		return err
	}
	if err := p.root.add(prefix+name, field{do: keep, positional: true}); err != nil {
		return err
	}
	p.hasPositional, p.positional = true, prefix+name
	if !p.settle(Inclusion) {
		return mongoerr.New(mongoerr.Code(31253), "Cannot do inclusion on field %s.$ in exclusion projection", name)
	}
	return nil
}

// findOperator parses the operators that only find has: $elemMatch, and the
// $slice that takes numbers. done is false if op is an expression.
func (p *parser) findOperator(prefix, name, op string, arg bson.Value) (done bool, err error) {
	switch op {
	case "$elemMatch":
		return true, p.elemMatch(prefix, name, arg)
	case "$slice":
		s, notFind := parseSlice(arg)
		switch {
		case notFind != nil:
			return true, p.sliceExpression(prefix, name, arg, notFind)
		case p.hasPositional && p.positional == prefix+name:
			// Where the positional operator already stands, $slice is read as the
			// expression, which takes no single number.
			return false, nil
		}
		return true, p.root.add(prefix+name, field{do: keep, slice: s})
	}
	return false, nil
}

// sliceExpression parses a $slice that is not find's, for the reason notFind.
func (p *parser) sliceExpression(prefix, name string, arg bson.Value, notFind *mongoerr.Error) error {
	if notFind.Code == 31259 { // a constant, which the server evaluates before any document
		_, first := arg.Doc().First()
		return mongoerr.New(mongoerr.Code(28724), "First argument to $slice must be an array, but is of type: %s", first.Type)
	}
	err := p.expression(prefix, name, "$slice", arg)
	if !mongoerr.Is(err, 28667) { // constants are evaluated later
		return err
	}
	return mongoerr.Under(err, fmt.Sprintf("Invalid $slice syntax. The given syntax %s did not match the find() syntax because :: %s: %s :: "+
		"The given syntax did not match the expression $slice syntax.",
		new(bson.Builder).Value("$slice", arg).Finish(), notFind.Code, notFind.Message))
}

func (p *parser) elemMatch(prefix, name string, arg bson.Value) error {
	if arg.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.Code(31274), "elemMatch: Invalid argument, object required, but got %s", arg.Type)
	}
	if p.hasPositional {
		return mongoerr.New(mongoerr.Code(31255), "Cannot specify positional operator and $elemMatch.")
	}
	if prefix != "" || strings.Contains(name, ".") {
		return mongoerr.New(mongoerr.Code(31275), "Cannot use $elemMatch projection on a nested field.")
	}
	p.hasPick = true
	opts := match.Options{}
	if p.opts.Match != nil {
		opts = *p.opts.Match
	}
	opts.Forbid = match.AllFeatures
	f, err := match.Parse(new(bson.Builder).OpenDoc(name).Doc("$elemMatch", arg.Doc()).Finish(), &opts)
	if err != nil {
		return err
	}
	return p.root.add(name, field{do: pick, filter: f})
}
