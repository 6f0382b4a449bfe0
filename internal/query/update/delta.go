package update

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// delta is the difference between two documents, or two arrays, as version 2 of the
// entries of MongoDB's oplog has it (internal/oplog/diff.go describes the form). It can be
// applied to a document that is older or newer than the one it was made of: then it makes
// something that later entries correct.
type delta struct {
	// Of a document.
	changes map[string]deltaChange
	ends    []deltaField // new values in their order, for fields that are not at a place of their own

	// Of an array.
	array    bool
	resizes  bool
	size     int // the new length, where it resizes
	elements []deltaElement
}

// deltaKind is what happens to a field.
type deltaKind uint8

const (
	deltaGone   deltaKind = iota // it is removed
	deltaSet                     // it gets another value at its place
	deltaInsert                  // it gets another value at the end
	deltaInside                  // it changes inside
)

// deltaChange is the change of a field: of deltaSet the new value, of deltaInside the
// delta.
type deltaChange struct {
	kind   deltaKind
	value  bson.Value
	inside *delta
}

type deltaField struct {
	name  string
	value bson.Value
}

// deltaElement is the change of an element of an array: its new value, or the delta.
type deltaElement struct {
	index  int
	value  bson.Value
	inside *delta
}

// parseDelta parses a delta. Its depth is bounded by that of documents. Errors: 4728000
// for a field that is there twice, 4770500 to 4770521, 9.
func parseDelta(d bson.Doc) (*delta, error) {
	name, _ := d.First()
	switch {
	case d.IsEmpty():
		return nil, mongoerr.New(4770500, "Expected diff to be non-empty")
	case name == "a":
		return parseArrayDelta(d)
	}
	p := &delta{changes: map[string]deltaChange{}}
	last := -1 // the place of the section before in their order
	for section, v := range d.All() {
		if section == "" {
			return nil, mongoerr.New(4770505, "Expected sections field names in diff to be non-empty ")
		}
		kind := section[:1]
		at := strings.Index("duis", kind)
		inside := kind == "s"
		if at < 0 || at < last || at == last && !inside || len(section) > 1 && !inside {
			return nil, mongoerr.New(4770503, "Unexpected section: %s in document diff", kind)
		}
		last = at
		if v.Type != bson.TypeDocument {
			return nil, mongoerr.New(4770507, "Expected %s section to be type object", kind)
		}
		if err := p.section(section, v.Doc()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *delta) section(section string, d bson.Doc) error {
	if section[0] == 's' {
		inside, err := parseDelta(d)
		if err != nil {
			return err
		}
		return p.change(section[1:], deltaChange{kind: deltaInside, inside: inside})
	}
	kind := map[byte]deltaKind{'d': deltaGone, 'u': deltaSet, 'i': deltaInsert}[section[0]]
	for name, v := range d.All() {
		if err := p.change(name, deltaChange{kind: kind, value: v}); err != nil {
			return err
		}
		if kind != deltaGone {
			p.ends = append(p.ends, deltaField{name, v})
		}
	}
	return nil
}

func (p *delta) change(name string, c deltaChange) error {
	if _, twice := p.changes[name]; twice {
		return mongoerr.New(4728000, "duplicate field name in diff: %s", name)
	}
	p.changes[name] = c
	return nil
}

func parseArrayDelta(d bson.Doc) (*delta, error) {
	p := &delta{array: true}
	first, last := true, -1
	for section, v := range d.All() {
		switch {
		case first:
			if v.Type != bson.TypeBool {
				return nil, mongoerr.New(4770519, "Expected array header to be bool but got %s", elementText(section, v))
			}
			if !v.Bool() {
				return nil, mongoerr.New(4770520, "Expected array header to be value true but got %s", elementText(section, v))
			}
			first = false
			continue
		case section == "l" && last < 0 && !p.resizes:
			if v.Type != bson.TypeInt32 || v.Int32() < 0 {
				return nil, mongoerr.New(4770507, "Expected l section to be type int")
			}
			p.resizes, p.size = true, int(v.Int32())
			continue
		case len(section) < 2:
			return nil, mongoerr.New(4770521, "expected field name to be at least two characters long, but found: %s", section)
		}
		i, err := strconv.ParseUint(section[1:], 10, 31)
		if err != nil {
			return nil, mongoerr.New(4770512, "Expected integer but got %s", section[1:])
		}
		e := deltaElement{index: int(i)}
		switch {
		case section[0] == 'u':
			e.value = v
		case section[0] != 's':
			return nil, mongoerr.New(4770502, "Expected either 'u' (update) or 's' (sub diff) at index %d but got %s", i, elementText(section, v))
		case v.Type != bson.TypeDocument:
			return nil, mongoerr.New(4770501, "expected sub diff at index %d but got %s", i, elementText(section, v))
		default:
			if e.inside, err = parseDelta(v.Doc()); err != nil {
				return nil, err
			}
		}
		if e.index <= last || p.resizes && e.index >= p.size {
			return nil, mongoerr.New(mongoerr.FailedToParse, "the indexes of an array diff must rise, and be below its new length")
		}
		last = e.index
		p.elements = append(p.elements, e)
	}
	return p, nil
}

// apply returns the document that the delta makes of doc.
func (p *delta) apply(doc bson.Doc, c *Context) (bson.Doc, error) {
	var b bson.Builder
	b.Reset(c.room(len(doc)))
	if p.array {
		return nil, mongoerr.New(4770503, "Unexpected section: a in document diff")
	}
	if err := p.document(&b, doc, c); err != nil {
		return nil, err
	}
	out := b.Finish()
	if c.changed = !bytes.Equal(out, doc); !c.changed {
		return doc, nil
	}
	if was, is := c.doc.Lookup("_id"), out.Lookup("_id"); !was.IsMissing() && (is.IsMissing() || bson.Compare(was, is) != 0) {
		return nil, immutableError("_id")
	}
	if bson.ExceedsDepth(out, bson.MaxDepth) {
		return nil, mongoerr.New(mongoerr.Overflow, "Document exceeds maximum nesting depth of %d", bson.MaxDepth)
	}
	return out, checkID(out)
}

// document writes the fields of d as the delta makes them.
func (p *delta) document(b *bson.Builder, d bson.Doc, c *Context) error {
	placed := map[string]bool{}
	for name, v := range d.All() {
		change, ok := p.changes[name]
		switch {
		case !ok:
			b.Value(name, v)
		case change.kind == deltaSet:
			b.Value(name, change.value)
			placed[name] = true
		case change.kind == deltaInside:
			if err := change.inside.write(b, name, v, c); err != nil {
				return err
			}
		}
	}
	for _, f := range p.ends {
		if !placed[f.name] {
			b.Value(f.name, f.value)
		}
	}
	return fits(b)
}

// write writes a field or an element whose value the delta changes. A value that it is not
// made for becomes null, which a later entry of the oplog overwrites.
func (p *delta) write(b *bson.Builder, name string, v bson.Value, c *Context) error {
	if err := c.tick(); err != nil {
		return err
	}
	var err error
	switch {
	case !p.array && v.Type == bson.TypeDocument:
		err = p.document(b.OpenDoc(name), v.Doc(), c)
	case p.array && v.Type == bson.TypeArray:
		err = p.elementsOf(b.OpenArray(name), v.Doc(), c)
	default:
		b.Null(name)
		return fits(b)
	}
	if err == nil {
		b.Close()
	}
	return err
}

// elementsOf writes the elements of an array as the delta makes them.
func (p *delta) elementsOf(b *bson.Builder, array bson.Doc, c *Context) error {
	i, rest := 0, p.elements
	put := func(v bson.Value) error {
		name := bson.Index(i)
		if len(rest) > 0 && rest[0].index == i {
			e := rest[0]
			rest = rest[1:]
			if e.inside != nil {
				i++
				return e.inside.write(b, name, v, c)
			}
			v = e.value
		}
		i++
		b.Value(name, v)
		return fits(b)
	}
	for v := range array.Values() {
		if p.resizes && i == p.size {
			break
		}
		if err := put(v); err != nil {
			return err
		}
	}
	for p.resizes && i < p.size || len(rest) > 0 { // the array is shorter than the one that the delta was made of
		if err := put(bson.Null); err != nil {
			return err
		}
	}
	return nil
}

// fits bounds what a delta makes: it may say that an array has any length.
func fits(b *bson.Builder) error {
	if b.Len() > bson.MaxDocumentSize {
		return mongoerr.New(17419, "Resulting document after update is larger than %d", bson.MaxDocumentSize)
	}
	return nil
}
