package expr

import "strings"

// dateRules are tried at each offset; the first of those that match the longest
// piece wins.
var dateRules = []dateRule{
	newDateRule(`{hour12}{space}?{meridian}`, takeTime12(1)),
	newDateRule(`{hour12}[:.]{minutelz}{space}?{meridian}`, takeTime12(2)),
	newDateRule(`{hour12}[:.]{minute}[:.]{secondlz}{space}?{meridian}`, takeTime12(3)),
	newDateRule(`t{hour24}|t?{hour24}[:.]{minute}(?:[:.]{second}{frac}?)?`, takeTime24),
	newDateRule(`t?{hour24}[:.]{minute}(?:[:.]{secondlz}{frac}?)?{space}?(?:{correction}|{zone})`, takeTime24),
	newDateRule(`t?{hour24lz}{minutelz}`, takeDigitsTime),
	newDateRule(`t?{hour24lz}{minutelz}{secondlz}(?:{space}?(?:{correction}|{zone}))?`, takeDigitsTime),
	newDateRule(`{year4}`, takeYear),
	newDateRule(`{month}/{day}(?:/{year})?`, takeAmerican),
	newDateRule(`[+-]?{year4}-{monthlz}-{daylz}`, takeISO),
	newDateRule(`{year4}/{monthlz}/{daylz}/?|{year4}/{month}/{day}`, takeYearFirst),
	newDateRule(`{year2}-{monthlz}-{daylz}|{year}-{month}-{day}`, takeYearFirst),
	newDateRule(`{year4}-{month}`, takeYearFirst),
	newDateRule(`{day}[.\t-]{month}[.-]{year4}|{day}[.\t]{month}\.{year2}`, takeDayFirst),
	newDateRule(`{year4}{monthlz}{daylz}`, takeDigitsDate),
	newDateRule(`{year4}{monthlz}{daylz}t?{hour24lz}{minutelz}{secondlz}`, takeDigitsDateTime),
	newDateRule(`{year4}{monthlz}{daylz}t{hour24}:{minutelz}:{secondlz}`, takeDigitsDateTime),
	newDateRule(`{year4}:{monthlz}:{daylz} {hour24lz}:{minutelz}:{secondlz}`, takeDigitsDateTime),
	newDateRule(`{year4}-{monthlz}-{daylz}t{hour24lz}:{minutelz}:{secondlz}{frac}(?:{correction})?`, takeSOAP),
	newDateRule(`{year4}\.?{dayofyear}`, takeDayOfYear),
	newDateRule(`{year4}-?w{week}(?:-?[0-7])?`, takeISOWeek),
	newDateRule(`{day}[ \t.-]*{monthtext}[ \t.-]*{year}`, takeTextual(dayPart, monthPart, yearPart)),
	newDateRule(`{day}[ .\t-]*{monthtext}`, takeTextual(dayPart, monthPart)),
	newDateRule(`{monthtext}[ .\t-]*{year4}`, takeTextual(monthPart, yearPart)),
	newDateRule(`{year4}[ .\t-]*{monthtext}`, takeTextual(yearPart, monthPart)),
	newDateRule(`{monthtext}[ .\t-]*{day}[,.stndrh\t ]+{year}`, takeTextual(monthPart, dayPart, yearPart)),
	newDateRule(`{monthtext}[ .\t-]*{day}[,.stndrh\t ]*`, takeTextual(monthPart, dayPart)),
	newDateRule(`{monthabbr}-{daylz}-{year}`, takeTextual(monthPart, dayPart, yearPart)),
	newDateRule(`{year}-{monthabbr}-{daylz}`, takeTextual(yearPart, monthPart, dayPart)),
	newDateRule(`{day}/{monthabbr}/{year4}:{hour24lz}:{minutelz}:{secondlz}{space}{correction}`, takeLog),
	newDateRule(`{monthtext}`, takeTextual(monthPart)),
	newDateRule(`{monthtext}[ .\t-]*{day}[,.stndrh\t ]*t?{hour24}[:.]{minute}(?:[:.]{second})?`, takeTextualTime),
	newDateRule(`@-?[0-9]+`, takeUnixTime),
	newDateRule(`(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:day)?`, takeWeekday),
	newDateRule(`noon|midnight|today|now|yesterday|tomorrow`, takeWord),
	newDateRule(`{correction}|{zone}`, (*parsedDate).takeZone),
}

