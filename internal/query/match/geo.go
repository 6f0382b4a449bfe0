package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
)

func (n *GeoWithin) kind() kind { return kindGeo }

func (n *GeoWithin) text(b *bson.Builder) {
	name := "$geoWithin"
	if n.Intersects {
		name = "$geoIntersects"
	}
	b.OpenDoc(n.Path).Value(name, n.Spec).Close()
}

func (n *GeoWithin) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }

// elem matches no value that is no geometry, whatever it is.
func (n *GeoWithin) elem(v bson.Value, _ *Env) (bool, error) {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return false, nil
	}
	g, err := geo.ParseStored(v)
	if err != nil {
		return false, nil // a value that is no geometry is nowhere
	}
	if n.Intersects {
		return n.Shape.Intersects(g), nil
	}
	return n.Shape.Contains(g), nil
}

func isWithin(op string) bool { return op == "$geoWithin" || op == "$within" || op == "$geoIntersects" }

// parseGeoWithin parses $geoWithin and $geoIntersects, which allow no other operator
// next to them.
func parseGeoWithin(_ *parser, a argument) (Node, error) {
	it := a.siblings.Iter()
	it.Next()
	op, arg := it.Key, it.Value
	if !isWithin(op) {
		return nil, badValue("invalid geo query operator: %s", op)
	}
	if arg.Type != bson.TypeDocument {
		return nil, badValue("geometry must be an object")
	}
	var shape *geo.Geometry
	for in := arg.Doc().Iter(); in.Next(); {
		if in.Key == "$uniqueDocs" {
			continue // obsolete and ignored
		}
		if shape != nil {
			return nil, badValue("geo query has more than one geometry: %s", arg)
		}
		var err error
		if shape, err = geo.ParseQuery(in.Key, in.Value); err != nil {
			return nil, err
		}
	}
	if shape == nil {
		return nil, badValue("geo query doesn't have any geometry")
	}
	if it.Next() {
		return nil, badValue("can't parse extra field: %s: %s", it.Key, it.Value)
	}
	intersects := op == "$geoIntersects"
	if !intersects && !shape.CanContain() {
		return nil, badValue("$within not supported with provided geometry: %s", a.siblings)
	}
	if shape.CRS() == geo.Strict || intersects {
		if !shape.Supports(geo.Sphere) {
			return nil, badValue("$geoIntersect not supported with provided geometry: %s", a.siblings)
		}
		shape = shape.InSphere()
	}
	return &GeoWithin{newLeaf(a.path), intersects, arg, shape}, nil
}
