package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	parse := func(p *parser, name string, arg bson.Value) (Expr, error) { return &constant{arg}, checkLength(arg) }
	register("$literal", parse)
	register("$const", parse)
}
