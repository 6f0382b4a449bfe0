package geo

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// CRS is a coordinate reference system.
type CRS uint8

// The coordinate systems.
const (
	// Flat is the plane of the legacy shapes.
	Flat CRS = iota
	// Sphere is the earth; polygons cover the smaller side of their ring.
	Sphere
	// Strict is the earth with polygons at the left side of their ring.
	Strict
)

// The names that GeoJSON's crs takes.
const (
	crsCRS84  = "urn:ogc:def:crs:OGC:1.3:CRS84"
	crsEPSG   = "EPSG:4326"
	crsStrict = "urn:x-mongodb:crs:strictwinding:EPSG:4326"
)

func badValue(format string, args ...any) error {
	return mongoerr.New(mongoerr.BadValue, format, args...)
}

// isObject reports whether v is a document or an array.
func isObject(v bson.Value) bool { return v.Type == bson.TypeDocument || v.Type == bson.TypeArray }

// parseCRS reads the crs of a GeoJSON object.
func parseCRS(obj bson.Doc, allowStrict bool) (CRS, error) {
	v := obj.Lookup("crs")
	if v.IsMissing() {
		return Sphere, nil
	}
	if !isObject(v) {
		return 0, badValue("GeoJSON CRS must be an object")
	}
	if t := v.Doc().Lookup("type"); t.Type != bson.TypeString || t.Str() != "name" {
		return 0, badValue("GeoJSON CRS must have field \"type\": \"name\"")
	}
	properties := v.Doc().Lookup("properties")
	if !isObject(properties) {
		return 0, badValue("CRS must have field \"properties\" which is an object")
	}
	name := properties.Doc().Lookup("name")
	if name.Type != bson.TypeString {
		return 0, badValue("In CRS, \"properties.name\" must be a string")
	}
	switch name.Str() {
	case crsCRS84, crsEPSG:
		return Sphere, nil
	case crsStrict:
		if !allowStrict {
			return 0, badValue("Strict winding order is only supported by polygon")
		}
		return Strict, nil
	}
	return 0, badValue("Unknown CRS name: %s", name.Str())
}
