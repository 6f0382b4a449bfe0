package pcre

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The contents of PCRE's classes that neither engine has, or has otherwise.
const (
	horizontal = `\t\x20\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}`
	vertical   = `\n\x0b\f\r\x{85}\x{2028}\x{2029}`
	space      = `\t\n\x0b\f\r\x20`
)

// escape translates a backslash and what follows it.
func (t *translator) escape(inClass bool) error {
	if t.at+1 >= len(t.in) {
		return errors.New(`\ at end of pattern`)
	}
	c, n := utf8.DecodeRuneInString(t.in[t.at+1:])
	if !isAlnum(c) {
		t.literal(c)
		t.at += 1 + n
		return nil
	}
	switch c {
	case 'd', 'D', 'w', 'W', 'a', 'f', 'n', 'r', 't':
		t.take(2)
	case 'A', 'z', 'b', 'B':
		return t.assertion(c, inClass)
	case 's', 'S', 'h', 'H', 'v', 'V':
		t.classEscape(c, inClass)
	case 'e':
		t.at += 2
		t.out.WriteString(`\x1b`)
	case 'c':
		return t.control()
	case 'x':
		return t.hex()
	case 'Q':
		t.quoted()
	case 'E':
		t.at += 2
	case 'p', 'P':
		return t.property(inClass)
	case 'R', 'N', 'Z', 'K', 'G', 'X', 'C', 'k', 'g':
		return t.special(c, inClass)
	default:
		if c >= '0' && c <= '9' {
			return t.digits(inClass)
		}
		return errors.New(`unrecognized character follows \`)
	}
	return nil
}

// assertion translates \A \z \b \B; in a class \b is a backspace.
func (t *translator) assertion(c rune, inClass bool) error {
	if inClass {
		if c != 'b' {
			return errors.New("escape sequence is invalid in character class")
		}
		t.at += 2
		t.out.WriteString(`\x08`)
		return nil
	}
	t.take(2)
	return nil
}

func (t *translator) classEscape(c rune, inClass bool) {
	contents := map[rune]string{'s': space, 'h': horizontal, 'v': vertical}[c|0x20]
	switch {
	case c|0x20 == 's' && t.flags.unicode:
		t.take(2)
		return
	case c < 'a' && inClass:
		t.out.WriteString(complements[c])
	case c < 'a':
		t.out.WriteString("[^" + contents + "]")
	case inClass:
		t.out.WriteString(contents)
	default:
		t.out.WriteString("[" + contents + "]")
	}
	t.at += 2
}

// complements lists what the classes leave out, as ranges.
var complements = map[rune]string{
	'S': posixNot["space"],
	'H': `\x00-\x08\n-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{180d}\x{180f}-\x{1fff}\x{200b}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}`,
	'V': `\x00-\t\x0e-\x{84}\x{86}-\x{2027}\x{202a}-\x{10ffff}`,
}

// control translates \cX.
func (t *translator) control() error {
	if t.at+2 >= len(t.in) {
		return errors.New(`\c at end of pattern`)
	}
	c := t.in[t.at+2]
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	if c < ' ' || c > '~' {
		return errors.New(`\c must be followed by a printable ASCII character`)
	}
	fmt.Fprintf(&t.out, `\x%02x`, c^0x40)
	t.at += 3
	return nil
}

// hex translates \x, \xh, \xhh and \x{h…}.
func (t *translator) hex() error {
	i := t.at + 2
	braced := i < len(t.in) && t.in[i] == '{'
	if braced {
		i++
	}
	v, digits := 0, 0
	for ; i < len(t.in) && (braced || digits < 2); i++ {
		d := strings.IndexByte("0123456789abcdef", t.in[i]|0x20)
		if d < 0 {
			break
		}
		v, digits = min(v<<4|d, utf8.MaxRune+1), digits+1
	}
	if braced {
		if digits == 0 || i >= len(t.in) || t.in[i] != '}' {
			return errors.New(`non-hex character in \x{} (closing brace missing?)`)
		}
		i++
	}
	if v > utf8.MaxRune {
		return errors.New(`character code point value in \x{} or \o{} is too large`)
	}
	fmt.Fprintf(&t.out, `\x{%x}`, v)
	t.at = i
	return nil
}

// quoted copies the text between \Q and \E as it is.
func (t *translator) quoted() {
	text, _, closed := strings.Cut(t.in[t.at+2:], `\E`)
	for _, r := range text {
		t.literal(r)
	}
	t.at += 2 + len(text)
	if closed {
		t.at += 2
	}
}

// property translates \pL, \p{Name} and \p{^Name}.
func (t *translator) property(inClass bool) error {
	rest := t.in[t.at+2:]
	if rest == "" {
		return errors.New(`malformed \P or \p sequence`)
	}
	name, length := rest[:1], 1
	if name == "{" {
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return errors.New(`malformed \P or \p sequence`)
		}
		name, length = rest[1:end], end+1
	}
	negated := t.in[t.at+1] == 'P'
	if strings.HasPrefix(name, "^") {
		negated, name = !negated, name[1:]
	}
	text, ok := property(name, negated, inClass)
	if !ok {
		return errors.New(`unknown property after \P or \p`)
	}
	t.out.WriteString(text)
	t.at += 2 + length
	return nil
}

// special translates the escapes that need the other engine, or a group.
func (t *translator) special(c rune, inClass bool) error {
	if inClass {
		return errors.New("escape sequence is invalid in character class")
	}
	switch c {
	case 'R':
		t.at += 2
		t.out.WriteString(`(?:\r\n|[` + vertical + `])`)
		return nil
	case 'N':
		t.at += 2
		t.out.WriteString(`[^\n]`)
		return nil
	case 'Z':
		t.backtrack = true
		t.at += 2
		t.out.WriteString(`(?=\n?\z)`)
		return nil
	case 'k', 'g':
		t.backtrack = true
		return t.namedReference()
	case 'X', 'G':
		t.backtrack = true
		t.take(2)
		return nil
	case 'K':
		t.resetStart()
		return nil
	}
	return fmt.Errorf(`\%c is not supported`, c)
}

// namedReference translates \k<name>, \k{name}, \k'name', \g{n}, \g{name}, \gn.
func (t *translator) namedReference() error {
	rest := t.in[t.at+2:]
	bad := errors.New(`\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number`)
	if t.in[t.at+1] == 'k' {
		bad = errors.New(`\k is not followed by a braced, angle-bracketed, or quoted name`)
	}
	if rest == "" {
		return bad
	}
	name, length := "", 0
	if i := strings.IndexByte("{<'", rest[0]); i >= 0 {
		end := strings.IndexByte(rest[1:], "}>'"[i])
		if end <= 0 {
			return bad
		}
		name, length = rest[1:1+end], end+2
	} else {
		for length < len(rest) && rest[length] >= '0' && rest[length] <= '9' {
			length++
		}
		name = rest[:length]
	}
	if name == "" {
		return bad
	}
	if back := 0; strings.HasPrefix(name, "-") {
		if _, err := fmt.Sscanf(name, "-%d", &back); err != nil || back > t.groups {
			return errors.New("reference to non-existent subpattern")
		}
		name = fmt.Sprint(t.groups - back + 1)
	}
	fmt.Fprintf(&t.out, `\k<%s>`, name)
	t.at += 2 + length
	return nil
}

// digits translates back references and octal codes.
func (t *translator) digits(inClass bool) error {
	i, v := t.at+1, 0
	for i < len(t.in) && i < t.at+4 && t.in[i] >= '0' && t.in[i] <= '9' {
		v = v*10 + int(t.in[i]-'0')
		i++
	}
	if !inClass && t.in[t.at+1] != '0' && (v < 10 || v <= strings.Count(t.in, "(")) {
		t.backtrack = true
		if v > strings.Count(t.in, "(") {
			return errors.New("reference to non-existent subpattern")
		}
		fmt.Fprintf(&t.out, `\k<%d>`, v)
		t.at = i
		return nil
	}
	code := 0
	for i = t.at + 1; i < len(t.in) && i < t.at+4 && t.in[i] >= '0' && t.in[i] <= '7'; i++ {
		code = code<<3 | int(t.in[i]-'0')
	}
	if i == t.at+1 { // \8 and \9 stand for themselves
		code = int(t.in[i])
		i++
	}
	fmt.Fprintf(&t.out, `\x{%x}`, code)
	t.at = i
	return nil
}