var (
	monthNumbers   = map[string]int64{}
	weekdayNumbers = map[string]int64{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
)

func init() {
	for i, name := range monthNames {
		name = strings.ToLower(name)
		monthNumbers[name], monthNumbers[name[:3]] = int64(i+1), int64(i+1)
	}
	monthNumbers["sept"] = 9
	for i, roman := range []string{"i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"} {
		monthNumbers[roman] = int64(i + 1)
	}
}

// takeTime12 reads a time with a.m. or p.m. of that many parts.
func takeTime12(parts int) func(d *parsedDate, at int, s string) {
	return func(d *parsedDate, at int, s string) {
		r := digitReader{rest: s}
		t := [3]int64{}
		for i := range parts {
			t[i] = r.number(2)
		}
		pm := strings.HasPrefix(strings.TrimLeft(strings.ToLower(r.rest), " \t\u00a0\u202f"), "p")
		t[0] %= 12
		if pm {
			t[0] += 12
		}
		d.setTime(at, t[0], t[1], t[2], 0)
	}
}

// takeTime24 reads a time of up to four parts and the zone that follows it.
func takeTime24(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	t := [3]int64{r.number(2), 0, 0}
	micros := int64(0)
	for i := 1; i < len(t) && startsPart(r.rest, ":."); i++ {
		t[i] = r.number(2)
		if i == 2 && startsPart(r.rest, ".,") {
			micros = r.fraction()
		}
	}
	d.setTime(at, t[0], t[1], t[2], micros)
	d.takeRest(at, s, r.rest)
}

// startsPart reports whether s continues with a separator and a digit.
func startsPart(s, separators string) bool {
	return len(s) > 1 && strings.IndexByte(separators, s[0]) >= 0 && s[1] >= '0' && s[1] <= '9'
}

// takeRest reads the zone after a time.
func (d *parsedDate) takeRest(at int, s, rest string) {
	if zone := strings.TrimLeft(rest, " \t\u00a0\u202f"); zone != "" {
		d.takeZone(at+len(s)-len(zone), zone)
	}
}

// takeDigitsTime reads hhmm or hhmmss; four digits are a year if there is a
// time already.
func takeDigitsTime(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	if len(s) == 4 && d.haveTime {
		d.year = r.number(4)
		return
	}
	hour, minute, second := r.number(2), r.number(2), int64(0)
	if len(r.rest) >= 2 && r.rest[0] >= '0' && r.rest[0] <= '9' {
		second = r.number(2)
	}
	d.setTime(at, hour, minute, second, 0)
	d.takeRest(at, s, r.rest)
}

// takeYear reads a year, which is not a date by itself.
func takeYear(d *parsedDate, _ int, s string) {
	r := digitReader{rest: s}
	d.year = r.number(4)
}

func takeAmerican(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	month, day := r.number(2), r.number(2)
	year := r.number(4)
	if year != unset {
		year = twoDigitYear(year, r.digits)
	}
	d.setDate(at, year, month, day)
}

// takeISO reads a year with an optional sign, month and day.
func takeISO(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	year, month, day := r.number(4), r.number(2), r.number(2)
	if s[0] == '-' {
		year = -year
	}
	d.setDate(at, year, month, day)
}

// takeYearFirst reads year, month and perhaps day, the first of the month without.
func takeYearFirst(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	year := r.number(4)
	year = twoDigitYear(year, r.digits)
	month, day := r.number(2), r.number(2)
	if day == unset {
		day = 1
	}
	d.setDate(at, year, month, day)
}

func takeDayFirst(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	day, month, year := r.number(2), r.number(2), r.number(4)
	d.setDate(at, twoDigitYear(year, r.digits), month, day)
}

func takeDigitsDate(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	d.setDate(at, r.number(4), r.number(2), r.number(2))
}

func takeDigitsDateTime(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	d.setDate(at, r.number(4), r.number(2), r.number(2))
	d.setTime(at, r.number(2), r.number(2), r.number(2), 0)
}

func takeSOAP(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	d.setDate(at, r.number(4), r.number(2), r.number(2))
	hour, minute, second := r.number(2), r.number(2), r.number(2)
	d.setTime(at, hour, minute, second, r.fraction())
	d.takeRest(at, s, r.rest)
}

// takeDayOfYear reads a year and the number of a day in it.
func takeDayOfYear(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	year, n := r.number(4), r.number(3)
	_, month, day := dateOf(daysOf(year, 1, n))
	d.setDate(at, year, month, day)
}

// takeISOWeek reads a year, a week and perhaps a day of it, Monday without.
func takeISOWeek(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	year, week, weekday := r.number(4), r.number(2), r.number(1)
	if weekday == unset {
		weekday = 1
	}
	y, m, day := dateOf(daysOfISOWeek(year, week, weekday))
	d.setDate(at, y, m, day)
}

// textualPart is a part of a date whose month is a word.
type textualPart int

const (
	dayPart textualPart = iota
	monthPart
	yearPart
)

// takeTextual reads the parts in that order; the day is the first of the month
// if there is only a year.
func takeTextual(parts ...textualPart) func(d *parsedDate, at int, s string) {
	return func(d *parsedDate, at int, s string) {
		r := digitReader{rest: s}
		year, month, day := d.year, int64(unset), d.day
		hasDay, hasYear := false, false
		for _, p := range parts {
			switch p {
			case dayPart:
				day, hasDay = r.number(2), true
				for _, suffix := range []string{"st", "nd", "rd", "th"} {
					r.rest = strings.TrimPrefix(r.rest, suffix)
				}
			case monthPart:
				month = monthNumbers[r.word()]
			case yearPart:
				year, hasYear = r.number(4), true
				year = twoDigitYear(year, r.digits)
			}
		}
		if hasYear && !hasDay {
			day = 1
		}
		d.setDate(at, year, month, day)
	}
}

// takeTextualTime reads month, day and a time.
func takeTextualTime(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	month, day := monthNumbers[r.word()], r.number(2)
	d.setDate(at, unset, month, day)
	takeTime24(d, at, r.rest)
}

// takeLog reads the form of web servers' logs: 10/Oct/2000:13:55:36 -0700.
func takeLog(d *parsedDate, at int, s string) {
	r := digitReader{rest: s}
	day := r.number(2)
	month := monthNumbers[r.word()]
	d.setDate(at, r.number(4), month, day)
	d.setTime(at, r.number(2), r.number(2), r.number(2), 0)
	d.takeRest(at, s, r.rest)
}

// takeUnixTime reads seconds since 1970.
func takeUnixTime(d *parsedDate, at int, s string) {
	const maxDigits = 15
	r := digitReader{rest: s}
	n := r.number(maxDigits)
	if r.rest != "" {
		d.problem(at, "Number out of range")
		return
	}
	if s[1] == '-' {
		n = -n
	}
	days, ofDay := floorDiv(n, secondsPerDay)
	year, month, day := dateOf(days)
	d.setDate(at, year, month, day)
	d.setTime(at, ofDay/3600, ofDay/60%60, ofDay%60, 0)
	d.setZone(at, offsetZone, 0, "")
}

func takeWeekday(d *parsedDate, at int, s string) {
	d.weekday = weekdayNumbers[strings.ToLower(s[:3])]
}

// takeWord reads a time of the day that is a word; a day that is one needs the
// clock, which the server does not give.
func takeWord(d *parsedDate, at int, s string) {
	switch strings.ToLower(s) {
	case "noon":
		d.hour, d.minute, d.second, d.micros = 12, 0, 0, 0
	case "midnight":
		d.hour, d.minute, d.second, d.micros = 0, 0, 0, 0
	}
}
