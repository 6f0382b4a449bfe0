package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// NewPart is a part of no index, for its Values.
func NewPart(path string) Part { return Part{Path: path, Components: strings.Split(path, ".")} }

// alongPath collects the values at the end of an indexed path, through every
// array on the way. Where expand is set, an array at the end counts by its
// elements.
type alongPath struct {
	part   *Part
	expand bool
	values []bson.Value
	arrays uint64 // MultikeyPaths of the part
}

func (c *alongPath) document(doc bson.Doc, at int) { c.value(doc.Lookup(c.part.Components[at]), at) }

// value continues from v, which is at component at.
func (c *alongPath) value(v bson.Value, at int) {
	last := at == len(c.part.Components)-1
	switch {
	case v.Type == bson.TypeArray && last:
		c.mark(at)
		if !c.expand {
			c.values = append(c.values, v)
			return
		}
		c.values = append(c.values, v.Doc().Slice()...)
	case last:
		if !v.IsMissing() {
			c.values = append(c.values, v)
		}
	case v.Type == bson.TypeDocument:
		c.document(v.Doc(), at+1)
	case v.Type == bson.TypeArray && isNumber(c.part.Components[at+1]):
		c.value(v.Doc().Lookup(c.part.Components[at+1]), at+1)
	case v.Type == bson.TypeArray:
		c.mark(at)
		for e := range v.Doc().Values() {
			if e.Type == bson.TypeDocument {
				c.document(e.Doc(), at+1)
			}
		}
	}
}

func (c *alongPath) mark(at int) { c.arrays |= 1 << min(at, maxMultikeyBit) }

// extractAlong collects the values of one part in a document.
func extractAlong(doc bson.Doc, part *Part, expand bool) alongPath {
	c := alongPath{part: part, expand: expand}
	c.document(doc, 0)
	return c
}

// Values are the values at the end of the part's path in a document, through
// every array on the way; an array at the end is one value.
func (p *Part) Values(doc bson.Doc) []bson.Value { return extractAlong(doc, p, false).values }

// Value is the one value at the end of the part's path where arrays are not
// gone into: an array that stands at the end or on the way is returned itself.
// Missing if the path leads nowhere.
func (p *Part) Value(doc bson.Doc) bson.Value {
	v, _ := walk(doc, p.Components)
	return v
}
