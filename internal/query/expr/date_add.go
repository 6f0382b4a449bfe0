package expr

import (
	"math"
	"math/bits"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerDateAdd("$dateAdd", 1)
	registerDateAdd("$dateSubtract", -1)
}

var dateAddParams = []string{"startDate", "unit", "amount", "timezone"}

// registerDateAdd registers an operator that adds sign·amount units to a date.
func registerDateAdd(name string, sign int64) {
	eval := func(env *Env, args []Expr) (bson.Value, error) { return evalDateAdd(env, name, sign, args) }
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		if arg.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.Code(5166400), "%s expects an object as its argument", name)
		}
		args, err := p.named(arg.Doc(), dateAddParams, func(field string) error {
			return mongoerr.New(mongoerr.Code(5166401),
				"Unrecognized argument to %s: %s. Expected arguments are startDate, unit, amount, and optionally timezone.",
				name, field)
		})
		if err == nil && (args[0] == nil || args[1] == nil || args[2] == nil) {
			err = mongoerr.New(mongoerr.Code(5166402), "%s requires startDate, unit, and amount to be present", name)
		}
		return &checkedCall{recordCall{name, dateAddParams, eval, args}, unitCheck(name, 1, 3, 0)}, err
	})
}

func evalDateAdd(env *Env, name string, sign int64, args []Expr) (bson.Value, error) {
	start, err := args[0].Eval(env)
	if err != nil || start.IsNullish() {
		return bson.Null, err
	}
	unit, null, err := unitArgument(env, name, args[1])
	if err != nil || null {
		return bson.Null, err
	}
	v, err := args[2].Eval(env)
	if err != nil || v.IsNullish() {
		return bson.Null, err
	}
	z, null, err := zoneArgument(env, args[3])
	if err != nil || null {
		return bson.Null, err
	}
	ms, ok := dateMillis(start)
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.Code(5166403),
			"%s requires startDate to be convertible to a date", name)
	}
	amount, ok := bson.ExactInt64(v)
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.Code(5166405), "%s expects integer amount of time units", name)
	}
	if amount == math.MinInt64 && sign < 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(6045000), "invalid %s 'amount' parameter value: %d", name, amount)
	}
	ms, err = addToDate(ms, unit, sign*amount, z)
	return env.Date(ms), err
}

// The most that may be added to a date: the span of all dates, in days and years.
const (
	maxAddedDays  = math.MaxUint64/millisPerDay + 1
	maxAddedYears = maxAddedDays/365 + 1
)

// maxAdded is the largest amount of a unit that may be added or subtracted.
func maxAdded(unit dateUnit) int64 {
	switch {
	case unit == unitMillisecond:
		return math.MaxInt64
	case unit.isFixed():
		return maxAddedDays * (millisPerDay / unitMillis[unit])
	case unit == unitDay:
		return maxAddedDays
	case unit == unitWeek:
		return maxAddedDays / daysPerWeek
	}
	return maxAddedYears * (monthsPerYear / unitMonths[unit])
}

// addToDate adds units to a date. Hours and less are lengths of time; of days
// and more, the local time of the day stays as it is, and in a month that is
// shorter it is the last day.
func addToDate(ms int64, unit dateUnit, amount int64, z zone) (int64, error) {
	if limit := maxAdded(unit); amount < -limit || amount > limit {
		return 0, mongoerr.New(mongoerr.Code(5976500), "invalid dateAdd 'amount' parameter value: %d %s", amount, unit)
	}
	var ok bool
	switch {
	case unit.isFixed() || unit < unitMonth && z.location == nil:
		ms, ok = addProduct(ms, amount, unitMillis[unit])
	case unit < unitMonth:
		m := z.local(ms)
		ms, ok = z.date(m.days+amount*(unitMillis[unit]/millisPerDay), m.millis)
	default:
		m := z.local(ms)
		year, month, day := dateOf(m.days)
		more, rest := floorDiv(month-1+amount*unitMonths[unit], monthsPerYear)
		year, month = year+more, rest+1
		ms, ok = z.date(daysOf(year, month, min(day, daysInMonth(year, month))), m.millis)
	}
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(5166406), "dateAdd overflowed")
	}
	return ms, nil
}

// addProduct is a + n·length, of which the product need not be a long; length
// is positive.
func addProduct(a, n, length int64) (sum int64, ok bool) {
	hi, lo := bits.Mul64(magnitude(n), uint64(length))
	if hi != 0 {
		return 0, false
	}
	switch {
	case n >= 0 && lo > uint64(math.MaxInt64)-uint64(a):
		return 0, false
	case n < 0 && lo > uint64(a)+1<<63:
		return 0, false
	case n >= 0:
		return int64(uint64(a) + lo), true
	}
	return int64(uint64(a) - lo), true
}

// magnitude is |n|, also for the least long.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
