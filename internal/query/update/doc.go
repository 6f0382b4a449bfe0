// Package update changes documents: operators ({$set: …}), replacement
// documents and pipelines ([{$set: …}]). It is pure and works on document
// bytes.
//
// Parse turns the `u` of a statement into an Update. For operators that is a
// tree of field names whose leaves are single changes (tree.go); applying it
// walks the document's bytes along with the tree and writes the new document in one
// pass (apply.go), so that what no path touches is copied as it is. Each family
// of operators has its own file; upsert.go makes the document of an upsert. Updates as an
// oplog tells them are parsed by oplog.go; their form is in delta.go.
package update
