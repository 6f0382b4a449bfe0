package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateDiff", parseDateDiff) }

var dateDiffParams = []string{"startDate", "endDate", "unit", "timezone", "startOfWeek"}

func parseDateDiff(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(5166301), "$dateDiff only supports an object as its argument")
	}
	args, err := p.named(arg.Doc(), dateDiffParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(5166302), "Unrecognized argument to $dateDiff: %s", field)
	})
	if err != nil {
		return nil, err
	}
	for i, code := range []mongoerr.Code{5166303, 5166304, 5166305} {
		if args[i] == nil {
			return nil, mongoerr.New(code, "Missing '%s' parameter to $dateDiff", dateDiffParams[i])
		}
	}
	return &checkedCall{recordCall{name, dateDiffParams, evalDateDiff, args}, unitCheck(name, 2, 3, 4)}, nil
}

func evalDateDiff(env *Env, args []Expr) (bson.Value, error) {
	const name = "$dateDiff"
	start, err := args[0].Eval(env)
	if err != nil || start.IsNullish() {
		return bson.Null, err
	}
	end, err := args[1].Eval(env)
	if err != nil || end.IsNullish() {
		return bson.Null, err
	}
	unit, null, err := unitArgument(env, name, args[2])
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
	from, err := dateArgument(name, "startDate", start)
	if err != nil {
		return bson.Value{}, err
	}
	to, err := dateArgument(name, "endDate", end)
	if err != nil {
		return bson.Value{}, err
	}
	n, err := dateDiff(from, to, unit, z, weekStart)
	return env.Int64(n), err
}

// dateArgument is the milliseconds of an argument that must be a date.
func dateArgument(name, param string, v bson.Value) (int64, error) {
	ms, ok := dateMillis(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(5166307), "%s requires '%s' to be a date, but got %s", name, param, v.Type)
	}
	return ms, nil
}

// dateDiff counts the beginnings of a unit, in local time, after from and up to
// to; it is negative if to is the earlier one.
func dateDiff(from, to int64, unit dateUnit, z zone, weekStart int64) (int64, error) {
	switch {
	case unit == unitMillisecond:
		n, overflow := subtractLongs(to, from)
		if overflow {
			return 0, mongoerr.New(mongoerr.Code(5166308), "dateDiff overflowed")
		}
		return n, nil
	case unit.isFixed():
		// Lengths of time do not jump with the clock: the offset is that of from.
		length := unitMillis[unit]
		_, shift := floorDiv(z.local(from).offset*1000, length)
		return unitsSince(to, shift, length) - unitsSince(from, shift, length), nil
	}
	a, b := z.local(from).days, z.local(to).days
	switch unit {
	case unitDay:
		return b - a, nil
	case unitWeek:
		return weekOf(b, weekStart) - weekOf(a, weekStart), nil
	}
	n, _ := floorDiv(monthOf(b), unitMonths[unit])
	m, _ := floorDiv(monthOf(a), unitMonths[unit])
	return n - m, nil
}

func subtractLongs(a, b int64) (difference int64, overflow bool) {
	difference = a - b
	return difference, (a^b)&(a^difference) < 0
}

// unitsSince is the number of whole units from 1970 to ms+shift; shift is at
// least 0 and below the length.
func unitsSince(ms, shift, length int64) int64 {
	n, rest := floorDiv(ms, length)
	if rest+shift >= length {
		n++
	}
	return n
}

// weekOf numbers the weeks that begin on a weekday.
func weekOf(days, weekStart int64) int64 {
	n, _ := floorDiv(days+4-weekStart, daysPerWeek)
	return n
}

// monthOf numbers the months from the beginning of year 0.
func monthOf(days int64) int64 {
	year, month, _ := dateOf(days)
	return year*monthsPerYear + month - 1
}
