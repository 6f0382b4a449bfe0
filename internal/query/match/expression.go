package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// NewExpr makes {$expr: e}.
func NewExpr(e expr.Expr) *Expr { return &Expr{e} }

func (n *Expr) kind() kind           { return kindExpr }
func (n *Expr) text(b *bson.Builder) { b.Value("$expr", expr.Serialize(n.Expr)) }

func (n *Expr) match(s subject, env *Env) (bool, error) {
	e := env.expr()
	v, err := n.Expr.Eval(e.WithRoot(s.v.Doc()))
	return err == nil && v.Truthy(), err
}

func parseExpr(p *parser, name string, v bson.Value, at level) (Node, error) {
	if err := p.topLevelOnly(name, FeatureExpr, at); err != nil {
		return nil, err
	}
	var opts expr.Options
	if p.opts.Expr != nil {
		opts = *p.opts.Expr
	}
	opts.Filter = true
	e, err := expr.Parse(v, &opts)
	if err != nil {
		return nil, err
	}
	p.hasExpr = true
	return simplifyExpr(e), nil
}

// simplifyExpr decides a constant expression at once.
func simplifyExpr(e expr.Expr) Node {
	if v, ok := expr.Constant(e); ok {
		return &Always{v.Truthy()}
	}
	return NewExpr(e)
}

// topLevelOnly is the error of an operator inside an $elemMatch or where the
// caller forbade it.
func (p *parser) topLevelOnly(name string, f Feature, at level) error {
	if at == subDocument {
		return badValue("%s can only be applied to the top-level document", name)
	}
	switch {
	case p.opts.Forbid&f == 0:
		return nil
	case f == FeatureExpr:
		return mongoerr.New(mongoerr.QueryFeatureNotAllowed, "%s is not allowed in this context", name)
	}
	return badValue("%s is not allowed in this context", name)
}

// parseSampleRate makes {$expr: {$lt: [{$rand: {}}, rate]}}.
func parseSampleRate(p *parser, name string, v bson.Value, at level) (Node, error) {
	if err := p.topLevelOnly(name, 0, at); err != nil {
		return nil, err
	}
	if !v.IsNumber() {
		return nil, badValue("argument to $sampleRate must be a numeric type")
	}
	low, high := bson.CompareNumbers(v, bson.Int32(0)), bson.CompareNumbers(v, bson.Int32(1))
	switch {
	case v.IsNaN() || low < 0 || high > 0:
		return nil, badValue("numeric argument to $sampleRate must be in [0, 1]")
	case low == 0:
		return &Always{false}, nil
	case high == 0:
		return &Always{true}, nil
	}
	var b bson.Builder
	b.OpenArray("$lt").OpenDoc("0").OpenDoc("$rand").Close().Close().Value("1", v).Close()
	e, err := expr.Parse(bson.Document(b.Finish()), p.opts.Expr)
	if err != nil {
		return nil, err
	}
	p.hasExpr = true
	return NewExpr(e), nil
}
