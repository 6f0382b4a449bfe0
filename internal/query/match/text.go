package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func (n *Text) kind() kind { return kindText }

func (n *Text) match(subject, *Env) (bool, error) {
	return false, mongoerr.New(mongoerr.IndexNotFound, "text index required for $text query")
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
