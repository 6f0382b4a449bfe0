package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateTrunc", parseDateTrunc) }

var dateTruncParams = []string{"date", "unit", "binSize", "timezone", "startOfWeek"}

func parseDateTrunc(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(5439007), "$dateTrunc only supports an object as its argument")
	}
	args, err := p.named(arg.Doc(), dateTruncParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(5439008),
			"Unrecognized argument to $dateTrunc: %s. Expected arguments are date, unit, and optionally, binSize, timezone, startOfWeek",
			field)
	})
	if err != nil {
		return nil, err
	}
	for i, code := range []mongoerr.Code{5439009, 5439010} {
		if args[i] == nil {
			return nil, mongoerr.New(code, "Missing '%s' parameter to $dateTrunc", dateTruncParams[i])
		}
	}
	units := unitCheck(name, 1, 3, 4)
	check := func(env *Env, args []Expr) error {
		if _, ok := args[2].(*constant); ok {
			if _, _, err := binSizeArgument(env, args[2]); err != nil {
				return err
			}
		}
		return units(env, args)
	}
	return &checkedCall{recordCall{name, dateTruncParams, evalDateTrunc, args}, check}, nil
}

// binSizeArgument evaluates the optional number of units in a bin.
func binSizeArgument(env *Env, e Expr) (size int64, null bool, err error) {
	if e == nil {
		return 1, false, nil
	}
	v, err := e.Eval(env)
	if err != nil || v.IsNullish() {
		return 0, true, err
	}
	size, ok := bson.ExactInt64(v)
	if !ok {
		return 0, false, mongoerr.New(mongoerr.Code(5439017),
			"$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '%s' of type %s", text(v), v.Type)
	}
	if size <= 0 {
		return 0, false, mongoerr.New(mongoerr.Code(5439018),
			"$dateTrunc requires 'binSize' to be greater than 0, but got value %d", size)
	}
	return size, false, nil
}

func evalDateTrunc(env *Env, args []Expr) (bson.Value, error) {
	const name = "$dateTrunc"
	v, err := args[0].Eval(env)
	if err != nil || v.IsNullish() {
		return bson.Null, err
	}
	size, null, err := binSizeArgument(env, args[2])
	if err != nil || null {
		return bson.Null, err
	}
	unit, null, err := unitArgument(env, name, args[1])
	if err != nil || null {
		return bson.Null, err
	}
	weekStart, null, err := weekStartOf(env, name, unit, args[4])
	if err != nil || null {
		return bson.Null, err
	}
	z, null, err := zoneArgument(env, args[3])
	if err != nil || null {
		return bson.Null, err
	}
	ms, err := dateArgument(name, "date", v)
	if err != nil {
		return bson.Value{}, err
	}
	ms, err = truncateDate(ms, unit, size, z, weekStart)
	return env.Date(ms), err
}

// maxBin is the size of a bin of days or longer units.
const maxBin = 100_000_000_000

// referenceDay is the first of January 2000: a bin begins there, and the others
// follow from it.
const referenceDay = 10957

// truncateDate is the beginning of the bin that a date is in. Bins are of size
// units; of weeks, one begins with the first such week of 2000.
func truncateDate(ms int64, unit dateUnit, size int64, z zone, weekStart int64) (int64, error) {
	if unit.isFixed() {
		return truncateFixed(ms, unit, size, z)
	}
	if size > maxBin {
		return 0, mongoerr.New(mongoerr.Code(5439006), "dateTrunc unsupported binSize value")
	}
	days := z.local(ms).days
	switch unit {
	case unitDay, unitWeek:
		first := int64(referenceDay)
		if unit == unitWeek {
			_, ahead := floorDiv(weekStart-weekdayOf(first), daysPerWeek)
			first += ahead
			size *= daysPerWeek
		}
		_, rest := floorDiv(days-first, size)
		days -= rest
	default:
		first := monthOf(referenceDay)
		month := monthOf(days)
		_, rest := floorDiv(month-first, size*unitMonths[unit])
		days = daysOf(0, month-rest+1, 1)
	}
	begin, ok := z.date(days, 0)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(5166406), "dateAdd overflowed")
	}
	return begin, nil
}

// truncateFixed is truncateDate for units of a fixed length.
func truncateFixed(ms int64, unit dateUnit, size int64, z zone) (int64, error) {
	length, ok := multiplyLongs(size, unitMillis[unit])
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(5439002), "dateTrunc unsupported binSize value")
	}
	reference, ok := z.date(referenceDay, 0)
	since, overflow := subtractLongs(ms, reference)
	if !ok || overflow {
		return 0, mongoerr.New(mongoerr.Code(5439000), "dateTrunc overflowed")
	}
	_, rest := floorDiv(since, length)
	begin, overflow := subtractLongs(ms, rest)
	if overflow {
		return 0, mongoerr.New(mongoerr.Code(5439001), "dateTrunc overflowed")
	}
	return begin, nil
}
