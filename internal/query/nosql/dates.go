package nosql

import (
	"math"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// timeLayout is how functions write instants: UTC, with seven decimal digits.
const timeLayout = "2006-01-02T15:04:05.0000000Z"

// ticksPerSecond are 100 nanoseconds each; they are counted from 1970.
const ticksPerSecond = 10_000_000

func formatTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeLayout) }

func init() {
	now := func(f func(t time.Time) bson.Value) func(*env, []bson.Value) (bson.Value, error) {
		return func(env *env, _ []bson.Value) (bson.Value, error) { return f(env.now), nil }
	}
	asText := func(t time.Time) bson.Value { return text(t.UTC().Format(timeLayout)) }
	millis := func(t time.Time) bson.Value { return bson.Int(t.UnixMilli()) }
	ticksOf := func(t time.Time) bson.Value { return bson.Int(ticks(t)) }
	for _, suffix := range []string{"", "STATIC"} {
		register("GETCURRENTDATETIME"+suffix, 0, 0, now(asText))
		register("GETCURRENTTIMESTAMP"+suffix, 0, 0, now(millis))
		register("GETCURRENTTICKS"+suffix, 0, 0, now(ticksOf))
	}
	from := func(name string, f func(t time.Time) bson.Value) {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value {
			t, ok := instant(args[0])
			if !ok {
				return bson.Value{}
			}
			return f(t)
		})
	}
	from("DATETIMETOTICKS", ticksOf)
	from("DATETIMETOTIMESTAMP", millis)
	to := func(name string, f func(n int64) time.Time) {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value {
			n, ok := integer(args[0])
			if !ok {
				return bson.Value{}
			}
			if t := f(n).UTC(); t.Year() >= 1 && t.Year() <= 9999 {
				return text(t.Format(timeLayout))
			}
			return bson.Value{}
		})
	}
	to("TICKSTODATETIME", fromTicks)
	to("TIMESTAMPTODATETIME", time.UnixMilli)
	for name, part := range map[string]string{"YEAR": "year", "MONTH": "month", "DAY": "day"} {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value { return datePart([]bson.Value{text(part), args[0]}) })
	}
	register("NOW", 0, 2, func(env *env, args []bson.Value) (bson.Value, error) {
		switch len(args) {
		case 0:
			return asText(env.now), nil
		case 1:
			return bson.Value{}, failed("NOW takes no arguments, or a date part and a number.")
		}
		return dateAdd([]bson.Value{args[0], args[1], asText(env.now)}), nil
	})
	register("AGO", 2, 2, func(env *env, args []bson.Value) (bson.Value, error) {
		n, ok := integer(args[1])
		if !ok {
			return bson.Value{}, nil
		}
		return dateAdd([]bson.Value{args[0], bson.Int(-n), asText(env.now)}), nil
	})
	registerPure("DATETIMEADD", 3, 3, dateAdd)
	registerPure("DATETIMEDIFF", 3, 3, dateDiff)
	registerPure("DATETIMEPART", 2, 2, datePart)
	registerPure("DATETIMEBIN", 2, 4, dateBin)
	registerPure("DATETIMEFROMPARTS", 3, 7, dateFromParts)
	registerPure("DATETIMEFORMAT", 2, 2, dateFormat)
}

func ticks(t time.Time) int64 {
	return t.Unix()*ticksPerSecond + int64(t.Nanosecond())/100
}

func fromTicks(n int64) time.Time {
	return time.Unix(n/ticksPerSecond, n%ticksPerSecond*100)
}

// layouts are the forms of ISO 8601 that functions read.
var layouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02",
}

