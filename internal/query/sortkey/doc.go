// Package sortkey turns a sort specification into order-preserving bytes: the
// key of a document sorts, byte by byte, as the document does. In-memory
// sorts, merges, top-k and spills compare these bytes and nothing else.
//
// Start reading at pattern.go.
package sortkey
