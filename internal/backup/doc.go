// Package backup keeps backups of servers in a repository: copies of their files, and the
// log behind them (docs/rfcs/0030-backup.md).
//
// A Repository (repository.go) is in a Store (store.go), a directory (directory.go) or a bucket
// (package bucket). It has objects that are written once (object.go), compressed and,
// with a key, sealed (seal.go). Take (take.go) adds a backup, described by a Manifest
// (manifest.go), of a server that it reads as a client (server.go), or of all parts of a cluster
// at one time (cluster.go). Follow (follow.go) ships the log in pieces (logobject.go). Restore
// (restore.go) makes a data directory of a backup and the log behind it, of a cluster one for each
// part (restorecluster.go); some collections alone (namespaces.go) may go into a running server
// (into.go). Verify (verify.go) checks all that is there, and Prune (prune.go) removes old
// backups.
//
// # Invariants
//
//   - whole-object: an object has its name only once all of it is on disk.
//   - manifest-last: a manifest names objects that are on disk.
//   - named-by-content: an object is used only if what it has is what its name says.
//
// Start reading at take.go.
package backup
