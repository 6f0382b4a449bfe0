package expr

import (
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$dateToString", parseDateToString) }

// The formats of dates if none is given: in UTC and in other zones.
const (
	isoFormat      = "%Y-%m-%dT%H:%M:%S.%LZ"
	isoLocalFormat = "%Y-%m-%dT%H:%M:%S.%L"
)

var monthNames = [...]string{"January", "February", "March", "April", "May", "June",
	"July", "August", "September", "October", "November", "December"}

// appendISODate writes a date as 2024-01-31T23:59:59.999Z.
func appendISODate(b []byte, ms int64) ([]byte, error) { return appendDate(b, isoFormat, ms, zone{}) }

// appendDate writes a date by a format that checkDateFormat has accepted.
func appendDate(b []byte, format string, ms int64, z zone) ([]byte, error) {
	m := z.local(ms)
	year, month, day := dateOf(m.days)
	var err error
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b = append(b, format[i])
			continue
		}
		i++
		switch format[i] {
		case '%':
			b = append(b, '%')
		case 'Y':
			b, err = appendYear(b, year)
		case 'm':
			b = appendPadded(b, month, 2)
		case 'd':
			b = appendPadded(b, day, 2)
		case 'b':
			b = append(b, monthNames[month-1][:3]...)
		case 'B':
			b = append(b, monthNames[month-1]...)
		default:
			b, err = m.appendPart(b, format[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendPart writes the parts that need no month.
func (m moment) appendPart(b []byte, specifier byte) ([]byte, error) {
	switch specifier {
	case 'H':
		return appendPadded(b, m.hour(), 2), nil
	case 'M':
		return appendPadded(b, m.minute(), 2), nil
	case 'S':
		return appendPadded(b, m.second(), 2), nil
	case 'L':
		return appendPadded(b, m.millisecond(), 3), nil
	case 'j':
		return appendPadded(b, m.dayOfYear(), 3), nil
	case 'w':
		return appendPadded(b, weekdayOf(m.days)+1, 1), nil
	case 'u':
		return appendPadded(b, isoWeekdayOf(m.days), 1), nil
	case 'U':
		return appendPadded(b, m.week(), 2), nil
	case 'V':
		_, week := isoWeekOf(m.days)
		return appendPadded(b, week, 2), nil
	case 'G':
		year, _ := isoWeekOf(m.days)
		return appendYear(b, year)
	case 'Z':
		return strconv.AppendInt(b, m.offset/60, 10), nil
	}
	// z
	minutes := m.offset / 60
	sign := byte('+')
	if minutes < 0 {
		sign, minutes = '-', -minutes
	}
	b = appendPadded(append(b, sign), minutes/60, 2)
	return appendPadded(b, minutes%60, 2), nil
}

func appendYear(b []byte, year int64) ([]byte, error) {
	if year < 0 || year > 9999 {
		return nil, mongoerr.New(mongoerr.Code(18537),
			"Could not convert date to string: date component was outside the supported range of 0-9999: %d", year)
	}
	return appendPadded(b, year, 4), nil
}

// appendPadded writes n with zeros in front.
func appendPadded(b []byte, n int64, width int) []byte {
	for least := int64(10); width > 1; width-- {
		if n < least {
			for ; width > 1; width-- {
				b = append(b, '0')
			}
			break
		}
		least *= 10
	}
	return strconv.AppendInt(b, n, 10)
}

// The specifiers that formats of $dateToString and $dateFromString may have.
const (
	outputSpecifiers = "%YmdHMSLjwuUVGZzbB"
	inputSpecifiers  = "%YmdHMSLjuVGZzbB"
)

// checkDateFormat checks a format for its specifiers.
func checkDateFormat(format, specifiers string) error {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		if i == len(format) {
			return mongoerr.New(mongoerr.Code(18535), "Unmatched '%%' at end of format string")
		}
		if !containsByte(specifiers, format[i]) {
			return mongoerr.New(mongoerr.Code(18536), "Invalid format character '%%%c' in format string", format[i])
		}
	}
	return nil
}

func containsByte(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}

var dateToStringParams = []string{"date", "format", "timezone", "onNull"}

func parseDateToString(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(18629), "$dateToString only supports an object as its argument")
	}
	args, err := p.named(arg.Doc(), dateToStringParams, func(field string) error {
		return mongoerr.New(mongoerr.Code(18534), "Unrecognized argument to $dateToString: %s", field)
	})
	if err == nil && args[0] == nil {
		err = mongoerr.New(mongoerr.Code(18628), "Missing 'date' parameter to $dateToString")
	}
	return &checkedCall{recordCall{name, dateToStringParams, evalDateToString, args}, zoneCheck(2)}, err
}

func evalDateToString(env *Env, args []Expr) (bson.Value, error) {
	v, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	format, err := formatArgument(env, "$dateToString", 18533, args[1], outputSpecifiers)
	if err != nil {
		return bson.Value{}, err
	}
	z, null, err := zoneArgument(env, args[2])
	switch {
	case err != nil:
		return bson.Value{}, err
	case v.IsNullish():
		return evalOr(env, args[3], bson.Null)
	case null || args[1] != nil && format.IsNullish():
		return bson.Null, nil
	}
	ms, ok := dateMillis(v)
	if !ok {
		return bson.Value{}, notADate(v)
	}
	layout := isoFormat
	if format.Type == bson.TypeString {
		layout = format.Str()
	} else if !z.isUTC() {
		layout = isoLocalFormat
	}
	var buf [64]byte
	b, err := appendDate(buf[:0], layout, ms, z)
	if err != nil {
		return bson.Value{}, err
	}
	out, body, err := env.newString(len(b))
	copy(body, b)
	return out, err
}

// formatArgument evaluates and checks an optional format.
func formatArgument(env *Env, name string, code mongoerr.Code, e Expr, specifiers string) (bson.Value, error) {
	v, err := evalOr(env, e, bson.Value{})
	if err != nil || v.IsNullish() {
		return v, err
	}
	if v.Type != bson.TypeString {
		return v, mongoerr.New(code, "%s requires that 'format' be a string, found: %s with value %s", name, v.Type, text(v))
	}
	return v, checkDateFormat(v.Str(), specifiers)
}
