package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// pathPlugin marks the part of a view that has paths.
const pathPlugin = schema.WildcardPathName

// maxPathVariants bounds what one dotted path with numbers in it may stand for: eight
// numbers, as in mongod.
const maxPathVariants = 1 << 8

// wildPath is the path of a view of a wildcard index.
//
// A wildcard index holds paths and values: to a query about the field a.b it is
// the index {$_path: 1, "a.b": 1}, bounded to the path "a.b". Such a view is an
// ordinary Index with Wild set. Documents without the field are not in it.
type wildPath struct {
	path  string
	part  int       // of the paths, in the view
	paths Intervals // that the scan reads
	vague bool      // keys at the paths may belong to other fields: they decide and order nothing, and a document may have several
	picks bool      // a number in the path may select elements of arrays
	// picked are the paths of arrays in which a number may pick an array, of which the
	// index only has the whole.
	picked Intervals
}

// views returns the indexes that predicates can use: ix itself or, for a wildcard
// index, a view for each path of the predicates.
func views(ix *Index, preds []predicate) []*Index {
	at := ix.WildcardPart()
	if at < 0 {
		return []*Index{ix}
	}
	var out []*Index
	seen := map[string]bool{}
	for _, p := range preds {
		if seen[p.path] || slices.ContainsFunc(ix.Parts, func(part schema.Part) bool { return part.Path == p.path }) {
			continue
		}
		seen[p.path] = true
		if v := view(ix, p.path); v != nil {
			out = append(out, v)
		}
	}
	return out
}

// prefixView returns the view of a wildcard index for its ordinary leading parts, if a
// predicate is on the first of them; else nil.
func prefixView(ix *Index, preds []predicate) *Index {
	if ix.WildcardPart() <= 0 || !slices.ContainsFunc(preds, func(p predicate) bool { return p.path == ix.Parts[0].Path }) {
		return nil
	}
	return view(ix, "")
}

// view makes the view of one path; of none, for the ordinary parts in front.
func view(ix *Index, path string) *Index {
	at := ix.WildcardPart()
	w := &wildPath{path: path, part: at}
	s := *ix.Index
	s.Parts = ix.KeyParts()
	s.Parts[at].Plugin = pathPlugin
	field := &s.Parts[at+1]
	field.Plugin, field.Path = "", path
	field.Components = strings.Split(path, ".")
	multikey := make(schema.MultikeyPaths, len(s.Parts))
	if path == "" {
		w.paths = Intervals{Point(bson.MinKey), {bson.String(""), bson.Document(bson.Empty), true, false}}
		w.vague = true
		field.Path = ix.Parts[at].Path
		if ix.Multikey.Any() {
			multikey[at+1] = 1
		}
	} else if !w.expand(ix, field.Components, multikey) {
		return nil
	}
	var key bson.Builder
	for _, p := range s.Parts {
		key.Int32(p.Path, map[bool]int32{false: 1, true: -1}[p.Descending])
	}
	s.Key, s.Sparse, s.Plugin = key.Finish(), true, ""
	v := *ix
	v.Index, v.Multikey, v.Wild = &s, multikey, w
	return &v
}

// expand sets the paths under which the index has the values of the path: a number in it may be an array
// index, which paths in the index leave out. It returns false where the index does not cover all that the
// number may stand for, or has it under another path: that of a field in a nameless one lacks the first dot.
//
// A name with dots in it is in the index as a path, so that keys at a path of several
// components decide nothing.
func (w *wildPath) expand(ix *Index, cs []string, multikey schema.MultikeyPaths) bool {
	type variant struct {
		path string
		held bool // the index may have it
	}
	if cs[0] == "" {
		return false
	}
	w.vague = len(cs) > 1 || ix.Multikey.Nameless()
	variants := []variant{{cs[0], true}}
	note := func(c int) {
		if slices.ContainsFunc(variants, func(v variant) bool { return ix.Multikey.ArrayAt(v.path) }) {
			multikey[w.part+1] |= 1 << min(c, 63)
		}
	}
	note(0)
	for c, name := range cs[1:] {
		var next []variant
		for _, v := range variants {
			if bson.AllDigits(name) {
				held := v.held && ix.Multikey.ArrayAt(v.path)
				if held && c+2 < len(cs) {
					w.picked = append(w.picked, Point(bson.String(v.path)))
				}
				w.picks = w.picks || held
				next = append(next, variant{v.path, held})
			}
			next = append(next, variant{v.path + "." + name, v.held})
		}
		if len(next) > maxPathVariants {
			return false
		}
		variants = next
		note(c + 1)
	}
	for _, v := range variants {
		if !ix.Covers(v.path) {
			return false
		}
		if v.held {
			w.paths = append(w.paths, Point(bson.String(v.path)))
		}
	}
	w.paths = normalize(w.paths)
	return true
}

