package layout

import "github.com/mayflydb/mayfly/internal/bson"

// ByID lays documents in the order of _id: the record key is its key string, so
// a read by _id is one lookup, and the index on _id costs nothing.
type ByID struct{ settled }

// FoundByID implements Layout.
func (ByID) FoundByID() Lookup { return ByRecord }

// Append implements Layout.
func (ByID) Append(dst Key, p Place) Key { return append(dst, p.ID...) }

// Identity implements Layout.
func (ByID) Identity(k Key) []byte { return k }

// ID implements Layout.
func (ByID) ID(k Key) ([]byte, bool) { return k, true }

// InOrder implements Layout.
func (ByID) InOrder() bool { return false }

// Stored implements Layout.
func (ByID) Stored() bson.Doc { return nil }

// Sections implements Layout: there are none.
func (ByID) Sections() Sections { return nil }
