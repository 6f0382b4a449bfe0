// Package archive writes documents that expire into objects, and reads them
// (docs/rfcs/0034-archive.md).
//
// An object is a Parquet file (object.go) with the documents of a day, as columns for other tools
// (variant.go) and as the bytes that they were. It is in one of the Places that the operator allows
// (places.go), each a store of internal/objectstore. A Row (row.go) of the collection system.archive
// says what an object has; an object without one is none. A Reader (reader.go) reads what rows say:
// whole objects, or the row groups of them that bounds (bounds.go) leave (parts.go).
//
// # Invariants
//
//   - nothing-guessed: what is read of an object is believed only if it has the size and the SHA-256
//     of its row: that of the whole, or that of each part.
//
// Start reading at object.go.
package archive
