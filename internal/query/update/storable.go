package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// dollarError rejects a top-level name that starts with $.
func dollarError(path string) error {
	name, _, _ := strings.Cut(path, ".")
	return mongoerr.New(mongoerr.DollarPrefixedFieldName,
		"The dollar ($) prefixed field '%s' in '%s' is not allowed in the context of an update's replacement document. "+
			"Consider using an aggregation pipeline with $replaceWith.", name, path)
}

// immutableError rejects a change of _id, or of a path below it.
func immutableError(path string) error {
	return mongoerr.New(mongoerr.ImmutableField, "Performing an update on the path '%s' would modify the immutable field '_id'", path)
}

// checkID checks that the _id of a new document is valid.
func checkID(d bson.Doc) error {
	id := d.Lookup("_id")
	switch id.Type {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return mongoerr.New(mongoerr.InvalidIdField, "The '_id' value cannot be of type %s", id.Type)
	case bson.TypeDocument:
		for it := id.Doc().Iter(); it.Next(); {
			if strings.HasPrefix(it.Key, "$") {
				return mongoerr.New(mongoerr.DollarPrefixedFieldName,
					"_id fields may not contain '$'-prefixed fields: The dollar ($) prefixed field '%s' is not valid for storage.", it.Key)
			}
		}
	}
	return nil
}

// sizeError is the error of a document that is too large to be stored. A document above
// even the limit of documents in memory gets that limit's error.
func sizeError(d bson.Doc, code mongoerr.Code, format string) error {
	if len(d) > bson.MaxInternalSize {
		return bson.SizeError(len(d), d)
	}
	return mongoerr.New(code, format, bson.MaxDocumentSize)
}
