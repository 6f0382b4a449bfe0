// Package project gives documents another shape: the projections of find, and
// the aggregation stages $project, $addFields, $set, $unset, $replaceRoot and
// $replaceWith. It is pure and works on document bytes.
//
// Parsing turns a specification into a Projection: a tree of field names whose
// leaves keep, drop or compute a value (tree.go). Applying one walks the
// document's bytes along with that tree and appends the result to a buffer
// (apply.go). Each kind of specification has its own file and its own rules:
// parse.go has those that find and $project share.
package project
