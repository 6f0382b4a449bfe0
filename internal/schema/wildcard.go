package schema

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// wildcard is the index of every field, or of every field below one: its keys
// are the path of a value and the value. In a compound one, the ordinary parts
// are before or after the two, and must not have arrays.
type wildcard struct{}

// WildcardPathName is the name of the part that holds paths.
const WildcardPathName = "$_path"

func (wildcard) validatePattern(key bson.Doc) error {
	n := 0
	for name, v := range key.All() {
		switch {
		case v.Type == bson.TypeString:
			return mongoerr.New(mongoerr.Code(7246202), "Wildcard indexes do not allow compounding with '%s' index type", v.Str())
		case isWildcardPath(name):
			n++
		}
	}
	if n > 1 {
		return mongoerr.New(mongoerr.Code(7246201), "wildcard indexes do not allow more than one wildcard field, but found %d", n)
	}
	return nil
}

func (wildcard) validateSpec(spec bson.Doc) error {
	for _, name := range []string{"unique", "sparse"} {
		if spec.Lookup(name).Truthy() {
			return cannotCreate("Index type 'wildcard' does not support the %s option", name)
		}
	}
	if spec.Has("expireAfterSeconds") {
		return cannotCreate("Index type 'wildcard' cannot be a TTL index")
	}
	if bson.ClampToInt64(spec.Lookup("v")) < 2 {
		return cannotCreate("Index type 'wildcard' needs index version 2")
	}
	return validateOverlap(spec)
}

// validateOverlap makes sure that no ordinary part of a compound wildcard index
// without a projection is under the wildcard.
func validateOverlap(spec bson.Doc) error {
	key := spec.Lookup("key").Doc()
	if key.Len() > 1 && key.Has(wildcardName) && !spec.Has("wildcardProjection") {
		return cannotCreate("A compound index on all fields needs a 'wildcardProjection' that excludes its regular fields")
	}
	if spec.Has("wildcardProjection") {
		return nil
	}
	var at []string
	for name := range key.All() {
		if isWildcardPath(name) {
			at = strings.Split(name, ".")
			at = at[:len(at)-1]
		}
	}
	for name := range key.All() {
		if !isWildcardPath(name) && under(at, strings.Split(name, ".")) {
			return mongoerr.New(mongoerr.Code(7246204),
				"A wildcard index field should not overlap with and index key fields if wildcard projection is empty, however '%s' is overlapping with the wildcard index field.", name)
		}
	}
	return nil
}

func (wildcard) collated() bool { return true }

// wildcardScope says which paths are under a wildcard index.
type wildcardScope struct {
	at      int      // the wildcard's part
	exclude bool     // paths are excluded, else they are included
	paths   []string // dotted
	withID  bool     // _id is included as well
}

func newWildcardScope(key bson.Doc, projection bson.Value) *wildcardScope {
	s := &wildcardScope{exclude: true}
	for name := range key.All() {
		if isWildcardPath(name) {
			if name != wildcardName {
				s.exclude, s.paths = false, []string{strings.TrimSuffix(name, "."+wildcardName)}
			}
			break
		}
		s.at++
	}
	if projection.Type == bson.TypeDocument {
		s.project("", projection.Doc())
	}
	return s
}

// same reports whether both include the same paths, in whatever order they were
// named; nil is the scope of any other index.
func (s *wildcardScope) same(o *wildcardScope) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.exclude == o.exclude && s.withID == o.withID &&
		slices.Equal(slices.Sorted(slices.Values(s.paths)), slices.Sorted(slices.Values(o.paths)))
}

func (s *wildcardScope) project(prefix string, d bson.Doc) {
	for name, v := range d.All() {
		switch {
		case v.Type == bson.TypeDocument:
			s.project(prefix+name+".", v.Doc())
		case prefix+name == "_id":
			s.withID = v.Truthy()
			if d.Len() == 1 && prefix == "" {
				s.exclude = !v.Truthy()
			}
		default:
			s.exclude = !v.Truthy()
			s.paths = append(s.paths, prefix+name)
		}
	}
}

// covers reports whether values at path are in the index, and whether values
// below it may be.
func (s *wildcardScope) covers(path string) (holds, below bool) {
	if top, _, _ := strings.Cut(path, "."); top == "_id" && !slices.ContainsFunc(s.paths, func(p string) bool { return p == "_id" || strings.HasPrefix(p, "_id.") }) {
		return s.withID, s.withID
	}
	for _, p := range s.paths {
		switch {
		case path == p || strings.HasPrefix(path, p) && path[len(p)] == '.':
			return !s.exclude, !s.exclude
		case strings.HasPrefix(p, path) && p[len(path)] == '.':
			below = true
		}
	}
	if s.exclude {
		return true, true
	}
	return false, below
}

