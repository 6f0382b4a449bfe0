package expr

import "strings"

// parseDateAs reads the text of a date that has a format; checkDateFormat has
// accepted the format.
func parseDateAs(s, format string, z zone) (ms int64, err error) {
	d := newParsedDate(s)
	p := formatParser{d: d, digitReader: digitReader{rest: s}}
	for i := 0; i < len(format); i++ {
		if p.rest == "" {
			p.missing(format[i:])
			break
		}
		if format[i] != '%' || format[i+1] == '%' {
			if p.rest[0] != format[i] {
				d.problem(p.at(), "Format literal not found")
			}
			p.rest = p.rest[1:]
			if format[i] == '%' {
				i++
			}
			continue
		}
		i++
		p.take(format[i])
	}
	if p.rest != "" {
		d.problem(p.at(), "Trailing data")
	}
	if d.isoYear != unset || d.isoWeek != unset || d.isoDay != unset {
		p.takeISO()
	}
	d.check(len(s))
	return d.millis(z)
}

// formatParser reads the text of a date by a format.
type formatParser struct {
	digitReader
	d *parsedDate
}

func (p *formatParser) at() int { return len(p.d.text) - len(p.rest) }

// missing notes that the text ends before the format does.
func (p *formatParser) missing(format string) {
	if format != "" {
		p.d.problem(p.at(), "Not enough data available to satisfy format")
	}
}

// part reads a number of at most max digits.
func (p *formatParser) part(part *int64, max int, what string) {
	at := p.at()
	if c := p.rest[0]; c < '0' || c > '9' {
		p.d.problem(at, "Unexpected data found.")
	}
	n := p.number(max)
	if n == unset {
		p.d.problem(at, what+" could not be found")
		return
	}
	*part = n
}

func (p *formatParser) take(specifier byte) {
	d := p.d
	switch specifier {
	case 'Y':
		p.part(&d.year, 4, "A four digit year")
	case 'm':
		p.part(&d.month, 2, "A two digit month")
	case 'd':
		p.part(&d.day, 2, "A two digit day")
	case 'H':
		p.part(&d.hour, 2, "A two digit hour")
		p.midnight()
	case 'M':
		p.part(&d.minute, 2, "A two digit minute")
		p.midnight()
	case 'S':
		p.part(&d.second, 2, "A two digit second")
		p.midnight()
	case 'L':
		p.takeMillis()
	case 'j':
		p.takeDayOfYear()
	case 'G':
		p.part(&d.isoYear, 4, "A four digit ISO year")
	case 'V':
		p.part(&d.isoWeek, 2, "A two digit ISO week")
	case 'u':
		p.part(&d.isoDay, 1, "A single digit ISO day of week")
	case 'b', 'B':
		p.takeMonth()
	case 'z':
		p.takeZone()
	case 'Z':
		p.takeMinutes()
	}
}

// midnight sets to zero the parts of the time that a format leaves out once it
// has one of them.
func (p *formatParser) midnight() {
	for _, part := range [...]*int64{&p.d.hour, &p.d.minute, &p.d.second} {
		if *part == unset {
			*part = 0
		}
	}
}

func (p *formatParser) takeMillis() {
	const digits = 3
	n := int64(unset)
	p.part(&n, digits, "A three digit millisecond")
	if n == unset {
		return
	}
	for i := p.digits; i < microDigits; i++ {
		n *= 10
	}
	p.d.micros = n
	p.midnight()
}

// takeDayOfYear counts the days of a year from 0, as the server does.
func (p *formatParser) takeDayOfYear() {
	if p.d.year == unset {
		p.d.problem(p.at(), "A 'day of year' can only come after a year has been found")
	}
	n := int64(unset)
	p.part(&n, 3, "A three digit day-of-year")
	if n == unset || p.d.year == unset {
		return
	}
	p.d.year, p.d.month, p.d.day = dateOf(daysOf(p.d.year, 1, n+1))
}

func (p *formatParser) takeMonth() {
	at := p.at()
	month, ok := monthNumbers[p.word()]
	if !ok {
		p.d.problem(at, "A textual month could not be found")
		return
	}
	p.d.month = month
}

// zoneCharacters are those that the text of an offset or a zone is made of.
const zoneCharacters = "+-:/_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// offsetCharacters follow the sign of an offset.
const offsetCharacters = "0123456789:"

func (p *formatParser) takeZone() {
	at := p.at()
	p.rest = strings.TrimLeft(p.rest, " \t")
	characters, from := zoneCharacters, 0
	if strings.HasPrefix(p.rest, "+") || strings.HasPrefix(p.rest, "-") {
		characters, from = offsetCharacters, 1
	}
	end := from
	for end < len(p.rest) && strings.IndexByte(characters, p.rest[end]) >= 0 {
		end++
	}
	if end == from {
		p.d.problem(at, "The timezone could not be found in the database")
		return
	}
	name := p.rest[:end]
	p.rest = p.rest[end:]
	p.d.takeZone(at, name)
}

// takeMinutes reads an offset in minutes, with its sign.
func (p *formatParser) takeMinutes() {
	const maxDigits = 6
	at := p.at()
	sign := p.rest[0]
	if sign != '+' && sign != '-' || len(p.rest) == 1 || p.rest[1] < '0' || p.rest[1] > '9' {
		p.d.problem(at, "Invalid timezone offset in minutes")
		return
	}
	n := p.number(maxDigits) * 60
	if sign == '-' {
		n = -n
	}
	p.d.setZone(at, offsetZone, n, "")
}

// takeISO makes the date of year, week and day of the week.
func (p *formatParser) takeISO() {
	d := p.d
	if d.year != unset || d.month != unset || d.day != unset {
		d.problem(len(d.text), "Mixing of ISO dates with natural dates is not allowed")
		return
	}
	if d.isoYear == unset {
		return // it is incomplete
	}
	week, day := d.isoWeek, d.isoDay
	if week == unset {
		week = 1
	}
	if day == unset {
		day = 1
	}
	d.year, d.month, d.day = dateOf(daysOfISOWeek(d.isoYear, week, day))
}
