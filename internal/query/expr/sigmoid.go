package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$sigmoid", parseSigmoid) }

// parseSigmoid parses {$sigmoid: x}, 1/(1+e^-x). Its operand is a single
// expression: an array is no list of operands.
func parseSigmoid(p *parser, name string, arg bson.Value) (Expr, error) {
	e, err := p.operand(arg)
	return &unaryCall{name, evalSigmoid, e}, err
}

func evalSigmoid(env *Env, v bson.Value) (bson.Value, error) {
	if v.IsNullish() {
		return bson.Null, nil
	}
	if !v.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "$sigmoid only supports numeric types, not %s", v.Type)
	}
	if v.Type == bson.TypeDecimal {
		d := v.Decimal().Neg()
		return env.Decimal(decimalOne.Divide(decimalOne.Add(expDecimal(d)))), nil
	}
	return env.Double(1 / (1 + expDouble(-bson.ToDouble(v)))), nil
}
