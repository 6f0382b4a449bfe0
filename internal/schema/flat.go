package schema

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// flat is the 2d index: the cell of legacy coordinates in a grid, followed by
// ordinary fields. A document without a location is left out.
type flat struct{ grid geo.Grid }

func (flat) configure(spec bson.Doc) indexKind {
	g := geo.DefaultGrid
	if v := spec.Lookup("bits"); v.IsNumber() {
		g.Bits = int(min(max(bson.ClampToInt64(v), 1), 32))
	}
	if v := spec.Lookup("min"); v.IsNumber() {
		g.Min = bson.ToDouble(v)
	}
	if v := spec.Lookup("max"); v.IsNumber() {
		g.Max = bson.ToDouble(v)
	}
	return flat{g}
}

func (flat) collated() bool { return false }

// Grid is the raster of a 2d index; ok is false for another kind.
func (ix *Index) Grid() (g geo.Grid, ok bool) {
	k, ok := ix.kind.(flat)
	return k.grid, ok
}

func (flat) validatePattern(key bson.Doc) error {
	n := 0
	for _, v := range key.All() {
		if v.Type == bson.TypeString {
			n++
		}
	}
	if n > 1 {
		return mongoerr.New(16800, "can't have 2 geo fields")
	}
	if _, v := key.First(); v.Type != bson.TypeString {
		return mongoerr.New(16801, "2d has to be first in index")
	}
	return nil
}

func (flat) validateSpec(spec bson.Doc) error {
	if v := spec.Lookup("bits"); v.IsNumber() {
		if i := bson.ClampToInt64(v); i < 1 || i > 32 {
			return mongoerr.New(mongoerr.InvalidOptions, "bits for hash must be > 0 and <= 32, but %s bits were specified", v)
		}
	}
	g := flat{}.configure(spec).(flat).grid
	if !(g.Max > g.Min) || math.IsInf(g.Max-g.Min, 0) {
		return mongoerr.New(mongoerr.InvalidOptions, "region for hash must be valid and have positive area, but [%s, %s] was specified", bson.Double(g.Min), bson.Double(g.Max))
	}
	return nil
}

func (k flat) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	found := extractAlong(doc, &ix.Parts[0], false)
	row := make([]bson.Value, len(ix.Parts))
	paths := make(MultikeyPaths, len(ix.Parts))
	var places []bson.Value
	for _, v := range found.values {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			continue
		}
		var err error
		if places, err = k.places(places, v, doc); err != nil {
			return dst, nil, err
		}
	}
	if len(places) == 0 {
		return dst, nil, nil
	}
	for i := range ix.Parts[1:] {
		row[i+1], paths[i+1] = fieldValue(doc, &ix.Parts[i+1])
	}
	// A location as an array of two numbers does not count as an array.
	if len(places) > 1 {
		paths[0] = found.arrays | 1<<min(len(ix.Parts[0].Components)-1, maxMultikeyBit)
	}
	from := len(dst)
	for _, p := range places {
		row[0] = p
		dst = ix.appendKey(dst, row)
	}
	if !paths.Any() {
		paths = nil
	}
	return dst[:from+len(sortKeys(dst[from:]))], paths, nil
}

// places appends the keys of a location, or of a list of locations: an array or
// a document of them. Errors: 16804 and those of Grid.Key.
func (k flat) places(dst []bson.Value, v bson.Value, doc bson.Doc) ([]bson.Value, error) {
	_, first := v.Doc().First()
	if first.IsNumber() {
		key, err := k.grid.Key(v, doc)
		return append(dst, key), err
	}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument && e.Type != bson.TypeArray {
			return dst, mongoerr.New(16804, "location object expected, location array not in correct format")
		}
		if e.Doc().IsEmpty() {
			continue
		}
		key, err := k.grid.Key(e, doc)
		if err != nil {
			return dst, err
		}
		dst = append(dst, key)
	}
	return dst, nil
}

// fieldValue returns the value of an ordinary field of a 2d index: several values
// are one array.
func fieldValue(doc bson.Doc, part *Part) (bson.Value, uint64) {
	c := extractAlong(doc, part, true)
	switch len(c.values) {
	case 0:
		return bson.Null, c.arrays
	case 1:
		return c.values[0], c.arrays
	}
	return bson.Array(c.values...), c.arrays
}
