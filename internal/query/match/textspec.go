package match

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/fts"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TextSpec says which strings of a document a text index holds, how much they
// weigh, and in which language they are.
type TextSpec struct {
	Version  int
	Language *fts.Language // the default
	Override string        // the field that names a document's own language
	weights  map[string]float64
	wildcard float64 // of every string; 0: only of the paths in weights
	prefixes map[string]bool
}

// wildcardPath stands for every string in the weights of a text index.
const wildcardPath = "$**"

// maxTextWeight bounds the weight of a path, exclusively.
const maxTextWeight = 1000000

// NewTextSpec reads the specification of a text index in its stored form.
// Errors: 67 for a version, a language or a weight that does not exist.
func NewTextSpec(index bson.Doc) (*TextSpec, error) {
	cannot := func(format string, args ...any) error {
		return mongoerr.New(mongoerr.CannotCreateIndex, format, args...)
	}
	s := &TextSpec{Version: fts.V3, weights: map[string]float64{}, prefixes: map[string]bool{}}
	if v := index.Lookup("textIndexVersion"); !v.IsMissing() {
		n, ok := bson.ExactInt64(v)
		if !ok || v.Type == bson.TypeDecimal || n < fts.V1 || n > fts.V3 {
			return nil, cannot("bad textIndexVersion: %s", v)
		}
		s.Version = int(n)
	}
	language := index.Lookup("default_language")
	var ok bool
	if s.Language, ok = fts.LanguageOf(stringOr(language, "english"), s.Version); !ok {
		return nil, cannot("default_language is not valid")
	}
	s.Override = stringOr(index.Lookup("language_override"), "language")
	if s.Override == "" || strings.HasPrefix(s.Override, "$") || strings.Contains(s.Override, ".") {
		return nil, cannot("language_override is not valid")
	}
	weights := index.Lookup("weights")
	if weights.Type != bson.TypeDocument {
		return s, nil
	}
	for path, w := range weights.Doc().All() {
		if !w.IsNumber() {
			return nil, cannot("weight for text index needs numeric type")
		}
		weight := bson.ToDouble(w)
		if !(weight > 0 && weight < maxTextWeight) {
			return nil, cannot("text index weight must be in the exclusive interval (0,%d) but found: %v", maxTextWeight, weight)
		}
		if path == wildcardPath {
			s.wildcard = weight
			continue
		}
		s.weights[path] = weight
		for i := range path {
			if path[i] == '.' {
				s.prefixes[path[:i]] = true
			}
		}
	}
	return s, nil
}

func stringOr(v bson.Value, otherwise string) string {
	if v.Type != bson.TypeString {
		return otherwise
	}
	return v.Str()
}

// Each calls f for every string that is indexed, with its weight and its language.
// Errors: 17261 and 17262 for a document's own language.
func (s *TextSpec) Each(doc bson.Doc, f func(text string, weight float64, l *fts.Language)) error {
	return s.document(doc, "", s.Language, 0, f)
}

// maxTextDepth bounds the depth at which strings are searched.
const maxTextDepth = 200

func (s *TextSpec) document(doc bson.Doc, path string, l *fts.Language, depth int, f func(string, float64, *fts.Language)) error {
	if depth > maxTextDepth {
		return nil
	}
	l, err := s.languageOf(doc, path, l)
	if err != nil {
		return err
	}
	for it := doc.Iter(); it.Next(); {
		if s.wildcard > 0 && it.Key == s.Override {
			continue
		}
		name := it.Key
		if path != "" {
			name = path + "." + it.Key
		}
		weight := s.weights[name]
		if weight == 0 {
			weight = s.wildcard
		}
		if weight > 0 || s.prefixes[name] {
			if err := s.value(it.Value, name, weight, l, depth, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *TextSpec) value(v bson.Value, path string, weight float64, l *fts.Language, depth int, f func(string, float64, *fts.Language)) error {
	switch v.Type {
	case bson.TypeString:
		if weight > 0 {
			f(v.Str(), weight, l)
		}
	case bson.TypeDocument:
		if s.wildcard > 0 || s.prefixes[path] {
			return s.document(v.Doc(), path, l, depth+1, f)
		}
	case bson.TypeArray:
		if depth > maxTextDepth {
			return nil
		}
		for it := v.Doc().Iter(); it.Next(); {
			if err := s.value(it.Value, path, weight, l, depth+1, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// languageOf is the language of the strings of doc: its own, else that of the
// document around it. In version 1 only whole documents have one.
func (s *TextSpec) languageOf(doc bson.Doc, path string, around *fts.Language) (*fts.Language, error) {
	if s.Version == fts.V1 && path != "" {
		return around, nil
	}
	v := doc.Lookup(s.Override)
	switch {
	case v.IsMissing():
		return around, nil
	case v.Type != bson.TypeString:
		return nil, mongoerr.New(17261, "found language override field in document with non-string type")
	}
	l, ok := fts.LanguageOf(v.Str(), s.Version)
	if !ok {
		return nil, mongoerr.New(17262, "language override unsupported: %s", v.Str())
	}
	return l, nil
}

// MatchText reports whether doc matches q. found says that an index has found a
// term of q in it.
func (s *TextSpec) MatchText(q *fts.Query, doc bson.Doc, found bool) (bool, error) {
	m := q.NewMatcher(found)
	err := s.Each(doc, func(text string, _ float64, l *fts.Language) { m.Add(text, l) })
	return m.Matches(), err
}
