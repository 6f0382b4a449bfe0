package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Redact is {$redact: expression}, which decides for a document and for each
// one inside it.
type Redact struct {
	decide expr.Expr
	slot   int // of CURRENT
}

func parseRedact(arg bson.Value, p *parsing) (Stage, error) {
	opts := p.Options.with([]string{"CURRENT"}).Expr
	opts.Redact = true
	e, err := expr.Parse(arg, opts)
	if err != nil {
		return nil, err
	}
	return &Redact{e, len(opts.Vars) - 1}, nil
}

// Name is the stage's name.
func (s *Redact) Name() string { return "$redact" }

// Serialize is the expression.
func (s *Redact) Serialize() bson.Value { return expr.Serialize(s.decide) }

// Open redacts each document.
func (s *Redact) Open(in Iterator, r *Run) (Iterator, error) {
	return &mapped{in, r, func(d bson.Doc) (bson.Doc, error) { return s.document(r.Env, d, d) }}, nil
}

// document returns the redacted d, which is a part of root or root itself; nil if it is
// pruned.
func (s *Redact) document(env *expr.Env, root, d bson.Doc) (bson.Doc, error) {
	env.WithRoot(root).SetVar(s.slot, bson.Document(d))
	v, err := s.decide.Eval(env)
	if err != nil {
		return nil, err
	}
	switch {
	case bson.Equal(v, expr.Keep):
		return d, nil
	case bson.Equal(v, expr.Prune):
		return nil, nil
	case !bson.Equal(v, expr.Descend):
		return nil, mongoerr.New(17053, "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned %s", v)
	}
	var b bson.Builder
	b.Reset(make([]byte, 0, len(d)))
	for it := d.Iter(); it.Next(); {
		v, err := s.value(env, root, it.Value)
		if err != nil {
			return nil, err
		}
		b.Value(it.Key, v)
	}
	return b.Finish(), nil
}

// value returns the redacted value, Missing if it is pruned.
func (s *Redact) value(env *expr.Env, root bson.Doc, v bson.Value) (bson.Value, error) {
	switch v.Type {
	case bson.TypeDocument:
		d, err := s.document(env, root, v.Doc())
		if err != nil || d == nil {
			return bson.Value{}, err
		}
		return bson.Document(d), nil
	case bson.TypeArray:
		var b bson.Builder
		b.Reset(make([]byte, 0, len(v.Data)))
		n := 0
		for e := range v.Doc().Values() {
			e, err := s.value(env, root, e)
			if err != nil {
				return e, err
			}
			if !e.IsMissing() {
				b.Value(bson.Index(n), e)
				n++
			}
		}
		return bson.ArrayOf(b.Finish()), nil
	}
	return v, nil
}
