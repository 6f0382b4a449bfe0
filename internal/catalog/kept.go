package catalog

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Kept returns the document with an _id, as last committed, from a collection of the
// server's own whose records lie by _id; nil where there is none. The caller owns it.
func (c *Catalog) Kept(ns schema.Namespace, id bson.Value) (bson.Doc, error) {
	coll := c.Lookup(ns)
	if coll == nil {
		return nil, nil
	}
	data, closer, err := c.Engine().Get(coll.Ident, coll.AppendIDKey(nil, id))
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	defer closer.Close()
	return bson.Doc(data).Clone(), nil
}
