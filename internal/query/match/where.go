package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Where is {$where: Code}: it matches if the function returns true, called with the
// document as `this`.
type Where struct {
	Code     string
	function *javascript.Function
	session  *javascript.Session
}

func (n *Where) kind() kind           { return kindWhere }
func (n *Where) text(b *bson.Builder) { b.Value("$where", bson.Code(n.Code)) }

func (n *Where) match(s subject, env *Env) (bool, error) {
	return n.session.Test(env.expr().Context(), n.function, s.v.Doc())
}

// parseWhere compiles the function. If the server runs no JavaScript, it
// answers as mongod does when JavaScript is disabled.
func parseWhere(p *parser, name string, v bson.Value, at level) (Node, error) {
	if err := p.topLevelOnly(name, FeatureJavaScript, at); err != nil {
		return nil, err
	}
	if v.Type != bson.TypeString && v.Type != bson.TypeCode {
		return nil, badValue("$where got bad type")
	}
	session := p.opts.Expr.JavaScript
	if session == nil {
		return nil, mongoerr.New(mongoerr.Code(6108304), "no globalScriptEngine in $where parsing")
	}
	f, err := session.Engine.Compile(v.Str())
	if err != nil {
		return nil, err
	}
	p.hasExpr = true
	return &Where{v.Str(), f, session}, nil
}
