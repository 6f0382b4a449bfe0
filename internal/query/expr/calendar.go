package expr

import "math/bits"

// The calendar: the proleptic Gregorian one, on days and milliseconds counted
// from 1970, for all dates that a long of milliseconds can hold.

const (
	secondsPerDay  = 24 * 60 * 60
	millisPerDay   = secondsPerDay * 1000
	daysPerWeek    = 7
	monthsPerYear  = 12
	daysPer400Year = 146097
)

// floorDiv divides, rounding down, and gives the remainder, which is never
// negative; b is positive.
func floorDiv(a, b int64) (quotient, remainder int64) {
	q, r := a/b, a%b
	if r < 0 {
		return q - 1, r + b
	}
	return q, r
}

// toMillis is days and milliseconds together; it reports an overflow.
func toMillis(days, millis int64) (ms int64, ok bool) {
	hi, lo := bits.Mul64(uint64(max(days, -days)), millisPerDay)
	if hi != 0 || lo > 1<<63 {
		return 0, false
	}
	ms = int64(lo)
	if days < 0 {
		ms = -ms
	} else if lo == 1<<63 {
		return 0, false
	}
	return addLongs(ms, millis)
}

// daysOf is the day of a date. Month and day may be out of their ranges.
func daysOf(year, month, day int64) int64 {
	more, m := floorDiv(month-1, monthsPerYear)
	year += more
	// Years here begin in March, so that the leap day is the last one.
	if m += 1; m <= 2 {
		year--
		m += monthsPerYear
	}
	era, y := floorDiv(year, 400)
	ofYear := (153*(m-3)+2)/5 + day - 1
	ofEra := y*365 + y/4 - y/100 + ofYear
	return era*daysPer400Year + ofEra - 719468
}

// dateOf is the date of a day.
func dateOf(days int64) (year, month, day int64) {
	era, d := floorDiv(days+719468, daysPer400Year)
	y := (d - d/1460 + d/36524 - d/146096) / 365
	ofYear := d - (365*y + y/4 - y/100)
	m := (5*ofYear + 2) / 153
	day = ofYear - (153*m+2)/5 + 1
	year, month = era*400+y, m+3
	if month > monthsPerYear {
		year, month = year+1, month-monthsPerYear
	}
	return year, month, day
}

// weekdayOf is 0 on Sundays.
func weekdayOf(days int64) int64 {
	_, w := floorDiv(days+4, daysPerWeek)
	return w
}

// isoWeekdayOf is 1 on Mondays and 7 on Sundays.
func isoWeekdayOf(days int64) int64 {
	_, w := floorDiv(days+3, daysPerWeek)
	return w + 1
}

// isoWeekOf is the week that a day is in, and the year the week belongs to.
func isoWeekOf(days int64) (year, week int64) {
	thursday := days - isoWeekdayOf(days) + 4
	year, _, _ = dateOf(thursday)
	return year, (thursday-daysOf(year, 1, 1))/daysPerWeek + 1
}

// daysOfISOWeek is the day of a date given by week and weekday, which may be
// out of their ranges.
func daysOfISOWeek(year, week, weekday int64) int64 {
	fourth := daysOf(year, 1, 4) // it is always in week 1
	return fourth - isoWeekdayOf(fourth) + (week-1)*daysPerWeek + weekday
}

// daysInMonth is the length of a month.
func daysInMonth(year, month int64) int64 { return daysOf(year, month+1, 1) - daysOf(year, month, 1) }

// moment is a date in a time zone.
type moment struct {
	days   int64 // of the local date
	millis int64 // of the local day
	offset int64 // of the zone, in seconds east of UTC
}

func (m moment) hour() int64        { return m.millis / (60 * 60 * 1000) }
func (m moment) minute() int64      { return m.millis / (60 * 1000) % 60 }
func (m moment) second() int64      { return m.millis / 1000 % 60 }
func (m moment) millisecond() int64 { return m.millis % 1000 }

// dayOfYear is 1 on the first of January.
func (m moment) dayOfYear() int64 {
	year, _, _ := dateOf(m.days)
	return m.days - daysOf(year, 1, 1) + 1
}

// week counts from 0; week 1 begins with the year's first Sunday.
func (m moment) week() int64 { return (m.dayOfYear() + 6 - weekdayOf(m.days)) / daysPerWeek }
