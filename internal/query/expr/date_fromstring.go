package expr

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateFromString", parseDateFromString) }

var dateFromStringParams = []string{"dateString", "format", "timezone", "onError", "onNull"}

func parseDateFromString(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40540),
			"$dateFromString only supports an object as an argument, found: %s", arg.Type)
	}
	args, err := p.named(arg.Doc(), dateFromStringParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(40541), "Unrecognized argument to $dateFromString: %s", field)
	})
	if err == nil && args[0] == nil {
		err = mongoerr.New(mongoerr.Code(40542), "Missing 'dateString' parameter to $dateFromString")
	}
	check := func(env *Env, args []Expr) error {
		if c, ok := args[1].(*constant); ok {
			if _, err := formatArgument(env, name, 40684, c, inputSpecifiers); err != nil {
				return err
			}
		}
		return checkZone(env, args[2])
	}
	return &checkedCall{recordCall{name, dateFromStringParams, evalDateFromString, args}, check}, err
}

func evalDateFromString(env *Env, args []Expr) (bson.Value, error) {
	v, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	format, err := formatArgument(env, "$dateFromString", 40684, args[1], inputSpecifiers)
	if err != nil {
		return bson.Value{}, err
	}
	z, null, err := zoneArgument(env, args[2])
	if err != nil {
		return bson.Value{}, err
	}
	if v.IsNullish() {
		return evalOr(env, args[4], bson.Null)
	}
	var ms int64
	switch {
	case v.Type != bson.TypeString:
		err = mongoerr.New(mongoerr.ConversionFailure,
			"$dateFromString requires that 'dateString' be a string, found: %s with value %s", v.Type, text(v))
	case null || args[1] != nil && format.IsNullish():
		return bson.Null, nil
	case args[1] == nil:
		ms, err = parseDate(v.Str(), z)
	default:
		ms, err = parseDateAs(v.Str(), format.Str(), z)
	}
	var e *mongoerr.Error
	if args[3] != nil && errors.As(err, &e) && e.Code == mongoerr.ConversionFailure {
		return args[3].Eval(env)
	}
	return env.Date(ms), err
}