// WildcardPart is which part of the key pattern is the wildcard, or −1.
func (ix *Index) WildcardPart() int {
	if ix.scope == nil {
		return -1
	}
	return ix.scope.at
}

// Covers reports whether a wildcard index holds the values at a dotted path.
func (ix *Index) Covers(path string) bool {
	if ix.scope == nil {
		return false
	}
	holds, _ := ix.scope.covers(path)
	return holds
}

// KeyParts are the parts of the keys as they are stored: those of the pattern,
// and in front of a wildcard the part that holds its path.
func (ix *Index) KeyParts() []Part {
	if ix.scope == nil {
		return ix.Parts
	}
	at := ix.scope.at
	path := Part{Path: WildcardPathName, Components: []string{WildcardPathName}}
	return slices.Insert(slices.Clone(ix.Parts), at, path)
}

// wildcardWords is how many words of the multikey paths of a wildcard index
// note which paths have arrays. Paths share bits, so that an index may seem to
// have more arrays than it has.
const wildcardWords = 16

func arrayBit(path string) (word, bit int) {
	h := fnv.New32a()
	h.Write([]byte(path))
	n := int(h.Sum32() % (wildcardWords * 64))
	return n / 64, n % 64
}

// ArrayAt reports whether a wildcard index with those multikey paths may hold
// elements of an array that stands at path.
func (m MultikeyPaths) ArrayAt(path string) bool {
	word, bit := arrayBit(path)
	return word < len(m) && m[word]&(1<<bit) != 0
}

// Nameless reports whether documents of a wildcard index with those multikey paths may
// have a field with an empty name at the top: the paths of what is in it lack the dot in
// front, and are those of other fields.
func (m MultikeyPaths) Nameless() bool { return m.ArrayAt("") }

// wildcardKeys makes the keys of one document.
type wildcardKeys struct {
	ix     *Index
	dst    []Key
	values [maxParts + 1]bson.Value
	arrays MultikeyPaths
	path   []byte
	any    bool
}

func (wildcard) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	w := wildcardKeys{ix: ix, dst: dst}
	for i := range ix.Parts {
		if i == ix.scope.at {
			continue
		}
		v, _ := walk(doc, ix.Parts[i].Components)
		switch v.Type {
		case bson.TypeArray:
			return dst, nil, mongoerr.New(mongoerr.Code(7246301),
				"Non-wildcard field '%s' of a compound wildcard index cannot have an array value", ix.Parts[i].Path)
		case bson.Missing:
			v = bson.Null
		}
		at := i
		if i > ix.scope.at {
			at++
		}
		w.values[at] = v
	}
	w.document(doc)
	if !w.any && len(ix.Parts) > 1 {
		// A query on the ordinary parts finds the document here.
		w.append(bson.MinKey, bson.MinKey)
	}
	keys := sortKeys(w.dst[len(dst):])
	return w.dst[:len(dst)+len(keys)], w.arrays, nil
}

func (w *wildcardKeys) document(d bson.Doc) {
	for name, v := range d.All() {
		mark := len(w.path)
		if mark > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, name...)
		holds, below := w.ix.scope.covers(string(w.path))
		if holds || below {
			w.value(v, holds)
		}
		w.path = w.path[:mark]
	}
}

// value makes the keys for the value at the path; holds says that the path
// itself is in the index.
func (w *wildcardKeys) value(v bson.Value, holds bool) {
	switch v.Type {
	case bson.TypeDocument:
		if !v.Doc().IsEmpty() {
			if len(w.path) == 0 {
				w.note() // see Nameless
			}
			w.document(v.Doc())
			return
		}
	case bson.TypeArray:
		w.array(v.Doc(), holds)
		return
	}
	if holds {
		w.emit(v)
	}
}

func (w *wildcardKeys) array(a bson.Doc, holds bool) {
	w.note()
	if a.IsEmpty() && holds {
		w.emit(bson.Undefined)
	}
	for v := range a.Values() {
		if v.Type == bson.TypeDocument && !v.Doc().IsEmpty() {
			w.document(v.Doc())
		} else if holds {
			w.emit(v)
		}
	}
}

// note notes that an array is at the path.
func (w *wildcardKeys) note() {
	if w.arrays == nil {
		w.arrays = make(MultikeyPaths, wildcardWords)
	}
	word, bit := arrayBit(string(w.path))
	w.arrays[word] |= 1 << bit
}

func (w *wildcardKeys) emit(v bson.Value) { w.append(bson.String(string(w.path)), v) }

func (w *wildcardKeys) append(path, v bson.Value) {
	w.any = true
	at := w.ix.scope.at
	w.values[at], w.values[at+1] = path, v
	w.dst = w.ix.appendKey(w.dst, w.values[:len(w.ix.Parts)+1])
}
