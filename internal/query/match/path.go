package match

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// leaf is the path of a node that looks at one path.
type leaf struct {
	// Path is the dotted path, empty inside a value $elemMatch.
	Path  string
	parts []string
}

func newLeaf(path string) leaf { return leaf{path, strings.Split(path, ".")} }

// FieldPath is the dotted path, empty if the node looks at the value
// itself.
func (l *leaf) FieldPath() string { return l.Path }

// subject is what a node is matched against.
type subject struct {
	v    bson.Value
	mode subjectMode
}

type subjectMode uint8

const (
	// document: v is a document, paths start at its fields.
	document subjectMode = iota
	// field: v is the value of the field that every path starts with, whatever
	// the name of that field is (array filters, $pull).
	field
	// element: v is what the path leads to (inside a value $elemMatch).
	element
)

// elemMatcher is the test of a node on one value.
type elemMatcher interface {
	elem(v bson.Value, env *Env) (bool, error)
}

// arrayMode says what an array at the end of a path means.
type arrayMode uint8

const (
	// each tries the elements, then the array itself.
	each arrayMode = iota
	// whole tries only the array itself.
	whole
)

// walker carries one path test through a document. A path that reaches an
// array in its middle continues in each element that is a document, and, if
// the next name is a number, in the element at that place.
type walker struct {
	m      elemMatcher
	env    *Env
	mode   arrayMode
	failed map[arrival]bool // where the path led to nothing; nil if it is short
}

// fewNames is up to how many names of a path are tried in every way.
const fewNames = 8

// arrival is an array and how many names were left when a path came there. A
// number is the name of a field and the place of an element, so that the ways
// into [{0: [{0: …}]}] double with each level.
type arrival struct {
	array *byte
	left  int
}

func (l *leaf) test(s subject, mode arrayMode, m elemMatcher, env *Env) (bool, error) {
	w := walker{m: m, env: env, mode: mode}
	switch s.mode {
	case document:
		return w.doc(s.v.Doc(), l.parts)
	case field:
		return w.value(s.v, l.parts[1:])
	}
	return m.elem(s.v, env)
}

func (w walker) doc(d bson.Doc, parts []string) (bool, error) {
	return w.value(d.Lookup(parts[0]), parts[1:])
}

// value continues from v with the remaining names.
func (w walker) value(v bson.Value, rest []string) (bool, error) {
	for len(rest) > 0 && v.Type == bson.TypeDocument {
		v, rest = v.Doc().Lookup(rest[0]), rest[1:]
	}
	if v.Type == bson.TypeArray {
		return w.array(v, rest)
	}
	if len(rest) > 0 {
		v = bson.Value{}
	}
	return w.m.elem(v, w.env)
}

func (w walker) array(a bson.Value, rest []string) (bool, error) {
	if len(rest) == 0 {
		if w.mode == each {
			for it := a.Doc().Iter(); it.Next(); {
				if err := w.env.tick(); err != nil {
					return false, err
				}
				if ok, err := w.m.elem(it.Value, w.env); ok || err != nil {
					w.env.record(it.Key)
					return ok, err
				}
			}
		}
		return w.m.elem(a, w.env)
	}
	index, here := bson.AllDigits(rest[0]), arrival{&a.Data[0], len(rest)}
	if w.failed[here] {
		return false, nil
	}
	if index && len(rest) > fewNames && w.failed == nil {
		w.failed = map[arrival]bool{}
	}
	for it := a.Doc().Iter(); it.Next(); {
		if err := w.env.tick(); err != nil {
			return false, err
		}
		if it.Value.Type == bson.TypeDocument {
			if ok, err := w.doc(it.Value.Doc(), rest); ok || err != nil {
				w.env.record(it.Key)
				return ok, err
			}
		}
		if index && it.Key == rest[0] {
			if ok, err := w.at(it.Value, rest[1:]); ok || err != nil {
				return ok, err
			}
		}
	}
	if w.failed != nil {
		w.failed[here] = true
	}
	return false, nil
}

// at continues from the element of an array that the path names by its number.
// Such an element at the path's end is tried as it is, also if it is an array.
func (w walker) at(v bson.Value, rest []string) (bool, error) {
	switch {
	case len(rest) == 0:
		return w.m.elem(v, w.env)
	case v.Type == bson.TypeDocument, v.Type == bson.TypeArray:
		return w.value(v, rest)
	}
	return false, nil
}
