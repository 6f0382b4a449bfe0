package schema

import (
	"crypto/md5"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/fts"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The fields that stand in the key of a text index for its texts: the term, and
// its weight in the document.
const (
	TextTerm   = "_fts"
	textWeight = "_ftsx"
)

// textIndex has the terms of a document, each with its weight, between ordinary
// fields.
type textIndex struct{}

func (textIndex) collated() bool { return false }

// validatePattern checks that the text fields are adjacent.
func (textIndex) validatePattern(key bson.Doc) error {
	groups, within := 0, false
	for name, v := range key.All() {
		text := v.Type == bson.TypeString || name == textWeight
		if text && !within {
			groups++
		}
		within = text
	}
	if groups > 1 {
		return cannotCreate("'text' fields in index must all be adjacent")
	}
	if key.Has(TextTerm) != key.Has(textWeight) {
		return cannotCreate("expecting _ftsx:1 in key")
	}
	return nil
}

func (textIndex) validateSpec(spec bson.Doc) error {
	weights := textForm(spec).Lookup("weights").Doc()
	if weights.IsEmpty() {
		return cannotCreate("text index option 'weights' must specify fields or the wildcard")
	}
	return checkTextWeights(weights)
}

// textForm returns the specification of a text index with its fields in the
// weights, and all options explicit.
func textForm(spec bson.Doc) bson.Doc {
	weights := map[string]bson.Value{}
	switch w := spec.Lookup("weights"); {
	case w.Type == bson.TypeDocument:
		for path, v := range w.Doc().All() {
			weights[path] = asWeight(v)
		}
	case w.Type == bson.TypeString: // "$**"
		weights[w.Str()] = bson.Int32(1)
	}
	var key bson.Builder
	done := false
	for name, v := range spec.Lookup("key").Doc().All() {
		switch {
		case v.Type != bson.TypeString && name != textWeight:
			key.Value(name, v)
			continue
		case v.Type == bson.TypeString && name != TextTerm:
			if _, ok := weights[name]; !ok {
				weights[name] = bson.Int32(1)
			}
		}
		if !done {
			key.String(TextTerm, pluginText).Int32(textWeight, 1)
			done = true
		}
	}
	var b, ws bson.Builder
	for _, path := range slices.Sorted(maps.Keys(weights)) {
		ws.Value(path, weights[path])
	}
	written, version := ws.Finish(), bson.Int32(fts.V3)
	for name, v := range spec.All() {
		switch name {
		case "key":
			b.Doc("key", key.Finish())
		case "weights":
			b.Doc(name, written)
		case "textIndexVersion": // the last
			version = asInt(v)
		default:
			b.Value(name, v)
		}
	}
	for _, o := range []struct {
		name string
		v    bson.Value
	}{
		{"weights", bson.Document(written)},
		{"default_language", bson.String("english")}, {"language_override", bson.String("language")},
	} {
		if !spec.Has(o.name) {
			b.Value(o.name, o.v)
		}
	}
	return b.Value("textIndexVersion", version).Finish()
}

// asWeight returns a weight as it is stored, without a fraction; what is not a
// number is left unchanged, to be refused.
func asWeight(v bson.Value) bson.Value {
	if !v.IsNumber() {
		return v
	}
	return bson.Int32(int32(max(math.MinInt32, min(math.MaxInt32, bson.ClampToInt64(v)))))
}

// maxTextWeight bounds the weight of a path, exclusively.
const maxTextWeight = 100_000

// checkTextWeights checks the weights of a text index.
func checkTextWeights(weights bson.Doc) error {
	for path, v := range weights.All() {
		w := asWeight(v)
		if w.Type != bson.TypeInt32 {
			return cannotCreate("weight for text index needs numeric type")
		}
		if n := w.Int32(); n <= 0 || n >= maxTextWeight {
			return cannotCreate("text index weight must be in the exclusive interval (0,%d) but found: %d", maxTextWeight, n)
		}
		if path == "$**" {
			continue
		}
		if path == "" {
			return cannotCreate("weight cannot be on an empty field")
		}
		for part := range strings.SplitSeq(path, ".") {
			switch {
			case part == "":
				return cannotCreate("weight cannot have empty path component")
			case part[0] == '$':
				return cannotCreate("weight cannot have path component with $ prefix")
			}
		}
	}
	return nil
}

// asInt returns a whole number as an int; anything else is left unchanged, to
// be refused.
func asInt(v bson.Value) bson.Value {
	if n, ok := bson.ExactInt32(v); ok && v.Type != bson.TypeDecimal {
		return bson.Int32(n)
	}
	return v
}

func checkTextVersion(name string, v bson.Value, _ bson.Doc) error {
	if !v.IsNumber() {
		return mongoerr.New(mongoerr.TypeMismatch, "The field '%s' must be a number, but got %s", name, v.Type)
	}
	if n, ok := bson.ExactInt64(v); !ok || v.Type == bson.TypeDecimal || n < fts.V1 || n > fts.V3 {
		return cannotCreate("bad textIndexVersion: %s", v)
	}
	return nil
}

// maxTerm is how long a term in a key may be, in bytes; a longer one is
// replaced by its beginning and a digest.
const maxTerm = 256

// TermKey is a term as it stands in the keys of text indexes.
func TermKey(term string) string {
	if len(term) <= maxTerm {
		return term
	}
	sum := md5.Sum([]byte(term))
	return term[:maxTerm-2*len(sum)] + hex.EncodeToString(sum[:])
}

func (textIndex) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	values, at, err := ix.nonTextValues(doc)
	if err != nil {
		return dst, nil, err
	}
	scores := map[string]float64{}
	err = ix.Text.Each(doc, func(text string, weight float64, l *fts.Language) {
		l.Weigh(text, ix.Text.Version, weight, scores)
	})
	if err != nil || len(scores) == 0 {
		return dst, nil, err
	}
	if len(scores) > maxTextKeys {
		return dst, nil, cannotCreate("Index key generation failed: %d terms are more than the %d keys that one document may have", len(scores), maxTextKeys)
	}
	start := len(dst)
	for term, score := range scores {
		values[at], values[at+1] = bson.String(TermKey(term)), bson.Double(score)
		dst = ix.appendKey(dst, values)
	}
	var paths MultikeyPaths
	if len(scores) > 1 {
		paths = make(MultikeyPaths, len(ix.Parts))
		paths.set(at, 0)
	}
	return dst[:start+len(sortKeys(dst[start:]))], paths, nil
}

// nonTextValues returns the values of the parts before and after the term, whose
// index is at. None of them may have an array on its path.
func (ix *Index) nonTextValues(doc bson.Doc) (values []bson.Value, at int, err error) {
	values = make([]bson.Value, len(ix.Parts))
	for i := range ix.Parts {
		p := &ix.Parts[i]
		switch p.Path {
		case TextTerm:
			at = i
			continue
		case textWeight:
			continue
		}
		v, _ := walk(doc, p.Components)
		switch v.Type {
		case bson.TypeArray:
			return nil, 0, mongoerr.New(mongoerr.CannotBuildIndexKeys,
				"Field '%s' of text index contains an array in document: %s", p.Path, doc)
		case bson.Missing:
			v = bson.Null
		}
		values[i] = v
	}
	return values, at, nil
}

// maxTextKeys bounds the terms of one document.
const maxTextKeys = 400000
