package project

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Append is Apply into the free capacity of dst: it returns dst with the
// document appended, or dst as it was and an error. A caller that reuses dst
// allocates nothing.
func (p *Projection) Append(dst []byte, env *expr.Env, doc bson.Doc) ([]byte, error) {
	if env != nil {
		env.WithRoot(doc)
	}
	if p.kind == ReplaceRoot {
		return p.replaceRoot(dst, env, doc)
	}
	w := walker{kind: p.kind, env: env, root: doc, element: noElement}
	if p.positional && p.filter != nil {
		if ok, index, err := p.filter.MatchArrayIndex(doc, nil); err != nil {
			return dst, err
		} else if i, err := strconv.Atoi(index); ok && err == nil {
			w.element = i
		}
	}
	out, err := w.doc(dst, p.root, doc, place{positional: p.positional})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// noElement is the element that no filter matched.
const noElement = -1

// walker carries one application of a projection through a document.
type walker struct {
	kind    Kind
	env     *expr.Env
	root    bson.Doc
	element int // the element of the positional operator, or noElement
}

// place describes the path to a value.
type place struct {
	positional bool // the positional operator has met no array yet
	nested     bool // inside an array in an array, where $slice does not reach
}

// key is the name of an element: a field's, or the index in an array.
type key struct {
	name  string
	index int // not negative in an array
}

func named(name string) key { return key{name, -1} }

func appendKey(dst []byte, t bson.Type, k key) []byte {
	dst = append(dst, byte(t))
	if k.index >= 0 {
		dst = strconv.AppendInt(dst, int64(k.index), 10)
	} else {
		dst = append(dst, k.name...)
	}
	return append(dst, 0)
}

func appendElement(dst []byte, k key, v bson.Value) []byte {
	return append(appendKey(dst, v.Type, k), v.Data...)
}

// open begins a document at the end of dst; seal ends it.
func open(dst []byte) []byte { return append(dst, 0, 0, 0, 0) }

func seal(dst []byte, start int) ([]byte, error) {
	dst = append(dst, 0)
	if len(dst)-start > math.MaxInt32 {
		return dst, bson.SizeError(len(dst)-start, nil)
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

// doc appends the projection of document d by node n: first d's fields in their order,
// then computed fields that d does not have.
func (w *walker) doc(dst []byte, n *node, d bson.Doc, at place) ([]byte, error) {
	start := len(dst)
	dst = open(dst)
	var done bson.NumberSet
	done.Init(len(n.fields))
	var err error
	run, off, left := 4, 4, len(n.fields)
	for it := d.Iter(); it.Next(); {
		from := off
		off += 2 + len(it.Key) + len(it.Value.Data)
		i := n.find(it.Key)
		if i < 0 && w.kind != Inclusion {
			continue
		}
		if w.kind != Inclusion {
			dst = append(dst, d[run:from]...)
		}
		run = off
		if i < 0 {
			continue
		}
		if dst, err = w.field(dst, n.fields[i], it.Value, at, &done, i); err != nil {
			return dst, err
		}
		if left--; left == 0 && w.kind == Inclusion {
			break
		}
	}
	if w.kind != Inclusion {
		dst = append(dst, d[run:off]...)
	}
	if n.computes {
		if dst, err = w.additions(dst, n, &done); err != nil {
			return dst, err
		}
	}
	return seal(dst, start)
}

// field appends the projection of a field of the document.
func (w *walker) field(dst []byte, f *field, v bson.Value, at place, done *bson.NumberSet, i int) ([]byte, error) {
	switch f.do {
	case keep:
		return w.kept(dst, f, v, at)
	case compute, pick:
		if w.kind == Inclusion {
			return dst, nil
		}
		done.Add(i)
		return w.computed(dst, f)
	case descend:
		done.Add(i)
		at.positional = at.positional && f.positional
		return w.value(dst, named(f.name), f.sub, v, at)
	}
	return dst, nil
}

// additions appends the computed fields that the document does not have, in the order
// of the specification.
func (w *walker) additions(dst []byte, n *node, done *bson.NumberSet) ([]byte, error) {
	var err error
	for i, f := range n.fields {
		switch {
		case done.Has(i):
			continue
		case f.do == compute || f.do == pick:
			dst, err = w.computed(dst, f)
		case f.do == descend && f.sub.computes:
			dst, err = w.value(dst, named(f.name), f.sub, bson.Value{}, place{})
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// computed appends the value of an expression, or the element that $elemMatch
// picks; a missing one appends nothing.
func (w *walker) computed(dst []byte, f *field) ([]byte, error) {
	if f.do == pick {
		return w.picked(dst, f)
	}
	v, err := f.expr.Eval(w.env)
	if err != nil || v.IsMissing() {
		return dst, err
	}
	return appendElement(dst, named(f.name), v), nil
}

func (w *walker) picked(dst []byte, f *field) ([]byte, error) {
	v := w.root.Lookup(f.name)
	if v.Type != bson.TypeArray {
		return dst, nil
	}
	ok, index, err := f.filter.MatchArrayIndex(w.root, nil)
	if err != nil || !ok {
		return dst, err
	}
	return appendOnly(dst, named(f.name), v.Doc().Lookup(index))
}

// appendOnly appends an array with one element.
func appendOnly(dst []byte, k key, v bson.Value) ([]byte, error) {
	dst = appendKey(dst, bson.TypeArray, k)
	start := len(dst)
	return seal(appendElement(open(dst), key{index: 0}, v), start)
}

// kept appends a kept field, whose array may be shortened.
func (w *walker) kept(dst []byte, f *field, v bson.Value, at place) ([]byte, error) {
	k := named(f.name)
	if v.Type != bson.TypeArray {
		return appendElement(dst, k, v), nil
	}
	if f.positional && at.positional {
		if w.element == noElement {
			return dst, errNoElement
		}
		i := 0
		for e := range v.Doc().Values() {
			if i == w.element {
				return appendOnly(dst, k, e)
			}
			i++
		}
		return dst, errElementMismatch
	}
	if f.slice == nil || at.nested {
		return appendElement(dst, k, v), nil
	}
	from, to := f.slice.bounds(v.Doc().Len())
	dst = appendKey(dst, bson.TypeArray, k)
	start, i := len(dst), 0
	dst = open(dst)
	for it := v.Doc().Iter(); i < to && it.Next(); i++ {
		if i >= from {
			dst = appendElement(dst, key{index: i - from}, it.Value)
		}
	}
	return seal(dst, start)
}

var (
	errNoElement = mongoerr.New(mongoerr.Code(51246),
		"positional operator '.$' couldn't find a matching element in the array")
	errElementMismatch = mongoerr.New(mongoerr.Code(51247),
		"positional operator '.$' element mismatch")
)

// value appends the projection of a value by node n: of documents, and of those in
// arrays at any depth. Other values become a document of the computed fields; without
// any, an inclusion drops them.
func (w *walker) value(dst []byte, k key, n *node, v bson.Value, at place) ([]byte, error) {
	switch {
	case v.Type == bson.TypeDocument:
		return w.doc(appendKey(dst, v.Type, k), n, v.Doc(), at)
	case v.Type == bson.TypeArray && at.positional:
		return w.positionalArray(dst, k, n, v.Doc())
	case v.Type == bson.TypeArray:
		dst = appendKey(dst, v.Type, k)
		start := len(dst)
		dst, _, err := w.elements(open(dst), n, v.Doc(), at)
		if err != nil {
			return dst, err
		}
		return seal(dst, start)
	case n.computes:
		return w.doc(appendKey(dst, bson.TypeDocument, k), n, bson.Empty, place{})
	case w.kind == Inclusion || v.IsMissing():
		return dst, nil
	}
	return appendElement(dst, k, v), nil
}

// elements appends the projections of an array's elements, and returns their number.
func (w *walker) elements(dst []byte, n *node, a bson.Doc, at place) (out []byte, count int, err error) {
	for it := a.Iter(); it.Next(); {
		inner := at
		inner.nested = at.nested || it.Value.Type == bson.TypeArray
		before := len(dst)
		if dst, err = w.value(dst, key{index: count}, n, it.Value, inner); err != nil {
			return dst, count, err
		}
		if len(dst) > before {
			count++
		}
	}
	return dst, count, nil
}

// positionalArray appends the array with only the element of the positional operator.
func (w *walker) positionalArray(dst []byte, k key, n *node, a bson.Doc) ([]byte, error) {
	if w.element == noElement {
		return dst, errNoElement
	}
	mark := len(dst)
	dst, _, err := w.elements(open(dst), n, a, place{})
	if err != nil {
		return dst, err
	}
	if dst, err = seal(dst, mark); err != nil {
		return dst, err
	}
	// The elements are built after mark, and the kept one is then moved to mark.
	e := bson.Doc(dst[mark:]).Lookup(bson.Index(w.element)).Clone()
	if e.IsMissing() {
		return dst, errElementMismatch
	}
	return appendOnly(dst[:mark], k, e)
}
