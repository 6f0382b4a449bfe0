// Package geo is the geometry of the query language: GeoJSON and legacy
// shapes as documents hold them and as filters ask for them, containment,
// intersection and distance between them, and the numbers under which the
// 2dsphere and the 2d index keep them.
//
// A Geometry lives in one of three coordinate systems (CRS). Flat shapes
// ($box, $polygon, $center) are in the plane and contain points only. Spherical
// shapes are on a sphere of the radius EarthRadius; their edges are geodesics,
// and a polygon is the smaller side of its ring. Strict is the sphere with
// polygons that take the side at the left of their ring. Point coordinates are
// longitude and latitude in degrees, in that order.
//
// Start reading at geometry.go, then geojson.go and legacy.go; cover.go and
// grid.go are the two indexes. geodesic.go measures on the ellipsoid of WGS 84,
// as Azure Cosmos DB does. Sources: the manual's pages on geospatial
// queries and indexes, RFC 7946; the spherical geometry is package s2.
package geo
