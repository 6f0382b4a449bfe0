// Package objectstore keeps files that are written once, under a name that each gets when all of
// it is durable: in a directory (directory.go) or in a bucket (package bucket). Backups
// (internal/backup) and archives (internal/archive) are kept so.
//
// Start reading at store.go.
package objectstore
