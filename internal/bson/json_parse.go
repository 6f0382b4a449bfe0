package bson

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads one document in Extended JSON, canonical, relaxed or mixed.
// It also takes what the shell prints and people type: names without quotes,
// single quotes, trailing commas, /regex/i, and ObjectId("…"), ISODate("…"),
// NumberLong(…) and their like. A number without point and exponent is an int
// where it fits, else a long, else a double. {$regex: …} without more stays a
// document: it is a query operator.
func ParseJSON(text string) (Doc, error) {
	v, err := ParseJSONValue(text)
	if err != nil {
		return nil, err
	}
	if v.Type != TypeDocument {
		return nil, fmt.Errorf("extended JSON: expected a document, found a value of type %s", v.Type)
	}
	return v.Doc(), nil
}

// ParseJSONValue is ParseJSON for a value of any type. Errors: *SyntaxError.
func ParseJSONValue(text string) (Value, error) {
	p := jsonParser{text: text}
	v, err := p.value(1)
	if err != nil {
		return Value{}, err
	}
	if p.space(); p.at < len(text) {
		return Value{}, p.fail("text after the value")
	}
	return v, nil
}

// MustParse is ParseJSON for texts known to be right: tests and constants. It
// panics where they are not.
func MustParse(text string) Doc {
	d, err := ParseJSON(text)
	if err != nil {
		panic(err)
	}
	return d
}

// MustParseValue is MustParse for a value of any type.
func MustParseValue(text string) Value {
	v, err := ParseJSONValue(text)
	if err != nil {
		panic(err)
	}
	return v
}

type jsonParser struct {
	text string
	at   int
}

// SyntaxError says where a text stops being Extended JSON, in bytes from its beginning, and why.
type SyntaxError struct {
	At     int
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("extended JSON at byte %d: %s", e.At, e.Reason)
}

func (p *jsonParser) fail(format string, args ...any) error {
	return &SyntaxError{At: p.at, Reason: fmt.Sprintf(format, args...)}
}

func (p *jsonParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// peek is the next byte that is no space, or 0 at the end.
func (p *jsonParser) peek() byte {
	if p.space(); p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *jsonParser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *jsonParser) expect(c byte) error {
	if !p.take(c) {
		return p.fail("expected %q", c)
	}
	return nil
}

func (p *jsonParser) value(level int) (Value, error) {
	if level > MaxMessageDepth {
		return Value{}, p.fail("more than %d levels", MaxMessageDepth)
	}
	switch c := p.peek(); {
	case c == '{':
		d, err := p.object(level)
		if err != nil {
			return Value{}, err
		}
		return p.typed(d)
	case c == '[':
		return p.array(level)
	case c == '"' || c == '\'':
		s, err := p.quoted()
		return String(s), err
	case c == '/':
		return p.regex()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return p.number()
	case isNameByte(c):
		return p.word(level)
	}
	return Value{}, p.fail("expected a value")
}

func (p *jsonParser) object(level int) (Doc, error) {
	var b Builder
	b.Reset(nil)
	p.at++ // {
	for !p.take('}') {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		v, err := p.value(level + 1)
		if err != nil {
			return nil, err
		}
		b.Value(name, v)
		if !p.take(',') && p.peek() != '}' {
			return nil, p.fail("expected ',' or '}'")
		}
	}
	return b.Finish(), nil
}

func (p *jsonParser) array(level int) (Value, error) {
	var b Builder
	b.Reset(nil)
	p.at++ // [
	for i := 0; !p.take(']'); i++ {
		v, err := p.value(level + 1)
		if err != nil {
			return Value{}, err
		}
		b.Value(Index(i), v)
		if !p.take(',') && p.peek() != ']' {
			return Value{}, p.fail("expected ',' or ']'")
		}
	}
	return ArrayOf(b.Finish()), nil
}

func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= utf8.RuneSelf
}

