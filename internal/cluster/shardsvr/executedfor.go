package shardsvr

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// executedFor answers {_shardsvrExecutedFor: 1, statement: {lsid: {id, uid}, txnNumber, stmtId},
// reply: {…} | none}, a statement of a router's own transaction: with its commit this shard
// stores that the statement of a client's session has updated one document or, with a reply,
// that this is what its findAndModify was answered. Errors: 256 if it was executed before.
func (s *Shard) executedFor() *command.Command {
	return &command.Command{
		Name: "_shardsvrExecutedFor", Flags: command.Transaction, Help: "internal command of a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			v := op.Body.Lookup("statement")
			if op.Transaction == nil || v.Type != bson.TypeDocument {
				return mongoerr.New(mongoerr.BadValue, "%s is a statement of a transaction, and needs statement: {lsid, txnNumber, stmtId}", op.Command.Name)
			}
			id, number, statement := v.Doc().Lookup("lsid"), v.Doc().Lookup("txnNumber"), v.Doc().Lookup("stmtId")
			if id.Type != bson.TypeDocument || number.Type != bson.TypeInt64 || number.Int64() < 0 || statement.Type != bson.TypeInt32 || statement.Int32() < 0 || statement.Int32() == math.MaxInt32 {
				return mongoerr.New(mongoerr.BadValue, "no statement of a session: %s", v)
			}
			session, err := command.ParseSessionID(id.Doc().Clone(), op.Client.Owner())
			if err != nil {
				return err
			}
			run := retryable.Run{Kind: retryable.Updated, First: statement.Int32(), Count: 1}
			if reply := op.Body.Lookup("reply"); reply.Type == bson.TypeDocument {
				run.Kind, run.Doc = retryable.Modified, reply.Doc()
			}
			return op.Transaction.ExecuteFor(ctx, retryable.Session(session), number.Int64(), run)
		},
	}
}
