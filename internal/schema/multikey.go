package schema

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// expansion makes the keys of a document with arrays on indexed paths: one for
// each element of the array. There is one array at each level (two are
// parallel arrays, an error), and arrays inside its documents are the next
// level.
type expansion struct {
	ix    *Index
	dst   []Key
	from  int // where this document's keys start in dst
	paths MultikeyPaths
	stack []progress // one for each part, level by level
	row   [maxParts]bson.Value
}

// progress is the progress of one part of the key.
type progress struct {
	used  int        // components walked; all of them: value is found
	value bson.Value // the part's value, once used is complete
	// A number as the next component also names an element of the current array:
	// its value, and how far the path led below it.
	numbered bool
	element  bson.Value
	below    int
}

// multikey makes the keys of a document that has an array on an indexed path.
func multikey(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	n := len(ix.Parts)
	e := expansion{ix: ix, dst: dst, from: len(dst), paths: make(MultikeyPaths, n), stack: make([]progress, n, 2*n)}
	err := e.document(doc, 0, 0)
	if err != nil {
		return dst, nil, err
	}
	keys := sortKeys(e.dst[e.from:])
	if !e.paths.Any() {
		e.paths = nil
	}
	return e.dst[:e.from+len(keys)], e.paths, nil
}

// document continues from the progress of a level into one document. missing
// counts the parts that were found nowhere.
func (e *expansion) document(doc bson.Doc, level, missing int) error {
	n := len(e.ix.Parts)
	state := e.level(level)
	var array bson.Value
	var arrayName string
	var under uint64 // the parts that lead to the array
	for i := range state {
		part := &e.ix.Parts[i]
		p := &state[i]
		if p.used == len(part.Components) {
			continue
		}
		v, err := extract(doc, part, p)
		if err != nil {
			return err
		}
		switch v.Type {
		case bson.Missing:
			p.used, p.value = len(part.Components), bson.Null
			missing++
			continue
		case bson.TypeArray:
			name := part.Components[p.used-1]
			if array.IsMissing() {
				array, arrayName = v, name
			} else if &array.Data[0] != &v.Data[0] {
				return mongoerr.New(mongoerr.CannotIndexParallelArrays, "cannot index parallel arrays [%s] [%s]", name, arrayName)
			}
			under |= 1 << i
		}
		p.value = v
	}
	if e.ix.Sparse && missing == n {
		return nil
	}
	if under == 0 {
		e.emit(state)
		return nil
	}
	e.mark(state, array.Doc(), under)
	return e.array(array.Doc(), level, missing, under)
}

// extract continues a part in doc. A component that is a number may name a
// field of doc or the element of the array that doc is in, not both.
func extract(doc bson.Doc, part *Part, p *progress) (bson.Value, error) {
	if p.numbered {
		if doc.Has(part.Components[p.used]) {
			return bson.Value{}, errAmbiguous(part, p.used)
		}
		p.used = p.below
		return p.element, nil
	}
	v, used := walk(doc, part.Components[p.used:])
	p.used += used
	return v, nil
}

// mark notes which parts lead through the array, and where a number in a path
// picks one of its elements.
func (e *expansion) mark(state []progress, array bson.Doc, under uint64) {
	for i := range state {
		p := &state[i]
		p.numbered = false
		if under&(1<<i) == 0 {
			continue
		}
		part := &e.ix.Parts[i]
		if p.used < len(part.Components) && isNumber(part.Components[p.used]) {
			if array.Has(part.Components[p.used]) {
				v, used := walk(array, part.Components[p.used:])
				p.numbered, p.element, p.below = true, v, p.used+used
				continue
			}
		}
		e.paths.set(i, p.used-1)
	}
}

// array makes the keys of each element; an empty array counts as one undefined
// element. Where every path continues into the element that it names, all
// elements have the keys of the first: made for each, they would multiply with
// every array inside.
func (e *expansion) array(array bson.Doc, level, missing int, under uint64) error {
	if array.IsEmpty() {
		return e.element(bson.Undefined, level, missing, under)
	}
	picked := e.picksOnly(level, under)
	first := true
	for it := array.Iter(); it.Next(); first = false {
		var err error
		if first || !picked {
			err = e.element(it.Value, level, missing, under)
		} else if it.Value.Type == bson.TypeDocument {
			err = e.checkNames(it.Value.Doc(), level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// level is the progress of the parts at a level.
func (e *expansion) level(i int) []progress {
	n := len(e.ix.Parts)
	return e.stack[i*n : (i+1)*n]
}

// picksOnly reports whether every path that leads to the array of a level
// continues into the element that it names.
func (e *expansion) picksOnly(level int, under uint64) bool {
	for i, p := range e.level(level) {
		if under&(1<<i) != 0 && !p.numbered {
			return false
		}
	}
	return true
}

// checkNames refuses a document in an array that has a field of the name by
// which a path picks an element.
func (e *expansion) checkNames(doc bson.Doc, level int) error {
	for i, p := range e.level(level) {
		if part := &e.ix.Parts[i]; p.numbered && doc.Has(part.Components[p.used]) {
			return errAmbiguous(part, p.used)
		}
	}
	return nil
}

func errAmbiguous(part *Part, component int) error {
	return mongoerr.New(mongoerr.Code(16746),
		"Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '%s' for array: %s",
		part.Components[component], part.Path)
}

func (e *expansion) element(v bson.Value, level, missing int, under uint64) error {
	n := len(e.ix.Parts)
	if len(e.stack) < (level+2)*n {
		e.stack = append(e.stack, make([]progress, n)...)
	}
	next := e.level(level + 1)
	copy(next, e.level(level))
	complete := true
	for i := range next {
		if next[i].used < len(e.ix.Parts[i].Components) {
			complete = false
		} else if under&(1<<i) != 0 {
			next[i].value = v
		}
	}
	if complete {
		e.emit(next)
		return nil
	}
	doc := bson.Empty
	if v.Type == bson.TypeDocument {
		doc = v.Doc()
	}
	return e.document(doc, level+1, missing)
}

func (e *expansion) emit(state []progress) {
	for i := range state {
		e.row[i] = state[i].value
	}
	e.dst = e.ix.appendKey(e.dst, e.row[:len(state)])
}

// isNumber reports whether a component of a path can be the index of an array.
func isNumber(c string) bool {
	if c == "" || len(c) > 1 && c[0] == '0' {
		return false
	}
	return !slices.ContainsFunc([]byte(c), func(b byte) bool { return b < '0' || b > '9' })
}
