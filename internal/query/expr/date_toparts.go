package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateToParts", parseDateToParts) }

var dateToPartsParams = []string{"date", "timezone", "iso8601"}

func parseDateToParts(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40524), "$dateToParts only supports an object as its argument")
	}
	args, err := p.named(arg.Doc(), dateToPartsParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(40520), "Unrecognized argument to $dateToParts: %s", field)
	})
	if err == nil && args[0] == nil {
		err = mongoerr.New(mongoerr.Code(40522), "Missing 'date' parameter to $dateToParts")
	}
	return &checkedCall{recordCall{name, dateToPartsParams, evalDateToParts, args}, zoneCheck(1)}, err
}

var (
	datePartNames = []string{"year", "month", "day", "hour", "minute", "second", "millisecond"}
	isoPartNames  = []string{"isoWeekYear", "isoWeek", "isoDayOfWeek", "hour", "minute", "second", "millisecond"}
)

func evalDateToParts(env *Env, args []Expr) (bson.Value, error) {
	v, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	z, null, err := zoneArgument(env, args[1])
	if err != nil || null {
		return bson.Null, err
	}
	iso, err := evalOr(env, args[2], bson.False)
	if err != nil || iso.IsNullish() {
		return bson.Null, err
	}
	if iso.Type != bson.TypeBool {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40521), "iso8601 must evaluate to a bool, found %s", iso.Type)
	}
	if v.IsNullish() {
		return bson.Null, nil
	}
	ms, ok := dateMillis(v)
	if !ok {
		return bson.Value{}, notADate(v)
	}
	m := z.local(ms)
	names := datePartNames
	year, month, day := dateOf(m.days)
	if iso.Bool() {
		names = isoPartNames
		year, month = isoWeekOf(m.days)
		day = isoWeekdayOf(m.days)
	}
	mark := env.mark()
	for _, n := range []int64{year, month, day, m.hour(), m.minute(), m.second(), m.millisecond()} {
		env.push(env.Int32(int32(n)))
	}
	v, err = env.object(names, env.since(mark))
	env.release(mark)
	return v, err
}
