package match

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/pcre"
)

const (
	codeInvalidRegex  = mongoerr.Code(51091)
	codeInvalidOption = mongoerr.Code(51108)
	codeMatchFailed   = mongoerr.Code(51156)
)

// NewRegex makes {path: /pattern/options}.
func NewRegex(path, pattern, options string) (*Regex, error) {
	if strings.ContainsRune(pattern, 0) {
		return nil, badValue("Regular expression cannot contain an embedded null byte")
	}
	for _, c := range options {
		if !pcre.ValidOption(c) {
			return nil, mongoerr.New(codeInvalidOption, "invalid flag in regex options: %c", c)
		}
	}
	prog, err := pcre.Compile(pattern, options)
	if err != nil {
		return nil, mongoerr.New(codeInvalidRegex, "Regular expression is invalid: %s", err.Error())
	}
	n := &Regex{leaf: newLeaf(path), Pattern: pattern, Options: options, prog: prog}
	if prefix, exact, ok := n.Prefix(); ok && exact {
		n.start = prefix
	}
	return n, nil
}

func (n *Regex) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Regex) kind() kind                              { return kindRegex }

// elem matches strings and symbols by the pattern, and a regular expression
// that is the very same.
func (n *Regex) elem(v bson.Value, env *Env) (bool, error) {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return n.matchText(v.Str(), env)
	case bson.TypeRegex:
		p, o := v.Regex()
		return p == n.Pattern && o == n.Options, nil
	}
	return false, nil
}

// matchText matches a text. Text that is not UTF-8 matches nothing but what it begins with, by which
// an index finds it, too; a match that gave up is an error, while mongod says that there is none: no
// document is left out, or removed under a $nor, because it takes too long.
func (n *Regex) matchText(s string, env *Env) (bool, error) {
	if n.start != "" {
		return strings.HasPrefix(s, n.start), nil
	}
	ok, err := n.prog.Match(s, env.check())
	switch {
	case err == nil:
	case errors.Is(err, pcre.ErrText):
		return false, nil
	case errors.As(err, new(pcre.MatchError)):
		err = mongoerr.New(codeMatchFailed, "Error occurred while executing the regular expression in $regex. Result code: %s", err)
	}
	return ok, err
}

func (n *Regex) text(b *bson.Builder) {
	b.OpenDoc(n.Path).String("$regex", n.Pattern)
	if n.Options != "" {
		b.String("$options", n.Options)
	}
	b.Close()
}

func (p *parser) regexValue(path string, v bson.Value) (Node, error) {
	pattern, options := v.Regex()
	n, err := NewRegex(path, pattern, options)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// parseRegex reads $regex together with the $options next to it.
func parseRegex(_ *parser, a argument) (Node, error) {
	var pattern, options string
	for it := a.siblings.Iter(); it.Next(); {
		switch {
		case it.Key == "$regex" && it.Value.Type == bson.TypeString:
			pattern = it.Value.Str()
		case it.Key == "$regex" && it.Value.Type == bson.TypeRegex:
			var flags string
			pattern, flags = it.Value.Regex()
			if flags != "" && options != "" {
				return nil, mongoerr.New(mongoerr.Code(51074), "options set in both $regex and $options")
			}
			options += flags
		case it.Key == "$regex":
			return nil, badValue("$regex has to be a string")
		case it.Key == "$options" && it.Value.Type != bson.TypeString:
			return nil, badValue("$options has to be a string")
		case it.Key == "$options":
			if options != "" {
				return nil, mongoerr.New(mongoerr.Code(51075), "options set in both $regex and $options")
			}
			options = it.Value.Str()
		}
	}
	n, err := NewRegex(a.path, pattern, options)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// parseRegexOptions leaves the work to $regex.
func parseRegexOptions(_ *parser, a argument) (Node, error) {
	if !a.siblings.Has("$regex") {
		return nil, badValue("$options needs a $regex")
	}
	return nil, nil
}

// Prefix returns the string that every match starts with, if the pattern is
// anchored to the start, and whether the pattern says nothing more; ok is
// false if no such prefix is known. The planner makes bounds of it.
func (n *Regex) Prefix() (prefix string, exact, ok bool) {
	rest, anchored := strings.CutPrefix(n.Pattern, "^")
	if !anchored {
		rest, anchored = strings.CutPrefix(n.Pattern, `\A`)
	} else if strings.ContainsRune(n.Options, 'm') {
		return "", false, false
	}
	if !anchored || strings.ContainsAny(n.Options, "ix") || strings.Contains(rest, "|") {
		return "", false, false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case strings.IndexByte("*?{", c) >= 0:
			// The character before may be absent.
			s := b.String()
			_, size := utf8.DecodeLastRuneInString(s)
			return s[:len(s)-size], false, len(s) > size
		case c == '\\' && i+1 < len(rest) && isPunct(rest[i+1]):
			i++
			b.WriteByte(rest[i])
		case strings.IndexByte(`\^$.[()+`, c) >= 0:
			return b.String(), false, b.Len() > 0
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true, b.Len() > 0
}

func isPunct(c byte) bool {
	return c < utf8.RuneSelf && c > ' ' && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
}
