package client

import (
	"context"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

// InsertError says which document the server has refused.
type InsertError struct {
	Index int // among those of the Insert
	Err   *mongoerr.Error
}

func (e *InsertError) Error() string { return e.Err.Error() }
func (e *InsertError) Unwrap() error { return e.Err }

// Insert inserts documents in one command, in any order, and if unchecked past
// validators, for which a role may be needed. What stands there
// already, by its _id or another unique key, stays, and is counted in kept. The others are tried
// all. Errors: those of Run; *InsertError for the first that was refused for another reason.
func (c *Conn) Insert(ctx context.Context, db, coll string, docs []bson.Doc, unchecked bool) (inserted, kept int64, err error) {
	body := new(bson.Builder).String("insert", coll).Bool("ordered", false)
	if unchecked {
		body.Bool("bypassDocumentValidation", true)
	}
	reply, err := c.Run(ctx, db, body.Finish(), wire.NewSequence("documents", docs...))
	if err != nil {
		return 0, 0, err
	}
	inserted = bson.ClampToInt64(reply.Lookup("n"))
	if failed := reply.Lookup("writeErrors"); failed.Type == bson.TypeArray {
		for v := range failed.Doc().Values() {
			code, text := mongoerr.Code(bson.ClampToInt64(v.Doc().Lookup("code"))), v.Doc().Lookup("errmsg")
			if code == mongoerr.DuplicateKey {
				kept++
			} else if err == nil {
				err = &InsertError{Index: int(bson.ClampToInt64(v.Doc().Lookup("index"))), Err: mongoerr.New(code, "%s", text.Str())}
			}
		}
	}
	if failed := reply.Lookup("writeConcernError"); failed.Type == bson.TypeDocument && err == nil {
		err = fmt.Errorf("what was written is not with the set's majority: %s", failed)
	}
	return inserted, kept, err
}
