// Package layout defines where the documents of a collection are in its
// keyspace: which record key a document has, which part of it the document
// keeps for its life, and which parts of the keyspace are dropped as a whole
// when everything in them is due. It is pure: bytes in, bytes out. There is one
// file for each kind:
//
//	byid.go    key string of _id
//	capped.go  sequence number
//	window.go  window of expiry ‖ key string of _id
//	bucket.go  end of a time-series bucket ‖ drops ‖ key string of its _id
//	bykey.go   place in the key space of a shard key ‖ key string of _id
//	slots.go   slot of the hash ‖ window of expiry ‖ place in the key space ‖ key string of _id
//	relay.go   by _id and by window, while a collection changes from one to the other
//
// No code tests which kind a layout is: it calls a method for what it needs to
// know. What changes with time, such as the low water below which everything
// has been removed, belongs to the catalog (docs/rfcs/0019-layouts.md).
//
// # Invariants
//
//   - identity: a document keeps the Identity of its record key for its life,
//     and two documents of a collection never share one.
//   - section-due: a document in a section has an instant within it or before
//     it, or the section is marked as stale. So what is dropped with a section
//     that is not stale is due.
//
// Start reading at layout.go.
package layout
