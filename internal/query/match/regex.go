package match

import "github.com/mayflydb/mayfly/internal/bson"

// program is a compiled regular expression.
type program interface {
	matchString(s string) (bool, error)
}

func (n *Regex) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Regex) kind() kind                              { return kindRegex }

// elem matches strings and symbols by the pattern, and a regular expression
// that is the very same.
func (n *Regex) elem(v bson.Value, _ *Env) (bool, error) {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return n.prog.matchString(v.Str())
	case bson.TypeRegex:
		p, o := v.Regex()
		return p == n.Pattern && o == n.Options, nil
	}
	return false, nil
}

func (n *Regex) text(b *bson.Builder) {
	b.OpenDoc(n.Path).String("$regex", n.Pattern)
	if n.Options != "" {
		b.String("$options", n.Options)
	}
	b.Close()
}
