package sortkey

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Generator makes the keys of one pattern. It keeps scratch space and is not
// for concurrent use.
type Generator struct {
	pattern Pattern
	coll    bson.Collator
	meta    func(name string) bson.Value
	cursors []cursor
	scratch []byte
	best    []bson.Value // the values that scratch is encoded from
}

// NewGenerator prepares keys for p, strings ordered by coll. meta answers for
// metadata of the current document and may be nil.
func NewGenerator(p Pattern, coll bson.Collator, meta func(string) bson.Value) *Generator {
	return &Generator{pattern: p, coll: coll, meta: meta, cursors: make([]cursor, len(p.Parts))}
}

// cursor is how far the walk along the path of one part has come.
type cursor struct {
	at   bson.Value
	rest []string
	done bool // at is the value, even if it is an array
}

func (c cursor) atArray() bool { return c.at.Type == bson.TypeArray && !c.done }

// Append appends the key of doc to dst. A document with arrays has the
// smallest of the keys that an index on the pattern would hold; arrays side
// by side are refused with code 2.
func (g *Generator) Append(dst []byte, doc bson.Doc) ([]byte, error) {
	g.begin(doc)
	if g.advance(g.cursors) < 0 {
		return g.encode(dst, g.cursors), nil
	}
	g.scratch = g.scratch[:0]
	if err := g.expand(g.cursors); err != nil {
		return dst, err
	}
	return append(dst, g.scratch...), nil
}

// Values answers with the array of the values that Append makes the key of doc
// from, null for what is missing: what {$meta: "sortKey"} reads.
func (g *Generator) Values(doc bson.Doc) (bson.Value, error) {
	g.begin(doc)
	values := make([]bson.Value, len(g.cursors))
	if g.advance(g.cursors) < 0 {
		for i, c := range g.cursors {
			values[i] = orNull(c.at)
		}
		return bson.Array(values...), nil
	}
	g.scratch = g.scratch[:0]
	if err := g.expand(g.cursors); err != nil {
		return bson.Value{}, err
	}
	for i, v := range g.best {
		values[i] = orNull(v)
	}
	return bson.Array(values...), nil
}

func orNull(v bson.Value) bson.Value {
	if v.IsMissing() {
		return bson.Null
	}
	return v
}

// begin puts every cursor at the start of its path.
func (g *Generator) begin(doc bson.Doc) {
	for i := range g.pattern.Parts {
		p := &g.pattern.Parts[i]
		if p.Meta != "" {
			g.cursors[i] = cursor{}
			if g.meta != nil {
				g.cursors[i].at = g.meta(p.Meta)
			}
			continue
		}
		g.cursors[i] = cursor{at: bson.Document(doc), rest: p.parts}
	}
}

// advance walks every cursor until its path ends or an array is in the
// way, and returns the index of a cursor in front of an array, or -1.
func (g *Generator) advance(cs []cursor) int {
	array := -1
	for i := range cs {
		c := &cs[i]
		for len(c.rest) > 0 && c.at.Type == bson.TypeDocument {
			c.at, c.rest = c.at.Doc().Lookup(c.rest[0]), c.rest[1:]
		}
		if c.atArray() {
			array = i
		} else if len(c.rest) > 0 {
			c.at, c.rest = bson.Value{}, nil
		}
	}
	return array
}

func (g *Generator) encode(dst []byte, cs []cursor) []byte {
	for i := range cs {
		dst = keystring.Append(dst, orNull(cs[i].at), g.pattern.Parts[i].Descending, g.coll)
	}
	return dst
}

// expand keeps in scratch the smallest key over the elements of the array in
// front of some cursors. A number in a path names an element itself: where all
// paths do, there is one key and not as many equal ones as elements, which
// would multiply with each array inside.
func (g *Generator) expand(cs []cursor) error {
	at := g.advance(cs)
	if at < 0 {
		if key := g.encode(nil, cs); len(g.scratch) == 0 || bytes.Compare(key, g.scratch) < 0 {
			g.scratch, g.best = key, g.best[:0]
			for _, c := range cs {
				g.best = append(g.best, c.at)
			}
		}
		return nil
	}
	array := cs[at].at
	for _, c := range cs {
		if c.atArray() && !sameBytes(c.at.Data, array.Data) {
			return mongoerr.New(mongoerr.BadValue, "cannot sort with keys that are parallel arrays")
		}
	}
	named := picked(cs)
	next := make([]cursor, len(cs))
	elements := 0
	for e := range array.Doc().Values() {
		elements++
		same := true // as for every other element
		for i, c := range cs {
			switch next[i] = c; {
			case !c.atArray():
			case named != nil && !named[i].IsMissing():
				next[i] = into(c, named[i])
			default:
				next[i], same = step(c, e), false
			}
		}
		if err := g.expand(slices.Clone(next)); err != nil || same {
			return err
		}
	}
	if elements > 0 {
		return nil
	}
	for i, c := range cs {
		next[i] = c
		if c.atArray() {
			next[i] = cursor{}
			if len(c.rest) == 0 {
				next[i].at = bson.Undefined
			}
		}
	}
	return g.expand(next)
}

// picked is, for each cursor in front of an array whose next name is the place
// of an element, that element; nil for none.
func picked(cs []cursor) []bson.Value {
	var named []bson.Value
	for i, c := range cs {
		if !c.atArray() || len(c.rest) == 0 || !bson.AllDigits(c.rest[0]) {
			continue
		}
		if named == nil {
			named = make([]bson.Value, len(cs))
		}
		named[i] = c.at.Doc().Lookup(c.rest[0])
	}
	return named
}

// into moves a cursor from an array to the element that its path names.
func into(c cursor, v bson.Value) cursor {
	if len(c.rest) == 1 && v.Type == bson.TypeArray && v.Doc().IsEmpty() {
		v = bson.Undefined
	}
	return cursor{at: v, rest: c.rest[1:], done: len(c.rest) == 1}
}

// step moves a cursor from an array to one of its elements.
func step(c cursor, element bson.Value) cursor {
	if len(c.rest) > 0 && element.Type != bson.TypeDocument {
		return cursor{}
	}
	return cursor{at: element, rest: c.rest, done: len(c.rest) == 0}
}

// sameBytes reports whether a and b are one piece of memory.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
