package pcre

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The contents of PCRE2's classes that Go's regexp has not, or has otherwise.
const (
	horizontal = `\t\x20\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}`
	vertical   = `\n\x0b\f\r\x{85}\x{2028}\x{2029}`
	space      = `\t\n\x0b\f\r\x20`
)

// escape translates a backslash and what follows it, outside brackets.
func (t *translator) escape() bool {
	c, n := utf8.DecodeRuneInString(t.in[t.at+1:])
	if !isAlnum(c) {
		t.literal(c)
		t.at += 1 + n
		return true
	}
	switch c {
	case 'A', 'z', 'b', 'B', 'd', 'D', 'a', 'f', 'n', 'r', 't':
		t.take(2)
	case 'w', 'W':
		t.caseful(`\` + string(c))
		t.at += 2
	case 's', 'h', 'v':
		t.out.WriteString("[" + contents[c] + "]")
		t.at += 2
	case 'S', 'H', 'V':
		t.caseful("[^" + contents[c|0x20] + "]")
		t.at += 2
	case 'p', 'P':
		text, ok := t.property(false)
		t.caseful(text)
		return ok
	case 'N':
		t.at += 2
		t.caseful(`[^\n]`)
		return !strings.HasPrefix(t.in[t.at:], "{")
	case 'Q':
		t.quoted()
	default:
		return t.character(c)
	}
	return true
}

var contents = map[rune]string{'s': space, 'h': horizontal, 'v': vertical}

// caseful writes a set of characters that the option for upper and lower case
// does not change. (Go's regexp would add to \w what folds to one of it.)
func (t *translator) caseful(text string) {
	if t.flags.caseless {
		text = "(?-i:" + text + ")"
	}
	t.out.WriteString(text)
}

// character translates the escapes for one character, inside brackets and
// outside.
func (t *translator) character(c rune) bool {
	switch c {
	case 'e':
		t.at += 2
		t.out.WriteString(`\x1b`)
	case 'c':
		x := t.in[t.at+2]
		if x >= 'a' && x <= 'z' {
			x -= 'a' - 'A'
		}
		fmt.Fprintf(&t.out, `\x%02x`, x^0x40)
		t.at += 3
	case 'x':
		return t.hex()
	case 'E':
		t.at += 2
	case '0':
		code, i := 0, t.at+1
		for ; i < len(t.in) && i < t.at+4 && t.in[i] >= '0' && t.in[i] <= '7'; i++ {
			code = code<<3 | int(t.in[i]-'0')
		}
		fmt.Fprintf(&t.out, `\x{%x}`, code)
		t.at = i
	default:
		return false
	}
	return true
}

// hex translates \x, \xh, \xhh and \x{h…}.
func (t *translator) hex() bool {
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
			return false
		}
		i++
	}
	fmt.Fprintf(&t.out, `\x{%x}`, v)
	t.at = i
	return v <= utf8.MaxRune
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

// property translates \pL, \p{Name} and \p{^Name} where both engines know the
// name.
func (t *translator) property(inClass bool) (text string, ok bool) {
	rest := t.in[t.at+2:]
	if rest == "" {
		return "", false
	}
	name, length := rest[:1], 1
	if name == "{" {
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return "", false
		}
		name, length = rest[1:end], end+1
	}
	negated := t.in[t.at+1] == 'P'
	if strings.HasPrefix(name, "^") {
		negated, name = !negated, name[1:]
	}
	t.at += 2 + length
	p := `\p`
	if negated {
		p = `\P`
	}
	set := ""
	switch name {
	case "Any":
		set = `\x00-\x{10ffff}`
	case "L&":
		set = `\p{Lu}\p{Ll}\p{Lt}`
	case "Xan":
		set = `\p{L}\p{N}`
	case "Xwd":
		set = `\p{L}\p{N}_`
	case "Xps", "Xsp":
		set = `\p{Z}\x09-\x0d\x{85}`
	default:
		_, category := unicode.Categories[name]
		return p + "{" + name + "}", category
	}
	switch {
	case negated:
		return "[^" + set + "]", !inClass
	case inClass:
		return set, true
	}
	return "[" + set + "]", true
}
