package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/update"
)

var findAndModifyFields = command.NewFields("findAndModify",
	command.CollectionOrUUID(),
	command.Object("query"),
	command.Object("fields"),
	command.Object("sort"),
	command.Hint("hint"),
	command.Object("collation"),
	command.ArrayOf("arrayFilters", command.Object("")),
	command.SafeBool("remove"),
	command.Modification("update"),
	command.SafeBool("upsert"),
	command.SafeBool("new"),
	command.SafeBool("bypassDocumentValidation"),
	command.Bool("bypassEmptyTsReplacement"),
	command.Object("let"),
	command.UUID("collectionUUID"),
	command.Int32("stmtId"),
	command.Any("sampleId"),
	command.Any("encryptionInformation"),
)

// findAndModify answers {findAndModify: collection, query, update or remove,
// …} with the document before or after. (Manual: database command
// findAndModify.)
func (n *Node) findAndModify() *command.Command {
	return &command.Command{
		Name: "findAndModify", Aliases: []string{"findandmodify"}, Fields: findAndModifyFields,
		Flags: command.ChecksOwner | command.ChecksBlock | command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1,
		Help:  "update or remove one document and return it",
		Run:   n.runFindAndModify,
		Extra: n.modified.write,
	}
}

// checkFindAndModify refuses combinations of arguments.
func checkFindAndModify(a *command.Args) error {
	remove := a.Bool("remove")
	switch {
	case remove && a.Has("update"):
		return mongoerr.New(mongoerr.FailedToParse, "Cannot specify both an 'update' and 'remove'=true")
	case remove && a.Bool("upsert"):
		return mongoerr.New(mongoerr.FailedToParse, "Cannot specify both 'upsert'=true and 'remove'=true")
	case remove && a.Bool("new"):
		return mongoerr.New(mongoerr.FailedToParse, "Cannot specify both 'new'=true and 'remove'=true; 'remove' always returns the deleted document")
	case remove && a.Has("arrayFilters"):
		return mongoerr.New(mongoerr.FailedToParse, "Cannot specify 'arrayFilters' and 'remove'=true")
	case !remove && !a.Has("update"):
		return mongoerr.New(mongoerr.FailedToParse, "Either an update or remove=true must be specified")
	}
	return nil
}

func (n *Node) runFindAndModify(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if err := checkFindAndModify(a); err != nil {
		return err
	}
	if err := n.checkExpected(op); err != nil {
		return err
	}
	c, err := n.forWrite(ctx, op, false)
	if err != nil {
		return err
	}
	if err := checkTimeseriesModify(c, a.Bool("remove")); err != nil {
		return err
	}
	try := attempt{x: op.Execution, op: op, first: int32(a.Int("stmtId"))}
	if before, err := try.modifiedBefore(op); before || err != nil {
		return err
	}
	if err := op.MayWrite(op.DB); err != nil {
		return err
	}
	q, fields, err := n.findAndModifyQuery(op, c, a)
	if err != nil {
		return err
	}
	w := n.newWriter(op)
	w.Doing = "Plan executor error during findAndModify"
	defer w.Abort()
	var out *exec.Written
	if a.Bool("remove") {
		out, err = w.Delete(ctx, c, &exec.Delete{Query: q.Query, Keep: true})
	} else {
		out, err = n.modify(ctx, op, w, c, q)
	}
	if err != nil {
		return err
	}
	book(op, out)
	if try.x == nil {
		if err := w.Commit(ctx); err != nil {
			return err
		}
		return writeModified(op, op.Reply, q, fields, out)
	}
	// The answer is recorded together with the write.
	answer := new(bson.Builder)
	if err := writeModified(op, answer, q, fields, out); err != nil {
		return err
	}
	doc := answer.Finish()
	if out.Modified > 0 || out.Deleted > 0 || !out.Upserted.IsMissing() {
		try.did(retryable.Modified, 0, doc)
	} else if err := try.overtaken(0); err != nil {
		return err
	}
	if err := w.Commit(ctx); err != nil {
		return err
	}
	op.Reply.Fields(doc)
	return nil
}

