package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func (n *GeoWithin) kind() kind { return kindGeo }
func (n *GeoNear) kind() kind   { return kindGeoNear }

func (n *GeoWithin) text(b *bson.Builder) {
	name := "$geoWithin"
	if n.Intersects {
		name = "$geoIntersects"
	}
	b.OpenDoc(n.Path).Value(name, n.Spec).Close()
}

func (n *GeoNear) text(b *bson.Builder) { b.Doc(n.Path, n.Spec) }

func (n *GeoWithin) match(subject, *Env) (bool, error) {
	return false, mongoerr.New(mongoerr.NotImplemented, "$geoWithin and $geoIntersects are not supported")
}

func (n *GeoNear) match(subject, *Env) (bool, error) {
	return false, mongoerr.New(mongoerr.NoQueryExecutionPlans, "unable to find index for $geoNear query")
}

// isNear says whether the conditions are a search by distance, which takes all
// of them.
func isNear(d bson.Doc) bool {
	return d.Has("$near") || d.Has("$nearSphere") || d.Has("$geoNear")
}

func (p *parser) near(path string, d bson.Doc) (Node, error) {
	if p.opts.Forbid&FeatureNear != 0 {
		return nil, mongoerr.New(mongoerr.Code(5626500),
			"$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require sorting geospatial data. "+
				"If you do not need sort, consider using $geoWithin instead.")
	}
	return &GeoNear{newLeaf(path), d}, nil
}

func parseGeoWithin(_ *parser, a argument) (Node, error) {
	return &GeoWithin{newLeaf(a.path), a.op == "$geoIntersects", a.v}, nil
}
