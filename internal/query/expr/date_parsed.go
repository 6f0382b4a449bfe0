package expr

import (
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// unset is the value of a part of a date that its text does not have.
const unset = -1 << 40

// parsedDate is what the text of a date says, part by part.
type parsedDate struct {
	text     string
	problems []string

	year, month, day     int64
	hour, minute, second int64
	micros               int64
	isoYear, isoWeek     int64
	isoDay               int64
	weekday              int64 // the day on or after the date that has that name
	offset               int64 // seconds east of UTC
	abbreviation         string
	zone                 zoneKind
	haveDate, haveTime   bool
}

// zoneKind says how a text names its time zone.
type zoneKind int

const (
	noZone zoneKind = iota
	offsetZone
	namedZone
)

func newParsedDate(text string) *parsedDate {
	return &parsedDate{
		text: text, year: unset, month: unset, day: unset, hour: unset, minute: unset, second: unset,
		isoYear: unset, isoWeek: unset, isoDay: unset, weekday: unset,
	}
}

// maxProblems bounds the problems in a message.
const maxProblems = 64

// problem notes what is wrong at an offset of the text.
func (d *parsedDate) problem(at int, reason string) {
	if len(d.problems) >= maxProblems {
		return
	}
	c := byte(0)
	if at >= 0 && at < len(d.text) {
		c = d.text[at]
	}
	d.problems = append(d.problems, fmt.Sprintf("; %d: %s '%c'", at, reason, c))
}

// setTime sets the time of the day; a second one is a problem.
func (d *parsedDate) setTime(at int, hour, minute, second, micros int64) {
	if d.haveTime {
		d.problem(at, "Double time specification")
		return
	}
	d.haveTime = true
	d.hour, d.minute, d.second, d.micros = hour, minute, second, micros
}

// setDate sets the date; a second one is a problem.
func (d *parsedDate) setDate(at int, year, month, day int64) {
	if d.haveDate {
		d.problem(at, "Double date specification")
		return
	}
	d.haveDate = true
	if year != unset {
		d.year = year
	}
	if month != unset {
		d.month = month
	}
	if day != unset {
		d.day = day
	}
}

// twoDigitYear is the year that a number of at most two digits means.
func twoDigitYear(year int64, digits int) int64 {
	switch {
	case digits > 2 || year >= 100:
		return year
	case year < 70:
		return year + 2000
	}
	return year + 1900
}

// check finds dates and times that do not exist; at is the offset of the message.
func (d *parsedDate) check(at int) {
	if d.hour != unset && d.minute != unset && d.second != unset &&
		(d.hour < 0 || d.hour > 23 || d.minute < 0 || d.minute > 59 || d.second < 0 || d.second > 59) {
		d.problem(at, "The parsed time was invalid")
	}
	if d.year != unset && d.month != unset && d.day != unset &&
		(d.month < 1 || d.month > monthsPerYear || d.day < 1 || d.day > daysInMonth(d.year, d.month)) {
		d.problem(at, "The parsed date was invalid")
	}
}

// millis is the date; z is the zone for a text that names none.
func (d *parsedDate) millis(z zone) (ms int64, err error) {
	if len(d.problems) > 0 {
		return 0, mongoerr.New(mongoerr.ConversionFailure,
			"Error parsing date string '%s'%s", d.text, strings.Join(d.problems, ""))
	}
	if d.hour == unset && d.minute == unset && d.second == unset {
		d.hour, d.minute, d.second, d.micros = 0, 0, 0, 0
	}
	for _, part := range [...]int64{d.year, d.month, d.day, d.hour, d.minute, d.second} {
		if part == unset {
			return 0, mongoerr.New(mongoerr.ConversionFailure,
				"an incomplete date/time string has been found, with elements missing: \"%s\"", d.text)
		}
	}
	if !z.isUTC() {
		switch d.zone {
		case offsetZone:
			return 0, mongoerr.New(mongoerr.ConversionFailure,
				"you cannot pass in a date/time string with GMT offset together with a timezone argument")
		case namedZone:
			return 0, mongoerr.New(mongoerr.ConversionFailure,
				"you cannot pass in a date/time string with time zone information ('%s') together with a timezone argument",
				d.abbreviation)
		}
	}
	if d.zone != noZone {
		z = zone{offset: d.offset}
	}
	days := daysOf(d.year, d.month, d.day)
	if d.weekday != unset {
		_, ahead := floorDiv(d.weekday-weekdayOf(days), daysPerWeek)
		days += ahead
	}
	millis := ((d.hour*60+d.minute)*60+d.second)*1000 + d.micros/1000
	ms, ok := z.date(days, millis)
	if !ok {
		return 0, mongoerr.New(mongoerr.ConversionFailure, "Error parsing date string '%s'", d.text)
	}
	return ms, nil
}