// modifiedBefore repeats the answer of an earlier attempt, if there was one.
// Errors: 40609 if that executed something else.
func (a *attempt) modifiedBefore(op *command.Op) (before bool, err error) {
	run, ok, err := a.executed(0)
	if !ok || err != nil {
		return false, err
	}
	removed := run.Kind == retryable.Modified && !run.Doc.Lookup("lastErrorObject").Doc().Has("updatedExisting")
	if run.Kind != retryable.Modified || removed != op.Args.Bool("remove") {
		return false, otherBefore(40609, "findAndModify", &run)
	}
	op.Reply.Fields(run.Doc).Int32("retriedStmtId", a.number(0))
	return true, nil
}

// findAndModifyQuery parses what finds the document and what shapes it.
func (n *Node) findAndModifyQuery(op *command.Op, c *catalog.Collection, a *command.Args) (*query, *project.Projection, error) {
	s, err := n.newScope(op, c, a.Doc("let"), a.Doc("collation"))
	if err != nil {
		return nil, nil, err
	}
	q, err := n.scopedQuery(op, c, s, a.Doc("query"))
	if err != nil {
		return nil, nil, err
	}
	q.Hint, q.AllowDiskUse = a.Value("hint"), true
	if q.Sort, err = sortOf(a.Doc("sort"), a.Doc("query"), c, s.collation); err != nil {
		return nil, nil, err
	}
	if !a.Has("fields") || a.Doc("fields").IsEmpty() {
		return q, nil, q.checkMeta(nil)
	}
	p, err := project.ParseFind(a.Doc("fields"), &project.Options{Expr: q.expr, Match: q.match, Filter: q.Filter})
	switch {
	case err != nil:
		return nil, nil, err
	case p.NeedsFilterMatch() && a.Bool("new"):
		return nil, nil, mongoerr.New(mongoerr.BadValue, "cannot use a positional projection and return the new document")
	case slices.Contains(p.Meta(), "sortKey"):
		return nil, nil, mongoerr.New(mongoerr.BadValue, "Cannot use a $meta sortKey projection in findAndModify commands.")
	}
	q.TextScore = slices.Contains(p.Meta(), "textScore")
	return q, p, q.checkMeta(p)
}

func (n *Node) modify(ctx context.Context, op *command.Op, w *exec.Writer, c *catalog.Collection, q *query) (*exec.Written, error) {
	a := &op.Args
	n.modified.note(a.Value("update"), a.Has("arrayFilters"))
	u, err := n.parseModification(new(update.Options), q.scope, a.Value("update"), arrayFilters(a), nil)
	if err != nil {
		return nil, err
	}
	if c == nil && a.Bool("upsert") {
		if c, err = n.forWrite(ctx, op, true); err != nil {
			return nil, err
		}
	}
	check := n.validator(ctx, c, a.Bool("bypassDocumentValidation"))
	return w.Update(ctx, c, &exec.Update{
		Query: q.Query, Update: u, Upsert: a.Bool("upsert"), KeepZeroTimestamps: keepsZeroTimestamps(a), Check: check, Keep: true,
	})
}

// writeModified writes lastErrorObject and value.
func writeModified(op *command.Op, reply *bson.Builder, q *query, fields *project.Projection, out *exec.Written) error {
	a := &op.Args
	remove := a.Bool("remove")
	value := out.Old
	if a.Bool("new") {
		value = out.New
	}
	found := out.Matched > 0 || out.Deleted > 0
	b := reply.OpenDoc("lastErrorObject")
	if found || !out.Upserted.IsMissing() {
		b.Int32("n", 1)
	} else {
		b.Int32("n", 0)
	}
	if !remove {
		b.Bool("updatedExisting", found)
		b.Value("upserted", out.Upserted)
	}
	b.Close()
	if value == nil {
		reply.Null("value")
		return nil
	}
	if fields != nil {
		var err error
		q.env.Meta = out.Meta.Value
		if value, err = fields.Apply(q.env, value); err != nil {
			return err
		}
	}
	op.Stats.NReturned = 1
	reply.Doc("value", value)
	return nil
}
