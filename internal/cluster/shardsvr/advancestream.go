package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// advanceStream answers {_shardsvrAdvanceStream: 1, cursor, until}: a router that reads a
// change stream by the cursor waits to know up to a time, which a getMore that is under way
// was not told. A cursor that is gone is no error: its getMore says so.
func (r *request) advanceStream(context.Context) error {
	cursor, until := r.body.Lookup("cursor"), r.body.Lookup("until")
	if cursor.Type != bson.TypeInt64 || until.Type != bson.TypeTimestamp {
		return mongoerr.New(mongoerr.BadValue, "the request needs cursor and until: %s", r.body)
	}
	r.s.node.Dispatcher.Cursors.Until(cursor.Int64(), until.Timestamp())
	return nil
}
