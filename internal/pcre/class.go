package pcre

import (
	"strings"
	"unicode/utf8"
)

// posix gives the classes that [:name:] stands for inside brackets.
var posix = map[string]string{
	"alpha":  `A-Za-z`,
	"digit":  `0-9`,
	"alnum":  `0-9A-Za-z`,
	"upper":  `A-Z`,
	"lower":  `a-z`,
	"space":  space,
	"blank":  `\t\x20`,
	"punct":  "!-/:-@\\x5b-\\x60{-~",
	"cntrl":  `\x00-\x1f\x7f`,
	"graph":  `!-~`,
	"print":  `\x20-~`,
	"word":   `\w`,
	"xdigit": `0-9A-Fa-f`,
	"ascii":  `\x00-\x7f`,
}

// posixNot gives the complements for [:^name:].
var posixNot = map[string]string{
	"alpha":  "\\x00-@\\x5b-\\x60{-\\x{10ffff}",
	"digit":  `\D`,
	"alnum":  "\\x00-/:-@\\x5b-\\x60{-\\x{10ffff}",
	"upper":  `\x00-@\x5b-\x{10ffff}`,
	"lower":  "\\x00-\\x60{-\\x{10ffff}",
	"space":  `\x00-\x08\x0e-\x1f!-\x{10ffff}`,
	"blank":  `\x00-\x08\n-\x1f!-\x{10ffff}`,
	"punct":  `\x00-\x200-9A-Za-z\x7f-\x{10ffff}`,
	"cntrl":  `\x20-~\x{80}-\x{10ffff}`,
	"graph":  `\x00-\x20\x7f-\x{10ffff}`,
	"print":  `\x00-\x1f\x7f-\x{10ffff}`,
	"word":   `\W`,
	"xdigit": "\\x00-/:-@G-\\x60g-\\x{10ffff}",
	"ascii":  `\x{80}-\x{10ffff}`,
}

// complements lists what the classes leave out, as ranges.
var complements = map[rune]string{
	'S': posixNot["space"],
	'H': `\x00-\x08\n-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{180d}\x{180f}-\x{1fff}\x{200b}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}`,
	'V': `\x00-\t\x0e-\x{84}\x{86}-\x{2027}\x{202a}-\x{10ffff}`,
}

// class translates [...]. Where upper and lower case are one, that goes for the
// characters of a class and not for the sets in it, so that Go's regexp cannot
// have both.
func (t *translator) class() bool {
	outside := t.out.String()
	t.out.Reset()
	t.take(1)
	if t.at < len(t.in) && t.in[t.at] == '^' {
		t.take(1)
	}
	sets, letters := false, false
	for first, wasSet := true, false; ; first = false {
		if t.at >= len(t.in) {
			return false
		}
		c := t.in[t.at]
		if c == ']' && !first {
			t.take(1)
			break
		}
		before := t.out.Len()
		set, ok := t.classItem(first || wasSet)
		if !ok {
			return false
		}
		sets, wasSet = sets || set, set
		text := t.out.String()[before:]
		letters = letters || !set && (text == "-" || strings.ContainsFunc(text, folds))
	}
	if t.flags.caseless && sets && letters {
		return false
	}
	text := t.out.String()
	t.out.Reset()
	t.out.WriteString(outside)
	if sets {
		t.caseful(text)
	} else {
		t.out.WriteString(text)
	}
	return true
}

// folds reports whether upper and lower case may matter to what is written with r.
func folds(r rune) bool { return r >= utf8.RuneSelf || isAlnum(r) && r > '9' }

// classItem translates one thing inside brackets, and reports whether it is a set
// of characters; no range goes on with what follows one, or the opening.
func (t *translator) classItem(alone bool) (set, ok bool) {
	switch c := t.in[t.at]; {
	case c == '\\':
		return t.classEscape()
	case c == '[' && strings.HasPrefix(t.in[t.at:], "[:") && strings.Contains(t.in[t.at:], ":]"):
		return true, t.posixClass()
	case c == '-':
		t.hyphen(alone)
	case c == '[' || c == ']' || c == '&' || c == '~':
		t.out.WriteByte('\\')
		t.take(1)
	default:
		t.take(t.runeLen())
	}
	return false, true
}

// classEscape translates a backslash and what follows it, inside brackets.
func (t *translator) classEscape() (set, ok bool) {
	c, n := utf8.DecodeRuneInString(t.in[t.at+1:])
	if !isAlnum(c) {
		t.literal(c)
		t.at += 1 + n
		return false, true
	}
	switch c {
	case 'a', 'f', 'n', 'r', 't':
		t.take(2)
	case 'b':
		t.at += 2
		t.out.WriteString(`\x08`)
	case 'd', 'D', 'w', 'W':
		t.take(2)
		return true, true
	case 's', 'h', 'v':
		t.out.WriteString(contents[c])
		t.at += 2
		return true, true
	case 'S', 'H', 'V':
		t.out.WriteString(complements[c])
		t.at += 2
		return true, true
	case 'p', 'P':
		text, ok := t.property(true)
		t.out.WriteString(text)
		return true, ok
	case 'Q':
		t.quoted()
	default:
		return false, t.character(c)
	}
	return false, true
}

// hyphen translates a - : a range between two characters, else itself.
func (t *translator) hyphen(alone bool) {
	rest := t.in[t.at+1:]
	literal := alone || strings.HasPrefix(rest, "]") || strings.HasPrefix(rest, "[:")
	if len(rest) > 1 && rest[0] == '\\' {
		literal = literal || strings.ContainsRune("dDwWsShHvVpP", rune(rest[1]))
	}
	if literal {
		t.out.WriteByte('\\')
	}
	t.take(1)
}

func (t *translator) posixClass() bool {
	name, _, _ := strings.Cut(t.in[t.at+2:], ":]")
	bare, negated := strings.CutPrefix(name, "^")
	text, ok := posix[bare]
	if negated {
		text = posixNot[bare]
	}
	if t.flags.caseless && (bare == "upper" || bare == "lower") {
		return false
	}
	t.out.WriteString(text)
	t.at += len(name) + 4
	return ok
}
