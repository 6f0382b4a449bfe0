package client

import (
	"context"
	"errors"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Cursor reads the documents of a command that returns a cursor, a batch at a time. It
// uses its connection until it is closed.
type Cursor struct {
	conn     *Conn
	db, coll string
	id       int64 // 0 if the server has no more
	batch    *bson.Iter
}

var errNoCursor = errors.New("the reply has no cursor")

// Open runs a command that returns a cursor, such as find or aggregate.
// Errors are those of Run.
func (c *Conn) Open(ctx context.Context, db string, body bson.Doc) (*Cursor, error) {
	reply, err := c.Run(ctx, db, body)
	if err != nil {
		return nil, err
	}
	cur := &Cursor{conn: c}
	return cur, cur.take(reply, "firstBatch")
}

// take reads the next batch from a reply.
func (cur *Cursor) take(reply bson.Doc, name string) error {
	v := reply.Lookup("cursor")
	if v.Type != bson.TypeDocument {
		return errNoCursor
	}
	id, ns, batch := v.Doc().Lookup("id"), v.Doc().Lookup("ns"), v.Doc().Lookup(name)
	if id.Type != bson.TypeInt64 || ns.Type != bson.TypeString || batch.Type != bson.TypeArray {
		return errNoCursor
	}
	cur.id, cur.batch = id.Int64(), batch.Doc().Iter()
	cur.db, cur.coll, _ = strings.Cut(ns.Str(), ".")
	return nil
}

// Next returns the next document, which belongs to the caller, or nil after the
// last. Errors are those of Run.
func (cur *Cursor) Next(ctx context.Context) (bson.Doc, error) {
	for {
		if cur.batch.Next() {
			if cur.batch.Value.Type != bson.TypeDocument {
				return nil, errNoCursor
			}
			return cur.batch.Value.Doc(), nil
		}
		if cur.id == 0 {
			return nil, nil
		}
		reply, err := cur.conn.Run(ctx, cur.db, new(bson.Builder).Int64("getMore", cur.id).String("collection", cur.coll).Finish())
		if err != nil {
			cur.id = 0
			return nil, err
		}
		if err := cur.take(reply, "nextBatch"); err != nil {
			return nil, err
		}
	}
}

// Close closes the cursor, also on the server if that has more documents.
func (cur *Cursor) Close(ctx context.Context) error {
	if cur.id == 0 {
		return nil
	}
	id := cur.id
	cur.id = 0
	_, err := cur.conn.Run(ctx, cur.db, new(bson.Builder).String("killCursors", cur.coll).OpenArray("cursors").Int64("0", id).Close().Finish())
	return err
}
