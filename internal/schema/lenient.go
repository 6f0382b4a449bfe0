package schema

import "github.com/mayflydb/mayfly/internal/bson"

// lenientField marks a stored specification as lenient: a document whose keys
// cannot be made, because of parallel arrays or an invalid geometry, is left
// out instead of being refused. Commands cannot set it, and listIndexes does
// not show it.
const lenientField = "lenient"

// Lenient is a specification that leaves out what it cannot index.
func Lenient(spec bson.Doc) bson.Doc {
	return new(bson.Builder).Fields(spec).Bool(lenientField, true).Finish()
}

// leftOut is the result of Keys for a document that a lenient index leaves out:
// an index of geometries needs no mark for it, since no shape is near it. All
// others are marked as having arrays in every part, which no document that is
// in them makes of a part that holds one number (LeavesOut).
func (ix *Index) leftOut() MultikeyPaths {
	if ix.Plugin == pluginSphere {
		return nil
	}
	paths := make(MultikeyPaths, len(ix.Parts))
	for part := range paths {
		paths.set(part, 0)
	}
	return paths
}

// LeavesOut says, from the multikey paths of a lenient index, whether documents
// may be missing in it; such an index cannot answer queries. The last part of a
// lenient index that is not one of geometries never has an array, except for
// leftOut's mark.
func (ix *Index) LeavesOut(paths MultikeyPaths) bool {
	return ix.Lenient && ix.Plugin != pluginSphere && paths.Any() && paths[len(paths)-1] != 0
}
