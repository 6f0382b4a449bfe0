package exec

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// cover rebuilds a document with the indexed fields from the key of an index entry, for covered plans.
type cover struct {
	descending []bool
	fields     []coverField
	needed     []bool // by part: whether its value is read
	decoder    keystring.Decoder
	b          bson.Builder
	doc        bson.Doc // the last one
}

// coverField is a field of the rebuilt document: a part of the key, or an
// object of further fields.
type coverField struct {
	name string
	part int
	sub  []coverField
}

func newCover(ix *plan.Index, needed []string) *cover {
	c := &cover{descending: directions(ix), needed: make([]bool, len(ix.Parts))}
	for i, p := range ix.Parts {
		if ix.Wild != nil && p.Plugin != "" {
			continue // the path of a wildcard index
		}
		c.needed[i] = slices.Contains(needed, p.Path)
		c.fields = place(c.fields, p.Components, i)
	}
	return c
}

// place puts part under its path.
func place(fs []coverField, path []string, part int) []coverField {
	if len(path) == 1 {
		return append(fs, coverField{name: path[0], part: part})
	}
	for i := range fs {
		if fs[i].name == path[0] && fs[i].sub != nil {
			fs[i].sub = place(fs[i].sub, path[1:], part)
			return fs
		}
	}
	return append(fs, coverField{name: path[0], sub: place(nil, path[1:], part)})
}

// document rebuilds the document, which is valid until the next call. exact is false if a value that is read is
// null, which in a key may also be a missing field.
func (c *cover) document(key, bits []byte) (doc bson.Doc, exact bool, err error) {
	values, _, err := c.decoder.Decode(key, bits, c.descending)
	if err != nil {
		return nil, false, err
	}
	exact = true
	for i, v := range values {
		exact = exact && !(c.needed[i] && v.Type == bson.TypeNull)
	}
	c.b.Reset(c.doc[:0])
	c.write(c.fields, values)
	c.doc = c.b.Finish()
	return c.doc, exact, nil
}

func (c *cover) write(fs []coverField, values []bson.Value) {
	for _, f := range fs {
		if f.sub == nil {
			c.b.Value(f.name, values[f.part])
			continue
		}
		c.b.OpenDoc(f.name)
		c.write(f.sub, values)
		c.b.Close()
	}
}

// directions returns which parts of an index are descending. Hashes are always ascending.
func directions(ix *plan.Index) []bool {
	d := make([]bool, len(ix.Parts))
	for i, p := range ix.Parts {
		d[i] = p.Descending
	}
	return d
}