// name reads the name of a field, quoted or bare (dots and dashes may be in a
// bare one).
func (p *jsonParser) name() (string, error) {
	if c := p.peek(); c == '"' || c == '\'' {
		s, err := p.quoted()
		if strings.IndexByte(s, 0) >= 0 {
			return "", p.fail("a field name contains a zero byte")
		}
		return s, err
	}
	start := p.at
	for p.at < len(p.text) && (isNameByte(p.text[p.at]) || p.text[p.at] == '.' || p.text[p.at] == '-') {
		p.at++
	}
	if p.at == start {
		return "", p.fail("expected a field name")
	}
	return p.text[start:p.at], nil
}

func (p *jsonParser) quoted() (string, error) {
	quote := p.text[p.at]
	p.at++
	start := p.at
	if end := strings.IndexByte(p.text[start:], quote); end >= 0 && strings.IndexByte(p.text[start:start+end], '\\') < 0 {
		p.at += end + 1
		return p.text[start : start+end], nil
	}
	var s []byte
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch c {
		case quote:
			return string(s), nil
		case '\\':
			var err error
			if s, err = p.escape(s); err != nil {
				return "", err
			}
		default:
			s = append(s, c)
		}
	}
	return "", p.fail("unterminated string")
}

// escape reads what follows a backslash.
func (p *jsonParser) escape(s []byte) ([]byte, error) {
	if p.at == len(p.text) {
		return nil, p.fail("unterminated string")
	}
	c := p.text[p.at]
	p.at++
	switch c {
	case '"', '\'', '\\', '/':
		return append(s, c), nil
	case 'u':
		r, err := p.hex(4)
		if err != nil {
			return nil, err
		}
		if r >= 0xd800 && r < 0xdc00 && strings.HasPrefix(p.text[p.at:], `\u`) {
			p.at += 2
			low, err := p.hex(4)
			if err != nil {
				return nil, err
			}
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		}
		return utf8.AppendRune(s, r), nil
	case 'x':
		r, err := p.hex(2)
		return append(s, byte(r)), err
	}
	if i := strings.IndexByte("btnfr", c); i >= 0 {
		return append(s, "\b\t\n\f\r"[i]), nil
	}
	return nil, p.fail("unknown escape \\%c", c)
}

func (p *jsonParser) hex(n int) (rune, error) {
	if p.at+n > len(p.text) {
		return 0, p.fail("incomplete escape")
	}
	u, err := strconv.ParseUint(p.text[p.at:p.at+n], 16, 32)
	if err != nil {
		return 0, p.fail("escape with a digit that is not hexadecimal")
	}
	p.at += n
	return rune(u), nil
}

func (p *jsonParser) number() (Value, error) {
	start := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.eE0123456789", p.text[p.at]) >= 0 {
		p.at++
	}
	s := p.text[start:p.at]
	if (s == "-" || s == "+") && strings.HasPrefix(p.text[p.at:], "Infinity") {
		p.at += len("Infinity")
		sign := 1
		if s == "-" {
			sign = -1
		}
		return Double(math.Inf(sign)), nil
	}
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return Int(i), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return Value{}, p.fail("%q is not a number", s)
	}
	return Double(f), nil
}

func (p *jsonParser) regex() (Value, error) {
	p.at++
	start := p.at
	for p.at < len(p.text) && p.text[p.at] != '/' {
		if p.text[p.at] == '\\' {
			p.at++
		}
		p.at++
	}
	if p.at >= len(p.text) {
		return Value{}, p.fail("unterminated regular expression")
	}
	pattern := p.text[start:p.at]
	p.at++
	start = p.at
	for p.at < len(p.text) && p.text[p.at] >= 'a' && p.text[p.at] <= 'z' {
		p.at++
	}
	return p.makeRegex(pattern, p.text[start:p.at])
}

func (p *jsonParser) makeRegex(pattern, options string) (Value, error) {
	if strings.IndexByte(pattern, 0) >= 0 || strings.IndexByte(options, 0) >= 0 {
		return Value{}, p.fail("a regular expression contains a zero byte")
	}
	return Regex(pattern, options), nil
}
