package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateFromParts", parseDateFromParts) }

// The arguments of $dateFromParts, by their place in dateFromPartsParams.
const (
	partYear = iota
	partMonth
	partDay
	partISOYear
	partISOWeek
	partISODay
	partHour
	partMinute
	partSecond
	partMilli
	partZone
)

var dateFromPartsParams = []string{"year", "month", "day", "isoWeekYear", "isoWeek", "isoDayOfWeek",
	"hour", "minute", "second", "millisecond", "timezone"}

func parseDateFromParts(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(40519), "$dateFromParts only supports an object as its argument")
	}
	args, err := p.named(arg.Doc(), dateFromPartsParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(40518), "Unrecognized argument to $dateFromParts: %s", field)
	})
	if err != nil {
		return nil, err
	}
	iso := args[partISOYear] != nil || args[partISOWeek] != nil || args[partISODay] != nil
	switch {
	case args[partYear] == nil && args[partISOYear] == nil:
		return nil, mongoerr.New(mongoerr.Code(40516), "$dateFromParts requires either 'year' or 'isoWeekYear' to be present")
	case args[partYear] != nil && iso:
		return nil, mongoerr.New(mongoerr.Code(40489), "$dateFromParts does not allow mixing natural dates with ISO dates")
	case args[partISOYear] != nil && (args[partMonth] != nil || args[partDay] != nil):
		return nil, mongoerr.New(mongoerr.Code(40525), "$dateFromParts does not allow mixing ISO dates with natural dates")
	}
	return &checkedCall{recordCall{name, dateFromPartsParams, evalDateFromParts, args}, zoneCheck(partZone)}, nil
}

// Years that dates are made of, and other parts but seconds and milliseconds.
const (
	minYear, maxYear = 1, 9999
	minPart, maxPart = -1 << 15, 1<<15 - 1
)

func evalDateFromParts(env *Env, args []Expr) (bson.Value, error) {
	var parts [partZone]int64
	some := false // one of them is null
	for _, at := range [...]int{partHour, partMinute, partSecond, partMilli} {
		null, err := datePart(env, args, at, &parts)
		if err != nil {
			return bson.Value{}, err
		}
		some = some || null
	}
	z, null, err := zoneArgument(env, args[partZone])
	if err != nil {
		return bson.Value{}, err
	}
	some = some || null
	natural := args[partYear] != nil
	first := partISOYear
	if natural {
		first = partYear
	}
	for at := first; at < first+3; at++ {
		null, err := datePart(env, args, at, &parts)
		if err != nil {
			return bson.Value{}, err
		}
		some = some || null
	}
	if some {
		return bson.Null, nil
	}
	if year := parts[first]; year < minYear || year > maxYear {
		code := mongoerr.Code(40523)
		if !natural {
			code = 31095
		}
		return bson.Value{}, mongoerr.New(code, "'%s' must evaluate to an integer in the range %d to %d, found %d",
			dateFromPartsParams[first], minYear, maxYear, year)
	}
	days := daysOfISOWeek(parts[partISOYear], parts[partISOWeek], parts[partISODay])
	if natural {
		days = daysOf(parts[partYear], parts[partMonth], parts[partDay])
	}
	millis, ok := multiplyLongs(parts[partSecond], 1000)
	if ok {
		millis, ok = addLongs(millis, (parts[partHour]*60+parts[partMinute])*60*1000)
	}
	if ok {
		millis, ok = addLongs(millis, parts[partMilli])
	}
	// The server counts in microseconds, which milliseconds of 2^54 are too many of.
	if _, fits := multiplyLongs(parts[partMilli], 1000); !fits {
		ok = false
	}
	var ms int64
	if ok {
		ms, ok = z.date(days, millis)
	}
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.DurationOverflow,
			"Overflow casting from a lower-precision duration to a higher-precision duration")
	}
	return env.Date(ms), nil
}

// datePart evaluates one part into parts; null is true if it is null.
func datePart(env *Env, args []Expr, at int, parts *[partZone]int64) (null bool, err error) {
	if args[at] == nil {
		if at < partHour {
			parts[at] = 1
		}
		return false, nil
	}
	v, err := args[at].Eval(env)
	if err != nil || v.IsNullish() {
		return true, err
	}
	name := dateFromPartsParams[at]
	n, ok := bson.ExactInt64(v)
	if !ok {
		return false, mongoerr.New(mongoerr.Code(40515), "'%s' must evaluate to an integer, found %s with value %s",
			name, v.Type, text(v))
	}
	bounded := at != partYear && at != partISOYear && at != partSecond && at != partMilli
	if bounded && (n < minPart || n > maxPart) {
		return false, mongoerr.New(mongoerr.Code(31034),
			"'%s' must evaluate to a value in the range [%d, %d]; value %d is not in range", name, minPart, maxPart, n)
	}
	parts[at] = n
	return false, nil
}