func instant(v bson.Value) (time.Time, bool) {
	if v.Type == bson.TypeDate {
		return time.UnixMilli(v.Date()).UTC(), true
	}
	if !isText(v) {
		return time.Time{}, false
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, v.Str()); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// unit is a part of a date, by any of its names; those of fixed length have
// one.
type unit struct {
	name   string
	length time.Duration
	months int
}

var units = func() map[string]unit {
	m := map[string]unit{}
	for _, u := range []struct {
		unit
		names string
	}{
		{unit{"year", 0, 12}, "year yyyy yy"}, {unit{"month", 0, 1}, "month mm m"}, {unit{"day", 24 * time.Hour, 0}, "day dd d"},
		{unit{"hour", time.Hour, 0}, "hour hh"}, {unit{"minute", time.Minute, 0}, "minute mi n"}, {unit{"second", time.Second, 0}, "second ss s"},
		{unit{"millisecond", time.Millisecond, 0}, "millisecond ms"}, {unit{"microsecond", time.Microsecond, 0}, "microsecond mcs"},
		{unit{"nanosecond", time.Nanosecond, 0}, "nanosecond ns"}, {unit{"week", 7 * 24 * time.Hour, 0}, "week wk ww"},
	} {
		for name := range strings.FieldsSeq(u.names) {
			m[name] = u.unit
		}
	}
	return m
}()

func unitOf(v bson.Value) (unit, bool) {
	if !isText(v) {
		return unit{}, false
	}
	u, ok := units[strings.ToLower(v.Str())]
	return u, ok
}

func dateAdd(args []bson.Value) bson.Value {
	u, ok1 := unitOf(args[0])
	n, ok2 := integer(args[1])
	t, ok3 := instant(args[2])
	if !ok1 || !ok2 || !ok3 || u.name == "week" {
		return bson.Value{}
	}
	if u.months > 0 {
		if n < -120000 || n > 120000 {
			return bson.Value{}
		}
		t = addMonths(t, int(n)*u.months)
	} else {
		if u.length > 0 && (n > int64(1<<62)/int64(u.length) || n < -int64(1<<62)/int64(u.length)) {
			return bson.Value{}
		}
		t = t.Add(time.Duration(n) * u.length)
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return bson.Value{}
	}
	return text(t.Format(timeLayout))
}

// addMonths keeps to the last day of a month that is too short.
func addMonths(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

// dateDiff counts the boundaries of a unit between two instants.
func dateDiff(args []bson.Value) bson.Value {
	u, ok1 := unitOf(args[0])
	a, ok2 := instant(args[1])
	b, ok3 := instant(args[2])
	if !ok1 || !ok2 || !ok3 || u.name == "week" {
		return bson.Value{}
	}
	switch u.name {
	case "year":
		return bson.Int(int64(b.Year() - a.Year()))
	case "month":
		return bson.Int(int64((b.Year()-a.Year())*12 + int(b.Month()) - int(a.Month())))
	}
	if u.length >= time.Second {
		length := int64(u.length / time.Second)
		return bson.Int(floorDiv(b.Unix(), length) - floorDiv(a.Unix(), length))
	}
	// Units below the second: the whole seconds and the rest, separately.
	per := int64(time.Second / u.length)
	return bson.Int((b.Unix()-a.Unix())*per + int64(b.Nanosecond())/int64(u.length) - int64(a.Nanosecond())/int64(u.length))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func datePart(args []bson.Value) bson.Value {
	u, ok1 := unitOf(args[0])
	t, ok2 := instant(args[1])
	if !ok1 || !ok2 {
		return bson.Value{}
	}
	n := 0
	switch u.name {
	case "year":
		n = t.Year()
	case "month":
		n = int(t.Month())
	case "week":
		_, n = t.ISOWeek()
	case "day":
		n = t.Day()
	case "hour":
		n = t.Hour()
	case "minute":
		n = t.Minute()
	case "second":
		n = t.Second()
	default:
		n = t.Nanosecond() / int(u.length)
	}
	return bson.Int(int64(n))
}

// dateBin rounds down to a multiple of a unit counted from an origin, 1970
// if none is given.
func dateBin(args []bson.Value) bson.Value {
	t, ok1 := instant(args[0])
	u, ok2 := unitOf(args[1])
	size, origin := int64(1), time.Unix(0, 0).UTC()
	ok3, ok4 := true, true
	if len(args) > 2 {
		size, ok3 = integer(args[2])
	}
	if len(args) > 3 {
		origin, ok4 = instant(args[3])
	}
	if !ok1 || !ok2 || !ok3 || !ok4 || size <= 0 {
		return bson.Value{}
	}
	// In months, or in ticks; a nanosecond is less than one.
	length := max(int64(u.months), int64(u.length/100), 1)
	if size > math.MaxInt64/2/length {
		return bson.Value{} // longer than from the first date to the last
	}
	step := size * length
	if u.months > 0 {
		months := int64((t.Year()-origin.Year())*12 + int(t.Month()) - int(origin.Month()))
		t = addMonths(origin, int(floorDiv(months, step)*step))
	} else {
		if u.length == time.Nanosecond {
			step = max(1, size/100)
		}
		t = fromTicks(ticks(origin) + floorDiv(ticks(t)-ticks(origin), step)*step).UTC()
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return bson.Value{}
	}
	return text(t.Format(timeLayout))
}

func dateFromParts(args []bson.Value) bson.Value {
	parts := [7]int64{}
	for i, a := range args {
		n, ok := integer(a)
		if !ok {
			return bson.Value{}
		}
		parts[i] = n
	}
	limits := [7][2]int64{{1, 9999}, {1, 12}, {1, 31}, {0, 23}, {0, 59}, {0, 59}, {0, 9_999_999}}
	for i, l := range limits {
		if parts[i] < l[0] || parts[i] > l[1] {
			return bson.Value{}
		}
	}
	t := time.Date(int(parts[0]), time.Month(parts[1]), int(parts[2]), int(parts[3]), int(parts[4]), int(parts[5]), int(parts[6])*100, time.UTC)
	if t.Day() != int(parts[2]) {
		return bson.Value{}
	}
	return text(t.Format(timeLayout))
}

// dateFormats are the specifiers of DateTimeFormat, the longer first.
var dateFormats = []struct{ specifier, layout string }{
	{"yyyy", "2006"}, {"fffffff", "0000000"}, {"ffffff", "000000"}, {"fffff", "00000"}, {"ffff", "0000"}, {"MMMM", "January"}, {"dddd", "Monday"},
	{"fff", "000"}, {"MMM", "Jan"}, {"ddd", "Mon"}, {"yy", "06"}, {"MM", "01"}, {"dd", "02"}, {"HH", "15"}, {"hh", "03"}, {"mm", "04"}, {"ss", "05"},
	{"ff", "00"}, {"tt", "PM"}, {"f", "0"}, {"h", "3"},
}

func dateFormat(args []bson.Value) bson.Value {
	t, ok := instant(args[0])
	if !ok || !isText(args[1]) {
		return bson.Value{}
	}
	var out strings.Builder
	for f := args[1].Str(); f != ""; {
		n := 0
		for _, s := range dateFormats {
			if strings.HasPrefix(f, s.specifier) {
				n = len(s.specifier)
				if s.specifier[0] == 'f' {
					out.WriteString(t.Format("." + s.layout)[1:])
				} else {
					out.WriteString(t.Format(s.layout))
				}
				break
			}
		}
		if n == 0 {
			n = 1
			out.WriteByte(f[0])
		}
		f = f[n:]
	}
	return text(out.String())
}
