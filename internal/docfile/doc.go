// Package docfile reads and writes files of documents: JSON lines, BSON, CSV and Parquet. It copies a
// collection of a server, by client, to such a file and back (mayfly export and import).
//
// A file that is written is there as a whole or not at all. What a format cannot keep is an
// error that names the document; what cannot be read is one that names the line, or the byte.
//
// Start reading at copy.go, then reader.go and writer.go. Columns of CSV become documents in
// columns.go, those of Parquet in table.go.
package docfile
