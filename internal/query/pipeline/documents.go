package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Documents is {$documents: expression}, whose value is an array of documents.
type Documents struct{ list expr.Expr }

func parseDocuments(arg bson.Value, p *parsing) (Stage, error) {
	if !p.Collectionless && p.index == 0 && !p.inFacet {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "'$documents' can only be run with {aggregate: 1}")
	}
	e, err := expr.Parse(arg, p.Expr)
	if err != nil {
		return nil, err
	}
	return &Documents{e}, nil
}

func (d *Documents) source() {}

// Name is the stage's name.
func (d *Documents) Name() string { return "$documents" }

// Serialize is the expression.
func (d *Documents) Serialize() bson.Value { return expr.Serialize(d.list) }

// Open evaluates the expression.
func (d *Documents) Open(_ Iterator, r *Run) (Iterator, error) {
	v, err := d.list.Eval(r.Env.WithRoot(bson.Empty))
	if err != nil {
		return nil, err
	}
	if v.Type != bson.TypeArray {
		return nil, mongoerr.New(5858203, "an array is expected")
	}
	l := &List{}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument {
			return nil, mongoerr.New(40228, "'$documents' expects an array of objects, found %s", e.Type)
		}
		l.Docs = append(l.Docs, e.Doc().Clone())
	}
	return l, nil
}
