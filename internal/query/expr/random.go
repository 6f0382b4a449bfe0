package expr

import (
	"math/rand/v2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$rand", func(p *parser, name string, arg bson.Value) (Expr, error) {
		if arg.Type != bson.TypeDocument && arg.Type != bson.TypeArray {
			return nil, notAnObject(name)
		}
		if !arg.Doc().IsEmpty() {
			return nil, mongoerr.New(mongoerr.Code(3040501), "$rand does not currently accept arguments")
		}
		return &random{}, nil
	})
}

// random is {$rand: {}}: a double in [0, 1).
type random struct{}

func (*random) Eval(env *Env) (bson.Value, error) { return env.Double(rand.Float64()), nil }
func (*random) walk(func(*Expr))                  {}
func (r *random) reduce(*Env) (Expr, error)       { return r, nil }

func (*random) serialize() bson.Value { return wrap("$rand", bson.Document(bson.Empty)) }
