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

// maxPathVariants bounds the indexed paths for one dotted path with numbers in it.
const maxPathVariants = 16

// wildPath is the path of a view of a wildcard index.
//
// A wildcard index holds paths and values: to a query about the field a.b it is
// the index {$_path: 1, "a.b": 1}, bounded to the path "a.b". Such a view is an
// ordinary Index with Wild set. Documents without the field are not in it.
type wildPath struct {
	path  string
	part  int       // of the paths, in the view
	paths Intervals // that the scan reads
	vague bool      // keys at the paths may belong to other fields
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
		if seen[p.path] || !ix.Covers(plainPath(p.path)) || slices.ContainsFunc(ix.Parts, func(part schema.Part) bool { return part.Path == p.path }) {
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

// plainPath leaves out the components that are numbers, as the paths in the index do if
// the number is an array index.
func plainPath(path string) string {
	cs := slices.DeleteFunc(strings.Split(path, "."), bson.AllDigits)
	return strings.Join(cs, ".")
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

// expand returns the paths under which the index has the values of the path: a number
// in it may be an array index, which paths in the index leave out.
func (w *wildPath) expand(ix *Index, cs []string, multikey schema.MultikeyPaths) bool {
	paths := []string{""}
	for c, name := range cs {
		var next []string
		for _, p := range paths {
			if c > 0 && bson.AllDigits(name) && ix.Multikey.ArrayAt(p) {
				next = append(next, p)
				w.vague = true
			}
			q := name
			if p != "" {
				q = p + "." + name
			}
			next = append(next, q)
		}
		if len(next) > maxPathVariants {
			return false
		}
		for _, p := range next {
			if ix.Multikey.ArrayAt(p) {
				multikey[w.part+1] |= 1 << min(c, 63)
			}
		}
		paths = next
	}
	for _, p := range paths {
		w.paths = append(w.paths, Point(bson.String(p)))
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
	if !holdsObjects(bounds[w.part+1]) {
		return true
	}
	// The keys at the paths below do not decide conditions on the object.
	bounds[w.part+1] = All
	paths := slices.Clone(w.paths)
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
