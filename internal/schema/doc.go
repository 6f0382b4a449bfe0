// Package schema holds the pure rules about collections: which names they may
// have, which options `create` takes, which index specifications are valid,
// and which keys a document has in an index. Documents and specifications go
// in as bytes; nothing here touches storage.
//
// Start reading at index.go (what an index is) and keys.go (the keys of a
// document). One file per kind of index: a new kind implements indexKind and
// enters the table in kind.go.
package schema
