package cosmos

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// indexPolicy says which properties of a container may have an index. (Cosmos
// DB: "Indexing policies".)
type indexPolicy struct {
	none               bool // indexing mode none
	included, excluded []indexPath
	spatial            []indexPath
	composite          []compositeIndex
}

// indexPath is one path of the policy: its names, "[]" for the elements of an array,
// and whether it includes everything below, or only the value there.
type indexPath struct {
	names []string
	below bool
}

// alwaysIndexed are the system's properties that the policy does not name.
var alwaysIndexed = map[string]bool{"id": true, "_ts": true}

// parseIndexPolicy reads a completed policy. Errors: 400.
func parseIndexPolicy(policy bson.Doc) (indexPolicy, error) {
	p := indexPolicy{none: policy.Lookup("indexingMode").Str() == "none"}
	if p.none {
		return p, nil
	}
	var err error
	if p.spatial, err = parseSpatial(policy); err != nil {
		return p, err
	}
	if p.composite, err = parseComposite(policy); err != nil {
		return p, err
	}
	root := false
	for _, set := range []struct {
		field string
		into  *[]indexPath
	}{{"includedPaths", &p.included}, {"excludedPaths", &p.excluded}} {
		v := policy.Lookup(set.field)
		if v.Type != bson.TypeArray {
			return p, badRequest("The %s of the indexing policy are invalid.", set.field)
		}
		for e := range v.Doc().Values() {
			if e.Type != bson.TypeDocument || e.Doc().Lookup("path").Type != bson.TypeString {
				return p, badRequest("The %s of the indexing policy are invalid.", set.field)
			}
			path, err := parseIndexPath(e.Doc().Lookup("path").Str())
			if err != nil {
				return p, err
			}
			root = root || len(path.names) == 0
			if set.into == &p.included && hasSpatialKind(e.Doc().Lookup("indexes")) {
				p.spatial = append(p.spatial, path)
			}
			*set.into = append(*set.into, path)
		}
	}
	if !root {
		return p, badRequest(`The special mandatory indexing path "/" is not provided in any of the path type sets. Please provide this path in one of the sets.`)
	}
	return p, nil
}

// parseIndexPath reads /a/[]/b/? or /a/*. Errors: 400.
func parseIndexPath(s string) (indexPath, error) {
	bad := badRequest("The indexing path '%s' could not be accepted, failed near position '%d'. Please ensure that the path is a valid path. "+
		"Common errors include invalid characters or absence of quotes around labels.", s, len(s))
	if s == "/" {
		return indexPath{below: true}, nil
	}
	names, err := splitPath(s)
	if err != nil {
		return indexPath{}, bad
	}
	last := names[len(names)-1]
	if last != "*" && last != "?" || slices.Contains(names[:len(names)-1], "*") {
		return indexPath{}, bad
	}
	return indexPath{names: names[:len(names)-1], below: last == "*"}, nil
}

// precision returns how precisely p matches a property: 0 if it does not, else higher
// is more precise.
func (p indexPath) precision(names []string) int {
	switch {
	case len(p.names) > len(names) || !slices.Equal(p.names, names[:len(p.names)]):
		return 0
	case p.below:
		return 2*len(p.names) + 1
	case len(p.names) == len(names):
		return 2*len(p.names) + 2
	}
	return 0
}

// indexes reports whether a property may have an index: the most precise path decides,
// and of two equal ones the excluding one.
func (p indexPolicy) indexes(names []string) bool {
	if p.none {
		return false
	}
	if len(names) == 1 && alwaysIndexed[names[0]] {
		return true
	}
	best := func(paths []indexPath) int {
		most := 0
		for _, path := range paths {
			most = max(most, path.precision(names))
		}
		return most
	}
	return best(p.included) > best(p.excluded)
}

// indexesDotted is indexes of a dotted path.
func (p indexPolicy) indexesDotted(path string) bool { return p.indexes(strings.Split(path, ".")) }

// checkGeospatial rejects planar shapes: functions measure on the sphere.
// Errors: 400.
func checkGeospatial(v bson.Value) error {
	if v.IsNullish() {
		return nil
	}
	if v.Type == bson.TypeDocument {
		if t := v.Doc().Lookup("type"); t.Type == bson.TypeString && strings.EqualFold(t.Str(), "Geography") {
			return nil
		}
	}
	return badRequest("The geospatialConfig is invalid: only the type 'Geography' is supported.")
}

// checkBoxes checks that exactly the planar spatial indexes have a bounding box.
// Errors: 400.
func checkBoxes(definition bson.Doc) error {
	within := func(v bson.Value, name string) bson.Value {
		if v.Type != bson.TypeDocument {
			return bson.Value{}
		}
		return v.Doc().Lookup(name)
	}
	kind := within(definition.Lookup("geospatialConfig"), "type")
	plane := kind.Type == bson.TypeString && strings.EqualFold(kind.Str(), "Geometry")
	spatial := within(definition.Lookup("indexingPolicy"), "spatialIndexes")
	if spatial.Type != bson.TypeArray {
		return nil
	}
	for e := range spatial.Doc().Values() {
		switch boxed := !within(e, "boundingBox").IsNullish(); {
		case plane && !boxed:
			return badRequest("A spatial index has no boundingBox, which the geospatial type 'Geometry' requires.")
		case !plane && boxed:
			return badRequest("A spatial index has a boundingBox, which the geospatial type 'Geography' does not allow.")
		}
	}
	return nil
}

// spatialTypes are what a spatial index may hold.
var spatialTypes = map[string]bool{"Point": true, "LineString": true, "Polygon": true, "MultiPolygon": true}

// hasSpatialKind reports whether the indexes of an included path have a spatial one,
// the old form of spatialIndexes.
func hasSpatialKind(indexes bson.Value) bool {
	if indexes.Type != bson.TypeArray {
		return false
	}
	for ix := range indexes.Doc().Values() {
		if ix.Type == bson.TypeDocument {
			if kind := ix.Doc().Lookup("kind"); kind.Type == bson.TypeString && strings.EqualFold(kind.Str(), "Spatial") {
				return true
			}
		}
	}
	return false
}

// parseSpatial reads the paths of spatialIndexes. Errors: 400.
func parseSpatial(policy bson.Doc) ([]indexPath, error) {
	v := policy.Lookup("spatialIndexes")
	if v.IsNullish() {
		return nil, nil
	}
	bad := badRequest("The spatial indexes of the indexing policy are invalid.")
	if v.Type != bson.TypeArray {
		return nil, bad
	}
	var paths []indexPath
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument || e.Doc().Lookup("path").Type != bson.TypeString {
			return nil, bad
		}
		path, err := parseIndexPath(e.Doc().Lookup("path").Str())
		if err != nil {
			return nil, err
		}
		types := e.Doc().Lookup("types")
		if types.Type != bson.TypeArray {
			return nil, bad
		}
		for t := range types.Doc().Values() {
			if t.Type != bson.TypeString || !spatialTypes[t.Str()] {
				return nil, bad
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// indexesShapes reports whether a property may have a spatial index.
func (p indexPolicy) indexesShapes(names []string) bool {
	return !p.none && slices.ContainsFunc(p.spatial, func(path indexPath) bool { return path.precision(names) > 0 })
}
