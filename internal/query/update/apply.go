package update

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxPadding bounds the nulls that one update puts in front of a new element of
// an array.
const maxPadding = 1500000

func (m *modifiers) apply(doc bson.Doc, c *Context) (bson.Doc, error) {
	if err := c.resolve(m.renames); err != nil {
		return nil, err
	}
	out, err := c.document(c.room(len(doc)+m.grows), &m.root, doc, nil)
	if err != nil || !c.changed {
		return doc, err
	}
	if c.deep && bson.ExceedsDepth(out, bson.MaxDepth) {
		return nil, mongoerr.New(mongoerr.Overflow, "Document exceeds maximum nesting depth of %d", bson.MaxDepth)
	}
	return out, checkID(out)
}

// appendKey begins an element; the caller appends its payload.
func appendKey(dst []byte, t bson.Type, name string) []byte {
	return append(append(append(dst, byte(t)), name...), 0)
}

// seal ends the document that begins at start.
func seal(dst []byte, start int) ([]byte, error) {
	dst = append(dst, 0)
	if len(dst)-start > math.MaxInt32 {
		return dst, bson.SizeError(len(dst)-start, nil)
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

// children returns the fields of a node, the positional $ replaced by the name
// of the element that it stands for.
func (c *Context) children(n *node, f *frame) ([]child, error) {
	if n.positional == nil {
		return n.children, nil
	}
	if c.ArrayIndex == "" {
		return nil, mongoerr.New(mongoerr.BadValue, "The positional operator did not find the match needed from the query.")
	}
	kids := append(make([]child, 0, len(n.children)+1), n.children...)
	i := findChild(kids, c.ArrayIndex)
	if i < 0 {
		return append(kids, newChild(c.ArrayIndex, n.positional)), nil
	}
	merged, err := merge(kids[i].node, n.positional, f.path(c.ArrayIndex))
	kids[i].node = merged
	return kids, err
}

// lookup finds the child of n with a name; kids is what children returned.
func lookup(n *node, kids []child, name string) int {
	if n.positional == nil {
		return n.find(name)
	}
	return findChild(kids, name)
}

// document appends the updated document: its fields in their order, then new fields in
// the order of the tree. f leads to the document and is nil for the outermost.
func (c *Context) document(dst []byte, n *node, d bson.Doc, f *frame) ([]byte, error) {
	kids, err := c.children(n, f)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var done bson.NumberSet
	done.Init(len(kids))
	run, off, left := 4, 4, len(kids)
	for it := d.Iter(); left > 0 && it.Next(); {
		from := off
		off += 2 + len(it.Key) + len(it.Value.Data)
		i := lookup(n, kids, it.Key)
		if i < 0 || done.Has(i) {
			continue
		}
		dst = append(dst, d[run:from]...)
		run = off
		left--
		done.Add(i)
		if dst, err = c.existing(dst, kids[i].node, frame{f, it.Key, it.Value}, false); err != nil {
			return dst, err
		}
	}
	dst = append(dst, d[run:len(d)-1]...)
	for i := 0; i < len(kids) && left > 0; i++ {
		if done.Has(i) {
			continue
		}
		left--
		if dst, err = c.missing(dst, kids[i].node, frame{up: f, name: kids[i].name}); err != nil {
			return dst, err
		}
	}
	return seal(dst, start)
}

// array appends an updated array whose elements are named by index. Elements after the
// end are created, with nulls in between.
func (c *Context) array(dst []byte, n *node, a bson.Doc, f *frame) ([]byte, error) {
	kids, err := c.children(n, f)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var done bson.NumberSet
	done.Init(len(kids))
	run, off, size := 4, 4, 0
	for it := a.Iter(); it.Next(); size++ {
		from := off
		off += 2 + len(it.Key) + len(it.Value.Data)
		i := elementChild(n, kids, size)
		if i < 0 {
			continue
		}
		dst = append(dst, a[run:from]...)
		run = off
		done.Add(i)
		if dst, err = c.existing(dst, kids[i].node, frame{f, it.Key, it.Value}, true); err != nil {
			return dst, err
		}
	}
	dst = append(dst, a[run:len(a)-1]...)
	for i, k := range kids {
		if done.Has(i) {
			continue
		}
		if k.index < size {
			err = c.blocked(k.node, k.name, f)
		} else {
			dst, size, err = c.element(dst, k, size, f)
		}
		if err != nil {
			return dst, err
		}
	}
	return seal(dst, start)
}

// elementChild finds the child for the element at an index.
func elementChild(n *node, kids []child, at int) int {
	if n.positional == nil && n.index != nil {
		return n.find(bson.Index(at))
	}
	for i := range kids {
		if kids[i].index == at {
			return i
		}
	}
	return -1
}

// element creates an element after the end of an array of size elements, and returns
// the new size.
func (c *Context) element(dst []byte, k child, size int, f *frame) ([]byte, int, error) {
	mark := len(dst)
	if k.index-size <= maxPadding {
		for i := size; i < k.index; i++ {
			dst = append(strconv.AppendInt(append(dst, byte(bson.TypeNull)), int64(i), 10), 0)
		}
	}
	before := len(dst)
	dst, err := c.missing(dst, k.node, frame{up: f, name: bson.Index(k.index)})
	if err != nil {
		return dst, size, err
	}
	if len(dst) == before {
		return dst[:mark], size, nil
	}
	if k.index-size > maxPadding {
		return dst, size, mongoerr.New(mongoerr.CannotBackfillArray, "can't backfill more than %d elements", maxPadding)
	}
	return dst, k.index + 1, nil
}

// existing appends the update of an existing element: at is the frame of the element
// itself.
func (c *Context) existing(dst []byte, n *node, at frame, inArray bool) ([]byte, error) {
	if n.leaf != nil {
		return c.change(dst, n.leaf, at, inArray)
	}
	var err error
	dst = appendKey(dst, at.v.Type, at.name)
	switch {
	case len(n.filters) > 0:
		return c.filtered(dst, n, &at)
	case at.v.Type == bson.TypeDocument:
		return c.document(dst, n, at.v.Doc(), &at)
	case at.v.Type == bson.TypeArray:
		return c.array(dst, n, at.v.Doc(), &at)
	}
	kids, err := c.children(n, &at)
	if err != nil {
		return dst, err
	}
	for _, k := range kids {
		if err := c.blocked(k.node, k.name, &at); err != nil {
			return dst, err
		}
	}
	return append(dst, at.v.Data...), nil
}

// change appends the result of an operator on an existing element.
func (c *Context) change(dst []byte, l *leaf, at frame, inArray bool) ([]byte, error) {
	if l.insertOnly && !c.Insert {
		return append(appendKey(dst, at.v.Type, at.name), at.v.Data...), nil
	}
	if r, ok := l.op.(*renameTo); ok && !c.renamed[r.number].IsMissing() {
		if err := r.checkTarget(c, at.up); err != nil {
			return dst, err
		}
		if l.onID {
			return dst, immutableError(l.path)
		}
	}
	mark := len(dst)
	dst = appendKey(dst, at.v.Type, at.name)
	body := len(dst)
	dst, t, err := l.op.apply(c, dst, at.name, at.v)
	if err != nil {
		return dst, err
	}
	if t == bson.Missing && inArray {
		// An array keeps its length.
		t = bson.TypeNull
	}
	if t == at.v.Type && bytes.Equal(dst[body:], at.v.Data) {
		return dst, nil
	}
	if l.onID {
		return dst, immutableError(l.path)
	}
	c.changed = true
	if t == bson.Missing {
		return dst[:mark], nil
	}
	dst[mark] = byte(t)
	return dst, c.written(l, t)
}

// written checks the path of a written value.
func (c *Context) written(l *leaf, t bson.Type) error {
	if t == bson.TypeDocument || t == bson.TypeArray {
		c.deep = true
	}
	if l.dollar && !c.Insert {
		return dollarError(l.path)
	}
	return nil
}

// missing appends the result of a part of the tree for a missing element: at is the
// frame of the new element. It may append nothing.
func (c *Context) missing(dst []byte, n *node, at frame) ([]byte, error) {
	if n.leaf != nil {
		return c.create(dst, n.leaf, at)
	}
	if len(n.filters) > 0 {
		return dst, mongoerr.New(mongoerr.BadValue,
			"The path '%s' must exist in the document in order to apply array updates.", at.path(""))
	}
	kids, err := c.children(n, &at)
	if err != nil {
		return dst, err
	}
	mark := len(dst)
	dst = appendKey(dst, bson.TypeDocument, at.name)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, k := range kids {
		if dst, err = c.missing(dst, k.node, frame{up: &at, name: k.name}); err != nil {
			return dst, err
		}
	}
	if len(dst) == start+4 {
		return dst[:mark], nil
	}
	c.deep = true
	return seal(dst, start)
}

// create appends a new element.
func (c *Context) create(dst []byte, l *leaf, at frame) ([]byte, error) {
	if !l.creates || l.insertOnly && !c.Insert {
		return dst, nil
	}
	if r, ok := l.op.(*renameTo); ok {
		if err := r.checkTarget(c, at.existing()); err != nil {
			return dst, err
		}
	}
	mark := len(dst)
	dst, t, err := l.op.apply(c, appendKey(dst, bson.TypeNull, at.name), at.name, bson.Value{})
	if err != nil {
		return dst, err
	}
	if t == bson.Missing {
		return dst[:mark], nil
	}
	if l.onID && at.up != nil && !c.doc.Lookup("_id").IsMissing() {
		return dst, mongoerr.New(mongoerr.ImmutableField,
			"Updating the path '_id' to %s would modify the immutable field '_id'", elementText("_id", c.doc.Lookup("_id")))
	}
	c.changed = true
	dst[mark] = byte(t)
	return dst, c.written(l, t)
}

// blocked returns the error of a path through a value that has no fields: name is the
// next part, f the value. Operators that only remove may ignore it.
func (c *Context) blocked(n *node, name string, f *frame) error {
	if l := n.leaf; l != nil {
		switch r, isRename := l.op.(*renameTo); {
		case l.insertOnly && !c.Insert, l.lenient, isRename && c.renamed[r.number].IsMissing():
			return nil
		case isRename:
			if err := r.checkTarget(c, f); err != nil {
				return err
			}
		case !l.creates:
			return mongoerr.New(mongoerr.PathNotViable,
				"Cannot use the part (%s) of (%s) to traverse the element (%s)", name, l.path, f.text())
		}
		return mongoerr.New(mongoerr.PathNotViable, "Cannot create field '%s' in element %s", name, f.text())
	}
	if len(n.filters) > 0 {
		return mongoerr.New(mongoerr.BadValue,
			"The path '%s' must exist in the document in order to apply array updates.", f.path("")+"."+name)
	}
	kids, err := c.children(n, f)
	if err != nil {
		return err
	}
	for _, k := range kids {
		if err := c.blocked(k.node, name, f); err != nil {
			return err
		}
	}
	return nil
}

// filtered appends an updated array whose elements are selected by array filters.
func (c *Context) filtered(dst []byte, n *node, f *frame) ([]byte, error) {
	if f.v.Type != bson.TypeArray {
		return dst, mongoerr.New(mongoerr.BadValue, "Cannot apply array updates to non-array element %s", elementText(f.name, f.v))
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for it := f.v.Doc().Iter(); it.Next(); {
		var chosen *node
		for _, kid := range n.filters {
			if err := c.tick(); err != nil {
				return dst, err
			}
			if kid.filter != nil {
				if ok, err := kid.filter.MatchValue(it.Value, nil); err != nil {
					return dst, err
				} else if !ok {
					continue
				}
			}
			if chosen == nil {
				chosen = kid.node
				continue
			}
			var err error
			if chosen, err = merge(chosen, kid.node, f.path("")+"."+it.Key); err != nil {
				return dst, err
			}
		}
		if chosen == nil {
			dst = append(appendKey(dst, it.Value.Type, it.Key), it.Value.Data...)
			continue
		}
		var err error
		if dst, err = c.existing(dst, chosen, frame{f, it.Key, it.Value}, true); err != nil {
			return dst, err
		}
	}
	return seal(dst, start)
}
