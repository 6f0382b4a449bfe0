package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/fts"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func (n *Text) kind() kind { return kindText }

// boundText is a $text as a text index understands it.
type boundText struct {
	spec  *TextSpec
	query *fts.Query
}

// Bind parses the search string as an index with s understands it. Error 2: a
// language that does not exist.
func (n *Text) Bind(s *TextSpec) error {
	l := s.Language
	if n.Language != "" {
		var ok bool
		if l, ok = fts.LanguageOf(n.Language, s.Version); !ok {
			return badValue("unsupported language: \"%s\" for text index version %d", n.Language, s.Version)
		}
	}
	q := fts.ParseQuery(n.Search, l, s.Version, fts.Options{CaseSensitive: n.CaseSensitive, DiacriticSensitive: n.DiacriticSensitive})
	n.bound.Store(&boundText{s, q})
	return nil
}

// Bound is the search string that Bind parsed.
func (n *Text) Bound() *fts.Query { return n.bound.Load().query }

// TextIn is the first $text in n, or nil. A filter has one at most, but several
// may have been joined.
func TextIn(n Node) *Text {
	if all := textsIn(n); len(all) > 0 {
		return all[0]
	}
	return nil
}

// SeveralTexts reports whether there is more than one $text in n.
func SeveralTexts(n Node) bool { return len(textsIn(n)) > 1 }

func textsIn(n Node) (all []*Text) {
	visit(n, func(n Node) {
		if t, ok := n.(*Text); ok {
			all = append(all, t)
		}
	})
	return all
}

// match examines a whole document again, as a write does after it has found it.
func (n *Text) match(s subject, _ *Env) (bool, error) {
	b := n.bound.Load()
	if b == nil || s.v.Type != bson.TypeDocument {
		return false, mongoerr.New(mongoerr.IndexNotFound, "text index required for $text query")
	}
	return b.spec.MatchText(b.query, s.v.Doc(), false)
}

func (n *Text) text(b *bson.Builder) {
	b.OpenDoc("$text").String("$search", n.Search).String("$language", n.Language)
	b.Bool("$caseSensitive", n.CaseSensitive).Bool("$diacriticSensitive", n.DiacriticSensitive).Close()
}

func parseText(p *parser, name string, v bson.Value, at level) (Node, error) {
	if err := p.topLevelOnly(name, FeatureText, at); err != nil {
		return nil, err
	}
	if v.Type != bson.TypeDocument {
		return nil, badValue("$text expects an object")
	}
	n := &Text{}
	found := false
	for it := v.Doc().Iter(); it.Next(); {
		var err error
		switch it.Key {
		case "$search":
			n.Search, err = textString(it.Key, it.Value)
			found = true
		case "$language":
			n.Language, err = textString(it.Key, it.Value)
		case "$caseSensitive":
			n.CaseSensitive, err = textBool(it.Key, it.Value)
		case "$diacriticSensitive":
			n.DiacriticSensitive, err = textBool(it.Key, it.Value)
		default:
			err = badValue("extra fields in $text")
		}
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, mongoerr.New(mongoerr.NoSuchKey, `Missing expected field "$search"`)
	}
	return n, nil
}

func textString(name string, v bson.Value) (string, error) {
	if v.Type != bson.TypeString {
		return "", mongoerr.New(mongoerr.TypeMismatch, `"%s" had the wrong type. Expected string, found %s`, name, v.Type)
	}
	return v.Str(), nil
}

func textBool(name string, v bson.Value) (bool, error) {
	if v.Type != bson.TypeBool {
		return false, mongoerr.New(mongoerr.TypeMismatch, `"%s" had the wrong type. Expected bool, found %s`, name, v.Type)
	}
	return v.Bool(), nil
}
