package pcre

import (
	"errors"
	"strings"
	"unicode"
)

// posix gives the classes that [:name:] stands for inside brackets: without
// and with (*UCP).
var posix = map[string][2]string{
	"alpha":  {`A-Za-z`, `\p{L}`},
	"digit":  {`0-9`, `\p{Nd}`},
	"alnum":  {`0-9A-Za-z`, `\p{L}\p{N}`},
	"upper":  {`A-Z`, `\p{Lu}`},
	"lower":  {`a-z`, `\p{Ll}`},
	"space":  {space, `\s`},
	"blank":  {`\t\x20`, horizontal},
	"punct":  {`!-/:-@\x5b-\x60{-~`, `\p{P}!-/:-@\x5b-\x60{-~`},
	"cntrl":  {`\x00-\x1f\x7f`, `\p{Cc}`},
	"graph":  {`!-~`, `!-~\x{a1}-\x{10ffff}`},
	"print":  {`\x20-~`, `\x20-~\x{a0}-\x{10ffff}`},
	"word":   {`\w`, `\w`},
	"xdigit": {`0-9A-Fa-f`, `0-9A-Fa-f`},
	"ascii":  {`\x00-\x7f`, `\x00-\x7f`},
}

// posixNot gives the complements for [:^name:].
var posixNot = map[string]string{
	"alpha":  `\x00-@\x5b-\x60{-\x{10ffff}`,
	"digit":  `\D`,
	"alnum":  `\x00-/:-@\x5b-\x60{-\x{10ffff}`,
	"upper":  `\x00-@\x5b-\x{10ffff}`,
	"lower":  `\x00-\x60{-\x{10ffff}`,
	"space":  `\x00-\x08\x0e-\x1f!-\x{10ffff}`,
	"blank":  `\x00-\x08\n-\x1f!-\x{10ffff}`,
	"punct":  `\x00-\x200-9A-Za-z\x7f-\x{10ffff}`,
	"cntrl":  `\x20-~\x{80}-\x{10ffff}`,
	"graph":  `\x00-\x20\x7f-\x{10ffff}`,
	"print":  `\x00-\x1f\x7f-\x{10ffff}`,
	"word":   `\W`,
	"xdigit": `\x00-/:-@G-\x60g-\x{10ffff}`,
	"ascii":  `\x{80}-\x{10ffff}`,
}

var errClass = errors.New("missing terminating ] for character class")

// class translates [...].
func (t *translator) class() error {
	t.take(1)
	if t.at < len(t.in) && t.in[t.at] == '^' {
		t.take(1)
	}
	for first := true; ; first = false {
		if t.at >= len(t.in) {
			return errClass
		}
		switch c := t.in[t.at]; {
		case c == ']' && !first:
			t.take(1)
			return nil
		case c == '\\':
			if t.at+1 >= len(t.in) {
				return errClass
			}
			if err := t.escape(true); err != nil {
				return err
			}
		case c == '[' && strings.HasPrefix(t.in[t.at:], "[:") && strings.Contains(t.in[t.at:], ":]"):
			if err := t.posixClass(); err != nil {
				return err
			}
		case c == '-':
			t.hyphen(first)
		case c == '[' || c == ']' || c == '&' || c == '~':
			t.out.WriteByte('\\')
			t.take(1)
		default:
			t.take(t.runeLen())
		}
	}
}

// hyphen translates a - : a range between two characters, else itself.
func (t *translator) hyphen(first bool) {
	rest := t.in[t.at+1:]
	before := t.in[:t.at]
	literal := first || strings.HasPrefix(rest, "]") || strings.HasSuffix(before, ":]")
	for _, set := range []string{`\d`, `\w`, `\s`, `\D`, `\W`, `\S`, `\h`, `\H`, `\v`, `\V`} {
		literal = literal || strings.HasPrefix(rest, set) || strings.HasSuffix(before, set)
	}
	if literal {
		t.out.WriteByte('\\')
	}
	t.take(1)
}

func (t *translator) posixClass() error {
	name, _, _ := strings.Cut(t.in[t.at+2:], ":]")
	length := len(name) + 4
	bare, negated := strings.CutPrefix(name, "^")
	text, ok := posix[bare]
	if !ok {
		return errors.New("unknown POSIX class name")
	}
	switch {
	case negated && t.flags.unicode && strings.HasPrefix(text[1], `\p{L}`) && bare == "alpha":
		t.out.WriteString(`\P{L}`)
	case negated:
		t.out.WriteString(posixNot[bare])
	case t.flags.unicode:
		t.out.WriteString(text[1])
	default:
		t.out.WriteString(text[0])
	}
	t.at += length
	return nil
}

// property is \p{name} in the syntax of both engines.
func property(name string, negated, inClass bool) (string, bool) {
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
		_, script := unicode.Scripts[name]
		return p + "{" + name + "}", category || script
	}
	switch {
	case negated:
		return "[^" + set + "]", !inClass
	case inClass:
		return set, true
	}
	return "[" + set + "]", true
}
