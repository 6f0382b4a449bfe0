package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The versions of the 2dsphere index. All have the same keys; they differ in
// what they accept.
const (
	sphereV1 = 1 // points, lines and polygons only, and not sparse
	sphereV3 = 3 // the version of new indexes
)

// maxGeneratedKeys bounds the keys of one document in an index
// (indexMaxNumGeneratedKeysPerDocument).
const maxGeneratedKeys = 100000

// sphere is the 2dsphere index: cells that cover the geometry of each geo
// field, among ordinary fields. A document without any geometry is left out,
// except in version 1.
type sphere struct{ version int64 }

func (sphere) configure(spec bson.Doc) indexKind {
	if v := spec.Lookup("2dsphereIndexVersion"); v.IsNumber() {
		return sphere{bson.ClampToInt64(v)}
	}
	return sphere{sphereV3}
}

func (sphere) validatePattern(bson.Doc) error { return nil }
func (sphere) collated() bool                 { return true }

func (sphere) validateSpec(spec bson.Doc) error {
	v := spec.Lookup("2dsphereIndexVersion")
	if i, ok := bson.ExactInt64(v); !ok || i < sphereV1 || i > sphereV3 {
		return cannotCreate("unsupported geo index version { 2dsphereIndexVersion : %s }, only support versions: [1,2,3]", v)
	}
	coarsest, finest := int64(0), int64(30)
	if v := spec.Lookup("coarsestIndexedLevel"); v.IsNumber() {
		coarsest = bson.ClampToInt64(v)
	}
	if v := spec.Lookup("finestIndexedLevel"); v.IsNumber() {
		finest = bson.ClampToInt64(v)
	}
	switch {
	case coarsest < 0:
		return mongoerr.New(16747, "coarsestIndexedLevel must be >= 0")
	case finest > 30:
		return mongoerr.New(16748, "finestIndexedLevel must be <= 30")
	case finest < coarsest:
		return mongoerr.New(16749, "finestIndexedLevel must be >= coarsestIndexedLevel")
	}
	return nil
}

func (k sphere) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	columns := make([][]bson.Value, len(ix.Parts))
	paths := make(MultikeyPaths, len(ix.Parts))
	located := false
	total := 1
	for i := range ix.Parts {
		part := &ix.Parts[i]
		if part.Plugin == "" {
			columns[i], paths[i] = literals(doc, part)
		} else {
			cells, arrays, err := k.cells(doc, part)
			if err != nil {
				return dst, nil, err
			}
			located = located || len(cells) > 0
			columns[i], paths[i] = cells, arrays
		}
		if len(columns[i]) == 0 {
			columns[i] = []bson.Value{bson.Null}
		}
		if total *= len(columns[i]); total > maxGeneratedKeys {
			return dst, nil, mongoerr.New(mongoerr.CannotBuildIndexKeys, "Index key generation exceeded %d keys for index %s", maxGeneratedKeys, ix.Name)
		}
	}
	if !located && k.version > sphereV1 {
		return dst, nil, nil
	}
	if !paths.Any() {
		paths = nil
	}
	return ix.product(dst, columns), paths, nil
}

// product makes a key for each combination of the columns' values.
func (ix *Index) product(dst []Key, columns [][]bson.Value) []Key {
	from := len(dst)
	at := make([]int, len(columns))
	row := make([]bson.Value, len(columns))
	for {
		for i, c := range columns {
			row[i] = c[at[i]]
		}
		dst = ix.appendKey(dst, row)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(columns[i]) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return dst[:from+len(sortKeys(dst[from:]))]
		}
	}
}

// literals returns the values of an ordinary field; an empty array is one
// undefined value.
func literals(doc bson.Doc, part *Part) ([]bson.Value, uint64) {
	c := extractAlong(doc, part, false)
	var out []bson.Value
	for _, v := range c.values {
		switch {
		case v.Type != bson.TypeArray:
			out = append(out, v)
		case v.Doc().IsEmpty():
			out = append(out, bson.Undefined)
		default:
			out = append(out, v.Doc().Slice()...)
		}
	}
	return out, c.arrays
}

// cells returns the cells of a geo field, none if it has no geometry.
// Errors: 16755 for an invalid one, 16756.
func (k sphere) cells(doc bson.Doc, part *Part) ([]bson.Value, uint64, error) {
	c := extractAlong(doc, part, false)
	last := len(part.Components) - 1
	c.arrays &^= 1 << min(last, maxMultikeyBit) // two numbers are one point
	var out []bson.Value
	for _, v := range c.values {
		if k.version > sphereV1 && isNoGeometry(v) {
			continue
		}
		g, err := geo.ParseStored(v)
		if err == nil {
			err = k.admit(g, v)
		}
		if err != nil {
			return nil, 0, mongoerr.New(16755, "Can't extract geo keys: %s  %s", doc, mongoerr.From(err).Message)
		}
		cells := g.Cells()
		if len(cells) == 0 {
			return nil, 0, mongoerr.New(16756, "Unable to generate keys for (likely malformed) geometry: %s", doc)
		}
		if len(cells) > 1 {
			c.mark(last)
		}
		for _, cell := range cells {
			out = append(out, bson.Int64(cell))
		}
	}
	return out, c.arrays, nil
}

// isNoGeometry reports whether v counts as missing.
func isNoGeometry(v bson.Value) bool {
	return v.IsNullish() || (v.Type == bson.TypeDocument || v.Type == bson.TypeArray) && v.Doc().IsEmpty()
}

func (k sphere) admit(g *geo.Geometry, v bson.Value) error {
	switch {
	case g.CRS() == geo.Strict:
		return mongoerr.New(mongoerr.BadValue, "can't index geometry with strict winding order")
	case k.version == sphereV1 && !g.IsSimple():
		return mongoerr.New(mongoerr.BadValue, "given geometry can't be indexed in the old index format")
	case !g.Supports(geo.Sphere):
		return mongoerr.New(mongoerr.BadValue, "can't project geometry into spherical CRS: %s", v)
	}
	return nil
}
