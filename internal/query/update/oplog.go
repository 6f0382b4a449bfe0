package update

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ParseOplog parses the `o` of an update in an oplog: a whole document, which has an _id,
// or {$v: 2, diff}. Older forms ($v: 1, operators) are refused, as mongod 8.0 does. Errors:
// 4772600, 4772601, those of the delta.
func ParseOplog(o bson.Doc) (*Update, error) {
	if o.Has("_id") {
		return Stored(o), nil
	}
	version := o.Lookup("$v")
	if !version.IsNumber() || bson.ClampToInt64(version) != 2 {
		return nil, mongoerr.New(4772600, "Expected _id field or $v:2, but got: %s", elementText("$v", version))
	}
	diff := o.Lookup("diff")
	if diff.Type != bson.TypeDocument {
		return nil, mongoerr.New(4772601, "Expected 'diff' field to be an object, instead got type: %s", diff.Type)
	}
	d, err := parseDelta(diff.Doc())
	return &Update{kind: Delta, delta: d}, err
}

// Stored returns the replacement by a document as a server has stored it: its names may
// start with $, and Timestamp(0, 0) stays.
func Stored(doc bson.Doc) *Update { return &Update{kind: Replacement, replacement: doc, stored: true} }
