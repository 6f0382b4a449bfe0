package project

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// parseReplaceRoot parses {newRoot: <expression>}.
func parseReplaceRoot(arg bson.Value, opts *Options) (*Projection, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40229), "expected an object as specification for $replaceRoot stage, got %s", arg.Type)
	}
	var newRoot bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key != "newRoot" {
			return nil, mongoerr.New(mongoerr.IDLUnknownField, "BSON field '$replaceRoot.%s' is an unknown field.", it.Key)
		}
		if !newRoot.IsMissing() {
			return nil, mongoerr.New(mongoerr.Code(40413), "BSON field '$replaceRoot.newRoot' is a duplicate field")
		}
		newRoot = it.Value
	}
	if newRoot.IsMissing() {
		return nil, mongoerr.New(mongoerr.IDLFailedToParse, "BSON field '$replaceRoot.newRoot' is missing but a required field")
	}
	return replaceWith(newRoot, "'newRoot' expression ", opts)
}

// parseReplaceWith parses the expression itself.
func parseReplaceWith(arg bson.Value, opts *Options) (*Projection, error) {
	return replaceWith(arg, "'replacement document' ", opts)
}

func replaceWith(v bson.Value, what string, opts *Options) (*Projection, error) {
	e, err := expr.Parse(v, opts.Expr)
	if err != nil {
		return nil, err
	}
	return &Projection{kind: ReplaceRoot, stage: "$replaceRoot", newRoot: e, what: what}, nil
}

func (p *Projection) replaceRoot(dst []byte, env *expr.Env, doc bson.Doc) ([]byte, error) {
	v, err := p.newRoot.Eval(env)
	if err != nil {
		return dst, err
	}
	if v.Type != bson.TypeDocument {
		text := v.String()
		if v.IsMissing() {
			text = "MISSING"
		}
		return dst, mongoerr.New(mongoerr.Code(40228),
			"%smust evaluate to an object, but resulting value was: %s. Type of resulting value: '%s'. Input document: %s",
			p.what, text, v.Type, doc)
	}
	return append(dst, v.Data...), nil
}
