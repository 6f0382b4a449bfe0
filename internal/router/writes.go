package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/process"
)

// writeFlags are the flags of commands that change documents.
const writeFlags = command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1

// insert, update and delete reply as on a single server: with the sums over the shards,
// and with the errors at the client's indexes of the statements.
func (r *Router) insert() *command.Command {
	return &command.Command{Name: "insert", Kind: command.KindInsert, Flags: writeFlags, Help: "insert documents", Run: r.write(inserts)}
}

func (r *Router) update() *command.Command {
	return &command.Command{Name: "update", Kind: command.KindUpdate, Flags: writeFlags, Help: "update documents", Run: r.write(updates)}
}

func (r *Router) delete() *command.Command {
	return &command.Command{Name: "delete", Kind: command.KindRemove, Flags: writeFlags, Help: "delete documents", Run: r.write(deletes)}
}

// adminCall is an idempotent command for the config primary.
func adminCall(body bson.Doc) client.Call {
	return client.Call{DB: "admin", Body: body, Idempotent: true}
}

func (r *Router) write(k kind) command.Handler {
	return func(ctx context.Context, op *command.Op) error {
		ns, err := collection(op)
		if err != nil {
			return err
		}
		docs := op.Documents(kinds[k].batch)
		if n := len(docs); n == 0 || n > process.MaxWriteBatch {
			return mongoerr.New(mongoerr.InvalidLength, "Write batch sizes must be between 1 and %d. Got %d operations.", process.MaxWriteBatch, n)
		}
		b := r.newBatch(op, ns, kinds[k].batch)
		for i, d := range docs {
			switch k {
			case inserts:
				d = withID(d)
			case deletes:
				if err := node.CheckLimit(bson.ToDouble(d.Lookup("limit"))); err != nil {
					return err
				}
			}
			s := &statement{kind: k, index: i, doc: d}
			r.sampleWrite(op, ns, s)
			b.pending = append(b.pending, s)
		}
		if err := b.run(ctx); err != nil {
			return err
		}
		r.noteWrites(op, k, len(docs))
		if len(b.results.errors) > 0 {
			op.FailTransaction()
		}
		if op.WriteConcern.Unacknowledged() {
			return nil
		}
		b.results.write(op.Reply, k)
		return nil
	}
}

// newBatch returns an empty batch for op's command, whose argument list has the statements.
func (r *Router) newBatch(op *command.Op, ns, list string) *batch {
	b := &batch{r: r, op: op, ns: ns, ordered: true}
	if v := op.Body.Lookup("ordered"); v.Type == bson.TypeBool {
		b.ordered = v.Bool()
	}
	var common bson.Builder
	leave := []string{list, "ordered", "stmtIds", "stmtId"}
	if op.WriteConcern.Unacknowledged() { // the router must learn whether its route was stale
		leave = append(leave, "writeConcern")
		common.OpenDoc("writeConcern").Int32("w", 1).Close()
	}
	appendRest(&common, op.Body, leave...)
	b.common = common.Finish()
	return b
}

// withID adds an _id to a document without one. It must be the same in every attempt.
func withID(d bson.Doc) bson.Doc {
	if d.Has("_id") {
		return d
	}
	return new(bson.Builder).ObjectID("_id", bson.NewObjectID()).Fields(d).Finish()
}

// noteWrites adds statements to opcounters.
func (r *Router) noteWrites(op *command.Op, k kind, n int) {
	op.Stats.IsWrite = true
	switch k {
	case inserts:
		op.CountInserts(int64(n))
	case updates:
		op.CountUpdates(int64(n))
	case deletes:
		op.CountDeletes(int64(n))
	}
}
