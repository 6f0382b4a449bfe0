package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of documents.
const (
	// MaxDocument is the largest document a user may store, in bytes.
	MaxDocument = 16 << 20
	// maxNesting is how deep documents and arrays may nest in a document.
	maxNesting = 180
	// minLevel is the fewest bytes that one level of nesting takes.
	minLevel = 7
)

// PrepareInsert checks a document to be inserted and completes it: a missing _id is
// added, _id is put in front, and Timestamp(0, 0) in a top-level field other than _id
// becomes what now returns; where now is nil, it stays. A document that needs none of
// this is returned as it is. Errors: 10334 for its size, 15 for its depth, and those of
// CheckID.
func PrepareInsert(doc bson.Doc, now func() uint64) (bson.Doc, error) {
	if len(doc) > MaxDocument {
		return nil, mongoerr.New(mongoerr.BSONObjectTooLarge,
			"object to insert too large. size in bytes: %d, max size: %d", len(doc), MaxDocument)
	}
	if len(doc) > maxNesting*minLevel && deeper(doc, maxNesting) {
		return nil, mongoerr.New(mongoerr.Overflow, "cannot insert document because it exceeds %d levels of nesting", maxNesting)
	}
	var id bson.Value
	idFirst, fix := false, false
	first := true
	for it := doc.Iter(); it.Next(); first = false {
		switch {
		case it.Key == "_id":
			if !id.IsMissing() {
				return nil, mongoerr.New(mongoerr.BadValue, "can't have multiple _id fields in one document")
			}
			if err := CheckID(it.Value); err != nil {
				return nil, err
			}
			id, idFirst = it.Value, first
		case now != nil && isZeroTimestamp(it.Value):
			fix = true
		}
	}
	if idFirst && !fix {
		return doc, nil
	}
	if id.IsMissing() {
		id = bson.ObjectID(bson.NewObjectID())
	}
	return complete(doc, id, now), nil
}

func isZeroTimestamp(v bson.Value) bool {
	return v.Type == bson.TypeTimestamp && v.Timestamp() == 0
}

func complete(doc bson.Doc, id bson.Value, now func() uint64) bson.Doc {
	var b bson.Builder
	b.Reset(make([]byte, 0, len(doc)+len(id.Data)+8))
	b.Value("_id", id)
	for it := doc.Iter(); it.Next(); {
		switch {
		case it.Key == "_id":
		case now != nil && isZeroTimestamp(it.Value):
			b.Timestamp(it.Key, now())
		default:
			b.Value(it.Key, it.Value)
		}
	}
	return b.Finish()
}

// CheckID checks whether v may be the _id of a document. Errors: 53 for arrays, regular
// expressions and undefined, 52 for a document with a field name that starts with a
// dollar sign.
func CheckID(v bson.Value) error {
	switch v.Type {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return mongoerr.New(mongoerr.InvalidIdField, "The '_id' value cannot be of type %s", v.Type)
	case bson.TypeDocument:
		return checkIDDocument(v.Doc())
	}
	return nil
}

// afterReference iterates over the fields behind those of a DBRef at the document's beginning,
// {$ref: string, $id, $db: string}, of which $db may be absent. Errors: 52 for part of one.
func afterReference(d bson.Doc) (*bson.Iter, error) {
	bad := func(format string, args ...any) (*bson.Iter, error) {
		return nil, mongoerr.New(mongoerr.DollarPrefixedFieldName, "_id fields may not contain '$'-prefixed fields: "+format, args...)
	}
	it := d.Iter()
	if !it.Next() || it.Key != "$ref" {
		return d.Iter(), nil
	}
	if it.Value.Type != bson.TypeString {
		return bad("The DBRef $ref field must be a String, not a %s", it.Value.Type)
	}
	if !it.Next() || it.Key != "$id" {
		return bad("Found $ref field without a $id after it, which is invalid.")
	}
	rest := *it
	if it.Next() && it.Key == "$db" {
		if it.Value.Type != bson.TypeString {
			return bad("The DBRef $db field must be a String, not a %s", it.Value.Type)
		}
		rest = *it
	}
	return &rest, nil
}

func checkIDDocument(d bson.Doc) error {
	rest, err := afterReference(d)
	if err != nil {
		return err
	}
	for it := rest; it.Next(); {
		if strings.HasPrefix(it.Key, "$") {
			return mongoerr.New(mongoerr.DollarPrefixedFieldName,
				"_id fields may not contain '$'-prefixed fields: %s is not valid for storage.", it.Key)
		}
		if it.Value.Type == bson.TypeDocument || it.Value.Type == bson.TypeArray {
			if err := checkIDDocument(it.Value.Doc()); err != nil {
				return err
			}
		}
	}
	return nil
}

// deeper reports whether documents nest more than levels deep in d.
func deeper(d bson.Doc, levels int) bool {
	if levels < 0 {
		return true
	}
	for it := d.Iter(); it.Next(); {
		if t := it.Value.Type; (t == bson.TypeDocument || t == bson.TypeArray) && deeper(it.Value.Doc(), levels-1) {
			return true
		}
	}
	return false
}
