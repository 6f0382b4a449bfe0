package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerDatePart("$year", func(m moment) int64 { y, _, _ := dateOf(m.days); return y })
	registerDatePart("$month", func(m moment) int64 { _, month, _ := dateOf(m.days); return month })
	registerDatePart("$dayOfMonth", func(m moment) int64 { _, _, day := dateOf(m.days); return day })
	registerDatePart("$dayOfYear", moment.dayOfYear)
	registerDatePart("$dayOfWeek", func(m moment) int64 { return weekdayOf(m.days) + 1 })
	registerDatePart("$week", moment.week)
	registerDatePart("$hour", moment.hour)
	registerDatePart("$minute", moment.minute)
	registerDatePart("$second", moment.second)
	registerDatePart("$millisecond", moment.millisecond)
	registerDatePart("$isoWeek", func(m moment) int64 { _, week := isoWeekOf(m.days); return week })
	registerDatePart("$isoDayOfWeek", func(m moment) int64 { return isoWeekdayOf(m.days) })
	registerDatePart(isoWeekYear, func(m moment) int64 { year, _ := isoWeekOf(m.days); return year })
}

// isoWeekYear is the one of them whose result is a long.
const isoWeekYear = "$isoWeekYear"

// dateMillis is the milliseconds of a date, a timestamp or an ObjectId; ok is
// false for other types.
func dateMillis(v bson.Value) (ms int64, ok bool) {
	switch v.Type {
	case bson.TypeDate:
		return v.Date(), true
	case bson.TypeTimestamp:
		return int64(v.Timestamp()>>32) * 1000, true
	case bson.TypeObjectID:
		return bson.ObjectIDSeconds(v.ObjectID()) * 1000, true
	}
	return 0, false
}

func notADate(v bson.Value) error {
	return mongoerr.New(mongoerr.Code(16006), "can't convert from BSON type %s to Date", v.Type)
}

var datePartParams = []string{"date", "timezone"}

// registerDatePart registers an operator that takes a date, [date] or {date,
// timezone}.
func registerDatePart(name string, part func(moment) int64) {
	eval := func(env *Env, args []Expr) (bson.Value, error) {
		v, err := args[0].Eval(env)
		if err != nil || v.IsNullish() {
			return bson.Null, err
		}
		z, null, err := zoneArgument(env, args[1])
		if err != nil || null {
			return bson.Null, err
		}
		ms, ok := dateMillis(v)
		if !ok {
			return bson.Value{}, notADate(v)
		}
		n := part(z.local(ms))
		if name == isoWeekYear {
			return env.Int64(n), nil
		}
		if n >= 0 && n < int64(len(smallInts)) {
			return env.count(int(n)), nil
		}
		return env.Int32(int32(n)), nil
	}
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.datePartArguments(name, arg)
		return &checkedCall{recordCall{name, datePartParams, eval, args}, zoneCheck(1)}, err
	})
}

func (p *parser) datePartArguments(name string, arg bson.Value) ([]Expr, error) {
	switch arg.Type {
	case bson.TypeArray:
		n := arg.Doc().Len()
		if n != 1 {
			return nil, mongoerr.New(mongoerr.Code(40536),
				"%s accepts exactly one argument if given an array, but was given %d", name, n)
		}
		_, arg = arg.Doc().First()
	case bson.TypeDocument:
		if first, _ := arg.Doc().First(); len(first) > 0 && first[0] == '$' {
			break
		}
		args, err := p.named(arg.Doc(), datePartParams, func(field string) error {
			return mongoerr.New(mongoerr.Code(40535), "unrecognized option to %s: \"%s\"", name, field)
		})
		if err == nil && args[0] == nil {
			err = mongoerr.New(mongoerr.Code(40539), "missing 'date' argument to %s, provided: %s: %s", name, name, text(arg))
		}
		return args, err
	}
	date, err := p.operand(arg)
	return []Expr{date, nil}, err
}
