package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

var insertFields = command.NewFields("insert",
	command.CollectionOrUUID(),
	command.ArrayOf("documents", command.Object("")).Required(),
	command.Bool("ordered"),
	command.SafeBool("bypassDocumentValidation"),
	command.Bool("bypassEmptyTsReplacement"),
	command.UUID("collectionUUID"),
	command.ArrayOf("stmtIds", command.Int32("")),
	command.Int32("stmtId"),
	command.Any("encryptionInformation"),
)

// insert answers {insert: collection, documents: [...]}. (Manual: database
// command insert.)
func (n *Node) insert() *command.Command {
	return &command.Command{
		Name: "insert", Kind: command.KindInsert, Fields: insertFields,
		Flags: command.ChecksOwner | command.ChecksBlock | command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1,
		Help:  "insert documents",
		Run:   n.runInsert,
	}
}

func (n *Node) runInsert(ctx context.Context, op *command.Op) error {
	docs := op.Documents("documents")
	if err := checkBatch(len(docs)); err != nil {
		return err
	}
	ordered := op.Args.BoolOr("ordered", true)
	try, err := newAttempt(op, len(docs))
	if err != nil {
		return err
	}
	if err := n.checkExpected(op); err != nil {
		return refuseAll(op, len(docs), ordered, err)
	}
	blocked := op.MayWrite(op.DB)
	if c := n.restoring(op); c != nil {
		return n.restoreBuckets(ctx, op, c, docs, &try)
	}
	c, err := n.forWrite(ctx, op, blocked == nil)
	if err != nil {
		return err
	}
	if c == nil {
		return refuseAll(op, len(docs), ordered, blocked)
	}
	if c.IsTimeseries() {
		return n.insertMeasurements(ctx, op, c, docs, &try)
	}
	check := n.validator(ctx, c, op.Args.Bool("bypassDocumentValidation"))
	now := n.stamp(&op.Args)
	_, w := n.newWriting(op)
	defer w.Abort()
	var errs writeErrors
	inserted := int64(0)
	for i, doc := range docs {
		_, before, err := try.executed(i)
		if before {
			continue
		}
		if err == nil {
			err = blocked
		}
		if err == nil {
			err = n.insertOne(ctx, w, c, doc, check, now)
		}
		if err == nil {
			try.did(retryable.Inserted, i, nil)
			inserted++
			continue
		}
		if err := fails(ctx, op, err); err != nil {
			return err
		}
		errs.add(i, err)
		if endsBatch(ordered, err) {
			break
		}
	}
	return endInsert(ctx, op, w, inserted, &errs, &try)
}

// endInsert commits the documents of an insert and answers.
func endInsert(ctx context.Context, op *command.Op, w *exec.Writer, inserted int64, errs *writeErrors, try *attempt) error {
	if err := w.Commit(ctx); err != nil {
		return err
	}
	op.CountInserts(inserted + int64(len(errs.list)))
	op.Stats.IsWrite, op.Stats.NInserted, op.Stats.KeysInserted = true, inserted, w.KeysInserted()
	if op.WriteConcern.Unacknowledged() {
		return nil
	}
	op.Reply.Int("n", inserted+int64(len(try.retried)))
	errs.write(op.Reply)
	try.write(op.Reply)
	return nil
}

// refuseAll answers a write command of which no statement can run: each fails
// with the same error, or only the first if they are ordered.
func refuseAll(op *command.Op, statements int, ordered bool, err error) error {
	if op.WriteConcern.Unacknowledged() {
		return nil
	}
	if ordered {
		statements = 1
	}
	var errs writeErrors
	for i := range statements {
		errs.add(i, err)
	}
	op.Reply.Int("n", 0)
	errs.write(op.Reply)
	return nil
}

// insertOne checks a document, fills in current timestamps, and passes it to
// the writer.
func (n *Node) insertOne(ctx context.Context, w *exec.Writer, c *catalog.Collection, doc bson.Doc, check checker, now func() uint64) error {
	doc, err := schema.PrepareInsert(doc, now)
	if err != nil {
		return err
	}
	if c.IsTimeseries() {
		m, err := timeseries.NewMeasurement(doc, c.Settings.Timeseries)
		if err != nil {
			return err
		}
		return w.InsertMeasurements(ctx, c, []timeseries.Measurement{m})
	}
	if check != nil {
		if err := check(nil, doc); err != nil {
			return err
		}
	}
	return w.Insert(ctx, c, doc)
}

func checkBatch(n int) error {
	if n == 0 || n > process.MaxWriteBatch {
		return mongoerr.New(mongoerr.InvalidLength, "Write batch sizes must be between 1 and %d. Got %d operations.", process.MaxWriteBatch, n)
	}
	return nil
}
