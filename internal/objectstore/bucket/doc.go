// Package bucket keeps files in a bucket of Amazon S3, or of a store with its protocol
// (docs/rfcs/0030-backup.md).
//
// A Bucket (bucket.go) is an objectstore.Store. What it sends is checked by the store (upload.go),
// what it reads goes on after an error (reader.go), and its locks are objects that are renewed
// (lock.go). What is sent again, how long a connection may stand still, and what errors say is in
// wire.go.
//
// Start reading at bucket.go.
package bucket