// settle completes the bounds of a view once its field is bounded: values that are
// objects are at the paths below. It returns false if the view is useless.
func (w *wildPath) settle(ix *Index, bounds []Intervals, bound bool) bool {
	if w.path == "" {
		return true
	}
	if !bound {
		return false
	}
	paths := append(slices.Clone(w.paths), w.picked...)
	if !holdsObjects(bounds[w.part+1]) {
		if len(w.picked) > 0 {
			bounds[w.part+1] = normalize(append(slices.Clone(bounds[w.part+1]), wholeClass(bson.TypeArray)))
			w.paths = normalize(paths)
			bounds[w.part] = w.paths
		}
		return true
	}
	// The keys at the paths below do not decide conditions on the object.
	bounds[w.part+1] = All
	for _, p := range w.paths {
		paths = append(paths, Interval{bson.String(p.Lo.Str() + "."), bson.String(p.Lo.Str() + "/"), true, false})
	}
	w.paths = normalize(paths)
	bounds[w.part] = w.paths
	return true
}

// guesses reports whether the bounds of a part of the view include keys that do not
// decide the predicates: of other fields, or of values inside objects. w may be nil.
func (w *wildPath) guesses(part int, l Intervals) bool {
	return w != nil && part == w.part+1 && (w.vague || holdsObjects(l))
}

// holdsObjects reports whether the intervals include objects or arrays, of which a
// wildcard index only has the parts.
func holdsObjects(l Intervals) bool {
	classes := Intervals{wholeClass(bson.TypeDocument), wholeClass(bson.TypeArray)}
	return slices.ContainsFunc(intersect(l, classes), func(iv Interval) bool { return !iv.IsPoint() || !iv.Lo.Doc().IsEmpty() })
}

// wildcardCan reports whether a wildcard index can answer a predicate: none that is
// also true for documents without the field, and none that compares objects or arrays,
// of which the index only has the parts.
func wildcardCan(n match.Node) bool {
	switch n := n.(type) {
	case *match.Compare:
		if n.Op == match.Eq {
			return wildcardHolds(n.Value)
		}
		switch n.Value.Type {
		case bson.TypeDocument:
			return n.Op == match.Lte && n.Value.Doc().IsEmpty() // no other object is as small
		case bson.TypeArray, bson.TypeMinKey, bson.TypeMaxKey:
			return false
		}
		return !n.Value.IsNullish()
	case *match.In:
		return !slices.ContainsFunc(n.Values, func(v bson.Value) bool { return !wildcardHolds(v) })
	case *match.Not:
		cmp, ok := n.Child.(*match.Compare)
		return ok && cmp.Op == match.Eq && cmp.Value.Type == bson.TypeNull
	case *match.ElemMatchValue:
		return !slices.ContainsFunc(n.Children, func(c match.Node) bool { return !wildcardCan(c) })
	case *match.Regex, *match.Exists, *match.Mod, *match.Type:
		return true
	}
	return false
}

// wildcardHolds reports whether the documents with a value are found at its key.
func wildcardHolds(v bson.Value) bool {
	switch v.Type {
	case bson.TypeNull, bson.TypeUndefined:
		return false
	case bson.TypeDocument, bson.TypeArray:
		return v.Doc().IsEmpty()
	}
	return true
}
