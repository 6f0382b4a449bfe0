package pcre

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// flags are the modes a pattern is read in; (?…) changes them.
type flags struct{ caseless, multiline, dotall, extended bool }

// set changes the flag that letter stands for, and reports whether there is one.
func (f *flags) set(letter rune, on bool) bool {
	switch letter {
	case 'i':
		f.caseless = on
	case 'm':
		f.multiline = on
	case 's':
		f.dotall = on
	case 'x':
		f.extended = on
	default:
		return letter == 'u'
	}
	return true
}

// inline is the group prefix that sets the flags both engines share.
func (f flags) inline() string {
	on, off := "", ""
	for _, l := range []struct {
		letter string
		on     bool
	}{{"i", f.caseless}, {"m", f.multiline}, {"s", f.dotall}} {
		if l.on {
			on += l.letter
		} else {
			off += l.letter
		}
	}
	if off != "" {
		off = "-" + off
	}
	return on + off
}

// translator rewrites a pattern that PCRE2 has found to be one, item by item,
// for Go's regexp.
type translator struct {
	in     string
	at     int
	out    strings.Builder
	flags  flags
	open   []flags // the flags outside each open group
	repeat bool    // the last item was a quantifier
}

// translate writes a pattern in the syntax of Go's regexp; ok is false for what
// that cannot say.
func translate(pattern, options string) (source string, ok bool) {
	t := &translator{in: pattern}
	for _, c := range options {
		t.flags.set(c, true)
	}
	for verb := ""; strings.HasPrefix(t.in, "(*"); {
		if verb, t.in, ok = strings.Cut(t.in[2:], ")"); !ok {
			return "", false
		}
		switch verb {
		case "UTF", "LF", "BSR_UNICODE", "NO_AUTO_POSSESS", "NO_START_OPT", "NO_JIT", "NO_DOTSTAR_ANCHOR":
		default:
			return "", false
		}
	}
	fmt.Fprintf(&t.out, "(?%s)", t.flags.inline())
	for t.at < len(t.in) {
		if !t.item() {
			return "", false
		}
	}
	return t.out.String(), len(t.open) == 0
}

// item translates what comes next, and reports whether Go's regexp has it.
func (t *translator) item() bool {
	c := t.in[t.at]
	wasRepeat := t.repeat
	t.repeat = false
	switch c {
	case '\\':
		return t.escape()
	case '[':
		return t.class()
	case '(':
		return t.group()
	case ')':
		if len(t.open) == 0 {
			return false
		}
		t.flags = t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
	case '*', '+', '?':
		t.repeat = true
		if c == '+' && wasRepeat {
			return false // possessive
		}
	case '{':
		n := quantifier(t.in[t.at:])
		if strings.HasPrefix(t.in[t.at+1:], "0") && n > len("{0}") || strings.Contains(t.in[t.at:t.at+n], ",0") {
			return false // Go's regexp takes no zeros in front
		}
		if n == 0 {
			t.literal('{')
			t.at++
			return true
		}
		t.repeat = true
		t.take(n)
		return true
	case ' ', '\t', '\n', '\v', '\f', '\r':
		if t.flags.extended {
			t.at++
			t.repeat = wasRepeat
			return true
		}
	case '#':
		if t.flags.extended {
			t.skipTo("\n")
			t.repeat = wasRepeat
			return true
		}
	}
	t.take(t.runeLen())
	return true
}

// runeLen is the length of the rune that comes next.
func (t *translator) runeLen() int {
	_, n := utf8.DecodeRuneInString(t.in[t.at:])
	return n
}

// take copies n bytes.
func (t *translator) take(n int) {
	t.out.WriteString(t.in[t.at : t.at+n])
	t.at += n
}

// skipTo goes past the next occurrence of s, or to the end.
func (t *translator) skipTo(s string) {
	if i := strings.Index(t.in[t.at:], s); i >= 0 {
		t.at += i + len(s)
	} else {
		t.at = len(t.in)
	}
}

// literal writes a character that stands for itself.
func (t *translator) literal(r rune) {
	switch {
	case r < utf8.RuneSelf && !isAlnum(r) && r > ' ' && r != '_' && r != 0x7f:
		t.out.WriteByte('\\')
		t.out.WriteRune(r)
	case r <= ' ' || r == 0x7f:
		fmt.Fprintf(&t.out, `\x%02x`, r)
	default:
		t.out.WriteRune(r)
	}
}

func isAlnum(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// quantifier is the length of a {n}, {n,} or {n,m} at the start of s; 0 where
// the brace is a literal.
func quantifier(s string) int {
	i := 1
	digits := func() bool {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i > from
	}
	if !digits() {
		return 0
	}
	if i < len(s) && s[i] == ',' {
		i++
		digits()
	}
	if i >= len(s) || s[i] != '}' {
		return 0
	}
	return i + 1
}

// group translates what an opening parenthesis begins.
func (t *translator) group() bool {
	rest := t.in[t.at+1:]
	switch {
	case strings.HasPrefix(rest, "*"):
		return false
	case !strings.HasPrefix(rest, "?"):
		t.open = append(t.open, t.flags)
		t.take(1)
		return true
	case strings.HasPrefix(rest, "?#"):
		t.skipTo(")")
		return true
	case strings.HasPrefix(rest, "?P<"), strings.HasPrefix(rest, "?<"), strings.HasPrefix(rest, "?'"):
		return t.namedGroup(rest[1:])
	}
	return t.flagGroup()
}

// namedGroup translates (?<name>, (?P<name> and (?'name'.
func (t *translator) namedGroup(rest string) bool {
	start := strings.IndexAny(rest, "<'") + 1
	closing := ">"
	if rest[start-1] == '\'' {
		closing = "'"
	}
	n := strings.Index(rest[start:], closing)
	if n <= 0 || strings.HasPrefix(rest, "<=") || strings.HasPrefix(rest, "<!") {
		return false
	}
	t.open = append(t.open, t.flags)
	fmt.Fprintf(&t.out, "(?P<%s>", rest[start:start+n])
	t.at += 2 + start + n + 1
	return true
}

// flagGroup translates (?flags), (?flags:…) and (?:…).
func (t *translator) flagGroup() bool {
	f, on := t.flags, true
	for i, c := range t.in[t.at+2:] {
		switch {
		case c == '-' && on:
			on = false
		case c == ':':
			t.open = append(t.open, t.flags)
			t.flags = f
			fmt.Fprintf(&t.out, "(?%s:", f.inline())
			t.at += 2 + i + 1
			return true
		case c == ')':
			t.flags = f
			fmt.Fprintf(&t.out, "(?%s)", f.inline())
			t.at += 2 + i + 1
			return true
		case c == 'u' || c == 'x' && strings.HasPrefix(t.in[t.at+2+i:], "xx") || !f.set(c, on):
			return false
		}
	}
	return false
}
