package pcre

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// flags are the modes a pattern is read in; (?…) changes all but unicode.
type flags struct {
	caseless, multiline, dotall, extended, ungreedy, unicode bool
}

// set changes the flag that letter stands for, and says whether there is one.
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
	case 'U':
		f.ungreedy = on
	case 'u', 'J':
	default:
		return false
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

// target is the engine a pattern is translated for.
type target uint8

const (
	forGo target = iota
	forBacktracking
)

// translator rewrites a pattern, item by item.
type translator struct {
	in        string
	at        int
	out       strings.Builder
	target    target
	flags     flags
	open      []flags // the flags outside each open group
	groups    int     // capture groups so far
	backtrack bool    // Go's engine cannot express the pattern
	repeat    bool    // the last item was a quantifier
	behind    []lookbehind
	start     int // the group whose place is the start of the match (\K), or 0
}

// maxGroups bounds the nesting of groups, as PCRE2 does.
const maxGroups = 250

func translate(pattern string, f flags, t target) (*translator, error) {
	tr := &translator{in: pattern, target: t, flags: f, backtrack: f.unicode || f.ungreedy}
	fmt.Fprintf(&tr.out, "(?%s)", f.inline())
	for tr.at < len(tr.in) {
		if err := tr.item(); err != nil {
			return nil, err
		}
	}
	if len(tr.open) > 0 {
		return nil, errors.New("missing closing parenthesis")
	}
	return tr, nil
}

func (t *translator) item() error {
	c := t.in[t.at]
	wasRepeat := t.repeat
	t.repeat = false
	switch c {
	case '\\':
		return t.escape(false)
	case '[':
		return t.class()
	case '(':
		return t.group()
	case ')':
		if len(t.open) == 0 {
			return errors.New("unmatched closing parenthesis")
		}
		if err := t.closeGroup(); err != nil {
			return err
		}
		t.flags = t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
	case '|':
		t.alternative()
	case '$':
		if t.target == forBacktracking && !t.flags.multiline {
			t.at++
			t.out.WriteString(`(?=\n?\z)`)
			return nil
		}
	case '*', '+', '?':
		t.repeat = true
		t.backtrack = t.backtrack || c == '+' && wasRepeat
	case '{':
		n, err := quantifier(t.in[t.at:])
		if err != nil {
			return err
		}
		if n == 0 {
			t.literal('{')
			t.at++
			return nil
		}
		t.repeat = true
		t.take(n)
		return nil
	case ' ', '\t', '\n', '\v', '\f', '\r':
		if t.flags.extended {
			t.at++
			t.repeat = wasRepeat
			return nil
		}
	case '#':
		if t.flags.extended {
			t.skipTo("\n")
			t.repeat = wasRepeat
			return nil
		}
	}
	t.take(t.runeLen())
	return nil
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
	case r < utf8.RuneSelf && !isAlnum(r) && r > ' ' && r != '_':
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
func quantifier(s string) (int, error) {
	i := 1
	number := func() (v int, digits bool) {
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			v, digits = min(v*10+int(s[i]-'0'), 1<<20), true
		}
		return v, digits
	}
	low, ok := number()
	if !ok || i >= len(s) {
		return 0, nil
	}
	high, bounded := low, true
	if s[i] == ',' {
		i++
		high, bounded = number()
	}
	if i >= len(s) || s[i] != '}' {
		return 0, nil
	}
	if low > 65535 || high > 65535 {
		return 0, errors.New("number too big in {} quantifier")
	}
	if bounded && low > high {
		return 0, errors.New("numbers out of order in {} quantifier")
	}
	return i + 1, nil
}

// group translates what an opening parenthesis begins.
func (t *translator) group() error {
	if len(t.open) >= maxGroups {
		return errors.New("parentheses are too deeply nested")
	}
	rest := t.in[t.at+1:]
	if strings.HasPrefix(rest, "*") {
		return errors.New("(*VERB) not recognized or malformed")
	}
	if !strings.HasPrefix(rest, "?") {
		t.push(true)
		t.take(1)
		return nil
	}
	rest = rest[1:]
	for _, p := range []string{"<=", "<!", "=", "!", ">"} {
		if strings.HasPrefix(rest, p) {
			t.backtrack = true
			t.push(false)
			t.take(2 + len(p))
			if p[0] == '<' {
				t.openLookbehind()
			}
			return nil
		}
	}
	switch {
	case strings.HasPrefix(rest, "#"):
		if !strings.Contains(rest, ")") {
			return errors.New("missing ) after (?# comment")
		}
		t.skipTo(")")
		return nil
	case strings.HasPrefix(rest, "P=") || strings.HasPrefix(rest, "("):
		t.backtrack = true
		t.push(false)
		t.take(2)
		return nil
	case strings.HasPrefix(rest, "P<"), strings.HasPrefix(rest, "<"), strings.HasPrefix(rest, "'"):
		return t.namedGroup(rest)
	}
	return t.flagGroup()
}

func (t *translator) push(capture bool) {
	t.open = append(t.open, t.flags)
	if capture {
		t.groups++
	}
}

// namedGroup translates (?<name>, (?P<name> and (?'name'.
func (t *translator) namedGroup(rest string) error {
	start := strings.IndexAny(rest, "<'") + 1
	closing := ">"
	if rest[start-1] == '\'' {
		closing = "'"
	}
	n := strings.Index(rest[start:], closing)
	if n <= 0 {
		return errors.New("subpattern name expected")
	}
	t.push(true)
	fmt.Fprintf(&t.out, "(?<%s>", rest[start:start+n])
	t.at += 2 + start + n + 1
	return nil
}

// flagGroup translates (?flags), (?flags:…) and (?:…).
func (t *translator) flagGroup() error {
	f, on := t.flags, true
	for i, c := range t.in[t.at+2:] {
		switch {
		case c == '-' && on:
			on = false
		case c == '^' && i == 0:
			f = flags{unicode: f.unicode}
		case c == ':':
			t.push(false)
			t.flags = f
			fmt.Fprintf(&t.out, "(?%s:", f.inline())
			t.at += 2 + i + 1
			return nil
		case c == ')':
			t.flags = f
			fmt.Fprintf(&t.out, "(?%s)", f.inline())
			t.at += 2 + i + 1
			return nil
		case c != 'u' && f.set(c, on):
			t.backtrack = t.backtrack || f.ungreedy
		default:
			return errors.New("unrecognized character after (? or (?-")
		}
	}
	return errors.New("missing closing parenthesis")
}

// resetStart translates \K, behind which the match is said to start, as an
// empty group that notes the place.
func (t *translator) resetStart() {
	t.at += 2
	t.groups++
	t.start = t.groups
	t.out.WriteString("()")
}
