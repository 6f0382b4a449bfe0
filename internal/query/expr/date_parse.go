package expr

import (
	"regexp"
	"strings"
)

// Dates are written in many ways, and a text may have them in any order: "2024-02-29T12:00:00Z",
// "Feb 29 2024 12:00", "29.02.2024 noon UTC". The text is cut into the longest pieces that one of the
// rules below matches, as PHP's strtotime does, whose library the server uses.

// parseDate reads the text of a date; z is the zone for a text that names none.
func parseDate(s string, z zone) (ms int64, err error) {
	if d, ok := parseISODate(s); ok {
		return d.millis(z)
	}
	d := newParsedDate(s)
	d.scan()
	return d.millis(z)
}

// isoLength is the length of 2006-01-02T15:04:05.
const isoLength = 19

// parseISODate reads the usual form, 2006-01-02T15:04:05.999Z, quickly.
func parseISODate(s string) (d *parsedDate, ok bool) {
	if len(s) < isoLength || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return nil, false
	}
	d = newParsedDate(s)
	for _, f := range []struct {
		from, to int
		part     *int64
	}{
		{0, 4, &d.year}, {5, 7, &d.month}, {8, 10, &d.day}, {11, 13, &d.hour}, {14, 16, &d.minute}, {17, 19, &d.second},
	} {
		n := int64(0)
		for i := f.from; i < f.to; i++ {
			if s[i] < '0' || s[i] > '9' {
				return nil, false
			}
			n = n*10 + int64(s[i]-'0')
		}
		*f.part = n
	}
	rest := s[isoLength:]
	if len(rest) == 5 && rest[0] == '.' && rest[4] == 'Z' {
		r := digitReader{rest: rest[1:]}
		d.micros = r.number(3) * 1000
		if r.digits != 3 {
			return nil, false
		}
		rest = rest[4:]
	}
	switch rest {
	case "":
	case "Z":
		d.zone, d.abbreviation = namedZone, rest
	default:
		return nil, false
	}
	d.check(len(s) + 1)
	return d, len(d.problems) == 0
}

// The pieces that the rules are made of.
var datePieces = strings.NewReplacer(
	"{hour24lz}", `(?:[01][0-9]|2[0-4])`, "{hour24}", `(?:[01]?[0-9]|2[0-4])`, "{hour12}", `(?:0?[1-9]|1[0-2])`,
	"{minutelz}", `[0-5][0-9]`, "{minute}", `(?:[0-5]?[0-9])`, "{secondlz}", `(?:60|[0-5][0-9])`, "{second}", `(?:60|[0-5]?[0-9])`,
	"{meridian}", `[ap]\.?m\.?(?:[\x00\t ]|$)`, "{space}", `(?:[ \t\x{a0}\x{202f}]+)`, "{frac}", `(?:[.,][0-9]+)`,
	"{monthlz}", `(?:0[0-9]|1[0-2])`, "{month}", `(?:0?[0-9]|1[0-2])`,
	"{daylz}", `(?:0[0-9]|[1-2][0-9]|3[01])`, "{day}", `(?:[0-2]?[0-9]|3[01])(?:st|nd|rd|th)?`,
	"{year4}", `[0-9]{4}`, "{year2}", `[0-9]{2}`, "{year}", `[0-9]{1,4}`,
	"{dayofyear}", `(?:00[1-9]|0[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6])`, "{week}", `(?:0[1-9]|[1-4][0-9]|5[0-3])`,
	"{monthtext}", `(?:january|february|march|april|may|june|july|august|september|october|november|december|`+
		`jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec|i{1,3}|i[vx]|vi{0,3}|xi{0,2}|i)`,
	"{monthabbr}", `(?:jan|feb|mar|apr|may|jun|jul|aug|sept|sep|oct|nov|dec)`,
	"{correction}", `(?:gmt)?[+-]{hour24}:?{minute}?`, "{zone}", `(?:\(?[a-z]{1,6}\)?|[A-Z][a-z]+(?:[_/-][A-Za-z]+)+)`,
)

// dateRule is one way to write a date, a time or a part of one.
type dateRule struct {
	pattern *regexp.Regexp
	take    func(d *parsedDate, at int, s string)
}

func newDateRule(pattern string, take func(d *parsedDate, at int, s string)) dateRule {
	expanded := datePieces.Replace(datePieces.Replace(pattern))
	re := regexp.MustCompile(`^(?i:` + expanded + `)`)
	re.Longest()
	return dateRule{re, take}
}

// maxDateText bounds the text of a date; no valid one is nearly as long.
const maxDateText = 1 << 10

// scan cuts the text into pieces and applies the rule of each.
func (d *parsedDate) scan() {
	s := d.text
	begin, end := 0, len(s)
	for begin < end && isTrimmed(s[begin]) {
		begin++
	}
	for end > begin && isTrimmed(s[end-1]) {
		end--
	}
	if begin == end {
		d.problem(0, "Empty string")
		return
	}
	if end-begin > maxDateText {
		d.problem(begin+maxDateText, "Unexpected character")
		return
	}
	for at := begin; at < end; {
		rest := s[at:end]
		if n := ignored(rest); n > 0 {
			at += n
			continue
		}
		longest, best := 0, -1
		for i := range dateRules {
			if m := dateRules[i].pattern.FindStringIndex(rest); m != nil && m[1] > longest {
				longest, best = m[1], i
			}
		}
		if best < 0 {
			d.problem(at, "Unexpected character")
			at++
			continue
		}
		dateRules[best].take(d, at, rest[:longest])
		at += longest
	}
	d.check(len(s) + 1)
}

func isTrimmed(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// ignored is the length of what separates pieces at the start of s.
func ignored(s string) int {
	switch {
	case strings.IndexByte(" .,;\t\n\x00", s[0]) >= 0:
		return 1
	case strings.HasPrefix(s, "\u00a0"):
		return len("\u00a0")
	case strings.HasPrefix(s, "\u202f"):
		return len("\u202f")
	}
	return 0
}

// digitReader reads the numbers in a piece one after the other.
type digitReader struct {
	rest   string
	digits int // of the last number
}

// number skips to the next digit and reads at most max digits, or is unset if
// there are no more.
func (r *digitReader) number(max int) int64 {
	i := strings.IndexAny(r.rest, "0123456789")
	r.digits = 0
	if i < 0 {
		r.rest = ""
		return unset
	}
	r.rest = r.rest[i:]
	n := int64(0)
	for r.digits < max && r.digits < len(r.rest) && r.rest[r.digits] >= '0' && r.rest[r.digits] <= '9' {
		n = n*10 + int64(r.rest[r.digits]-'0')
		r.digits++
	}
	r.rest = r.rest[r.digits:]
	return n
}

// microDigits is the number of digits of a fraction of a second that count.
const microDigits = 6

// fraction reads the digits of a fraction of a second as microseconds.
func (r *digitReader) fraction() int64 {
	n := r.number(microDigits)
	if n == unset {
		return 0
	}
	for i := r.digits; i < microDigits; i++ {
		n *= 10
	}
	r.rest = strings.TrimLeft(r.rest, "0123456789")
	return n
}

// word skips to the next letter and reads letters.
func (r *digitReader) word() string {
	r.rest = strings.TrimLeftFunc(r.rest, func(c rune) bool { return !isLetter(c) })
	end := strings.IndexFunc(r.rest, func(c rune) bool { return !isLetter(c) })
	if end < 0 {
		end = len(r.rest)
	}
	w := r.rest[:end]
	r.rest = r.rest[end:]
	return strings.ToLower(w)
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
