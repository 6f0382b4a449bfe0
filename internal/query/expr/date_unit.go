package expr

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// dateUnit is a unit of time.
type dateUnit int

const (
	unitMillisecond dateUnit = iota
	unitSecond
	unitMinute
	unitHour
	unitDay
	unitWeek
	unitMonth
	unitQuarter
	unitYear
)

// unitNames are the names of the units, by their value.
var unitNames = [...]string{"millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"}

func (u dateUnit) String() string { return unitNames[u] }

// unitMillis is the length of the units up to the week, in milliseconds.
var unitMillis = [...]int64{1, 1000, 60 * 1000, 60 * 60 * 1000, millisPerDay, daysPerWeek * millisPerDay}

// unitMonths is the length of the units from the month on, in months.
var unitMonths = [...]int64{unitMonth: 1, unitQuarter: 3, unitYear: monthsPerYear}

// isFixed reports whether a unit has always the same length.
func (u dateUnit) isFixed() bool { return u <= unitHour }

func unitByName(name string) (u dateUnit, ok bool) {
	i := slices.Index(unitNames[:], name)
	return dateUnit(i), i >= 0
}

// IsTimeUnit reports whether unit is the name of a unit of time: "month", "day" …
func IsTimeUnit(unit string) bool {
	_, ok := unitByName(unit)
	return ok
}

// AddUnits is the date n units after ms, in UTC. Where the month has no such day, the
// result is on its last day. ok is false if the result is out of range.
func AddUnits(ms int64, unit string, n int64) (sum int64, ok bool) {
	u, ok := unitByName(unit)
	if !ok {
		return 0, false
	}
	sum, err := addToDate(ms, u, n, zone{})
	return sum, err == nil
}

// unitArgument evaluates an argument that is a unit; null is true if it is null.
func unitArgument(env *Env, name string, e Expr) (u dateUnit, null bool, err error) {
	v, err := e.Eval(env)
	switch {
	case err != nil:
		return 0, false, err
	case v.IsNullish():
		return 0, true, nil
	case v.Type != bson.TypeString:
		return 0, false, mongoerr.New(mongoerr.Code(5439013),
			"%s requires 'unit' to be a string, but got %s", name, v.Type)
	}
	if u, ok := unitByName(v.Str()); ok {
		return u, false, nil
	}
	return 0, false, mongoerr.New(mongoerr.FailedToParse, "unknown time unit value: %s", v.Str())
}

// weekStartOf is weekStartArgument for a call with that unit. Units other than
// the week ignore the day; a null matters for them, too, but not if the
// server folds the call, which its other engine does.
func weekStartOf(env *Env, name string, unit dateUnit, e Expr) (weekday int64, null bool, err error) {
	if unit == unitWeek {
		return weekStartArgument(env, name, e)
	}
	if e == nil || env.folding {
		return 0, false, nil
	}
	v, err := e.Eval(env)
	return 0, v.IsNullish(), err
}

// weekStartArgument evaluates an optional argument that is a day of the week: 0
// is Sunday, the default.
func weekStartArgument(env *Env, name string, e Expr) (weekday int64, null bool, err error) {
	if e == nil {
		return 0, false, nil
	}
	v, err := e.Eval(env)
	switch {
	case err != nil:
		return 0, false, err
	case v.IsNullish():
		return 0, true, nil
	case v.Type != bson.TypeString:
		return 0, false, mongoerr.New(mongoerr.Code(5439015),
			"%s requires 'startOfWeek' to be a string, but got %s", name, v.Type)
	}
	for i, full := range weekdayNames {
		if strings.EqualFold(v.Str(), full) || strings.EqualFold(v.Str(), full[:3]) {
			return int64(i), false, nil
		}
	}
	return 0, false, mongoerr.New(mongoerr.Code(5439016),
		"%s parameter 'startOfWeek' value cannot be recognized as a day of a week: %s", name, v.Str())
}

var weekdayNames = [...]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// unitCheck is a check of a call with a unit, a time zone and, if there is
// one, a start of the week at those places.
func unitCheck(name string, unit, zone, weekStart int) func(env *Env, args []Expr) error {
	return func(env *Env, args []Expr) error {
		u, null := dateUnit(0), true
		if c, ok := args[unit].(*constant); ok {
			var err error
			if u, null, err = unitArgument(env, name, c); err != nil {
				return err
			}
		}
		if weekStart > 0 && !null && u == unitWeek {
			if c, ok := args[weekStart].(*constant); ok {
				if _, _, err := weekStartArgument(env, name, c); err != nil {
					return err
				}
			}
		}
		return checkZone(env, args[zone])
	}
}
