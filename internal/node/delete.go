package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

var deleteStatement = command.NewFields("delete.deletes",
	command.Object("q").Required(),
	command.SafeInt64("limit").Required(),
	command.Hint("hint"),
	command.Object("collation"),
	command.Any("sampleId"),
)

var deleteFields = command.NewFields("delete",
	command.CollectionOrUUID(),
	command.ArrayOf("deletes", command.Struct("", deleteStatement)).Required(),
	command.Bool("ordered"),
	command.SafeBool("bypassDocumentValidation"),
	command.Object("let"),
	command.UUID("collectionUUID"),
	command.ArrayOf("stmtIds", command.Int32("")),
	command.Int32("stmtId"),
	command.Any("encryptionInformation"),
)

// delete answers {delete: collection, deletes: [{q, limit: 0 or 1}]}.
// (Manual: database command delete.)
func (n *Node) delete() *command.Command {
	return &command.Command{
		Name: "delete", Kind: command.KindRemove, Fields: deleteFields,
		Flags: command.ChecksOwner | command.ChecksBlock | command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1,
		Help:  "delete documents",
		Run:   n.runDelete,
	}
}

func (n *Node) runDelete(ctx context.Context, op *command.Op) error {
	statements := op.Args.Structs("deletes")
	if err := checkBatch(len(statements)); err != nil {
		return err
	}
	for i := range statements {
		if err := CheckLimit(statements[i].Double("limit")); err != nil {
			return err
		}
	}
	try, err := newAttempt(op, len(statements))
	if err != nil {
		return err
	}
	c, err := n.forWrite(ctx, op, false)
	if err != nil {
		return err
	}
	m, w := n.newWriting(op)
	defer w.Abort()
	var errs writeErrors
	deleted := int64(0)
	for i := range statements {
		a, start := &statements[i], time.Now()
		_, before, err := try.executed(i)
		if before {
			deleted++
			continue
		}
		var out *exec.Written
		if err == nil {
			err = try.refuseMulti(a.Double("limit") == 0, "limit=0")
		}
		if err == nil {
			out, err = n.deleteOne(ctx, op, m, c, a)
		}
		noteStatement(ctx, op, command.KindRemove, start, out, err, func(b *bson.Builder) { describeDelete(b, a) })
		if out != nil {
			book(op, out)
			deleted += out.Deleted
		}
		if err == nil {
			try.deleted(i, out)
			continue
		}
		if err := fails(ctx, op, err); err != nil {
			return err
		}
		errs.add(i, err)
		if endsBatch(op.Args.BoolOr("ordered", true), err) {
			break
		}
	}
	if err := w.Commit(ctx); err != nil {
		return err
	}
	op.CountDeletes(int64(len(statements) - len(try.retried)))
	if op.WriteConcern.Unacknowledged() {
		return nil
	}
	op.Reply.Int("n", deleted)
	errs.write(op.Reply)
	try.write(op.Reply)
	return nil
}

func (n *Node) deleteOne(ctx context.Context, op *command.Op, m *writing, c *catalog.Collection, a *command.Args) (*exec.Written, error) {
	if err := op.MayWrite(op.DB); err != nil {
		return nil, err
	}
	if err := n.checkExpected(op); err != nil {
		return nil, err
	}
	d, err := n.parseDelete(m.next(), op, c, a, op.Args.Doc("let"))
	if err != nil {
		return nil, err
	}
	return m.writer.Delete(ctx, c, d)
}

// CheckLimit refuses limits that are neither 0, for all documents, nor 1. Error 9.
func CheckLimit(limit float64) error {
	if limit != 0 && limit != 1 {
		return mongoerr.New(mongoerr.FailedToParse, "The limit field in delete objects must be 0 or 1. Got %.6g", limit)
	}
	return nil
}

// describeDelete writes a statement as the profile shows it.
func describeDelete(b *bson.Builder, a *command.Args) {
	b.Doc("q", a.Doc("q")).Value("limit", a.Value("limit"))
	describeHint(b, a.Value("hint"))
	if a.Has("collation") {
		b.Doc("collation", a.Doc("collation"))
	}
}

// parseDelete reads a statement {q, limit, hint, collation}.
func (n *Node) parseDelete(m *writeMemory, op *command.Op, c *catalog.Collection, a *command.Args, let bson.Doc) (*exec.Delete, error) {
	s, err := n.scopeIn(&m.statementMemory, op, c, let, a.Doc("collation"))
	if err != nil {
		return nil, err
	}
	q, err := n.scopedQueryIn(&m.statementMemory, op, c, s, a.Doc("q"))
	if err != nil {
		return nil, err
	}
	q.Hint = a.Value("hint")
	m.delete = exec.Delete{Query: q.Query, Multi: a.Double("limit") == 0}
	return &m.delete, nil
}
