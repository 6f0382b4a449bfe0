package layout

import "github.com/mayflydb/mayfly/internal/bson"

// ByID lays documents in the order of _id: the record key is its key string, so
// a read by _id is one lookup, and the index on _id costs nothing.
type ByID struct{}

// FoundByID is Layout's.
func (ByID) FoundByID() Lookup { return ByRecord }

// Append is Layout's.
func (ByID) Append(dst Key, p Place) Key { return append(dst, p.ID...) }

// Identity is Layout's.
func (ByID) Identity(k Key) []byte { return k }

// ID is Layout's.
func (ByID) ID(k Key) ([]byte, bool) { return k, true }

// InOrder is Layout's.
func (ByID) InOrder() bool { return false }

// Stored is Layout's.
func (ByID) Stored() bson.Doc { return nil }

// Sections is Layout's: none.
func (ByID) Sections() Sections { return nil }
