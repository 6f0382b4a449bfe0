package node

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/query/update"
)

var updateStatement = command.NewFields("update.updates",
	command.Object("q").Required(),
	command.Modification("u").Required(),
	command.Object("c"),
	command.ArrayOf("arrayFilters", command.Object("")),
	command.Hint("hint"),
	command.Bool("multi"),
	command.Bool("upsert"),
	command.Bool("upsertSupplied"),
	command.Object("collation"),
	command.Object("sort"),
	command.Any("sampleId"),
)

var updateFields = command.NewFields("update",
	command.CollectionOrUUID(),
	command.ArrayOf("updates", command.Struct("", updateStatement)).Required(),
	command.Bool("ordered"),
	command.SafeBool("bypassDocumentValidation"),
	command.Bool("bypassEmptyTsReplacement"),
	command.Object("let"),
	command.UUID("collectionUUID"),
	command.ArrayOf("stmtIds", command.Int32("")),
	command.Int32("stmtId"),
	command.Any("encryptionInformation"),
)

// update answers {update: collection, updates: [{q, u, multi, upsert, …}]}.
// (Manual: database command update.)
func (n *Node) update() *command.Command {
	return &command.Command{
		Name: "update", Kind: command.KindUpdate, Fields: updateFields,
		Flags: command.ChecksOwner | command.ChecksBlock | command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1,
		Help:  "update documents",
		Run:   n.runUpdate,
		Extra: n.updated.write,
	}
}

func (n *Node) runUpdate(ctx context.Context, op *command.Op) error {
	statements := op.Args.Structs("updates")
	if err := checkBatch(len(statements)); err != nil {
		return err
	}
	for i := range statements {
		if err := update.CheckStages(statements[i].Value("u")); err != nil {
			return err
		}
	}
	try, err := newAttempt(op, len(statements))
	if err != nil {
		return err
	}
	if _, err := n.forWrite(ctx, op, false); err != nil {
		return err
	}
	m, w := n.newWriting(op)
	defer w.Abort()
	var errs writeErrors
	var upserted []bson.Doc
	matched, modified := int64(0), int64(0)
	for i := range statements {
		a, start := &statements[i], time.Now()
		out, before, err := try.updateBefore(i)
		if !before {
			if err == nil {
				err = try.refuseMulti(a.Bool("multi"), "multi=true")
			}
			if err == nil {
				out, err = n.updateOne(ctx, op, m, a)
			}
			noteStatement(ctx, op, command.KindUpdate, start, out, err, func(b *bson.Builder) { describeUpdate(b, a) })
			if out != nil {
				book(op, out)
			}
			switch {
			case err != nil:
			case out.Matched == 0 && out.Upserted.IsMissing():
				err = try.overtaken(i)
			default:
				try.updated(i, out)
			}
		}
		if out != nil && err == nil { // mongod counts nothing of a statement that fails midway
			modified += out.Modified
			matched += out.Matched
			if !out.Upserted.IsMissing() {
				matched++
				upserted = append(upserted, new(bson.Builder).Int("index", int64(i)).Value("_id", out.Upserted).Finish())
			}
		}
		if err == nil {
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
	op.CountUpdates(int64(len(statements) - len(try.retried)))
	if op.WriteConcern.Unacknowledged() {
		return nil
	}
	op.Reply.Int("n", matched)
	if len(upserted) > 0 {
		op.Reply.OpenArray("upserted")
		for i, d := range upserted {
			op.Reply.Doc(bson.Index(i), d)
		}
		op.Reply.Close()
	}
	op.Reply.Int("nModified", modified)
	errs.write(op.Reply)
	try.write(op.Reply)
	return nil
}

// updateOne runs one statement.
func (n *Node) updateOne(ctx context.Context, op *command.Op, m *writing, a *command.Args) (*exec.Written, error) {
	if err := op.MayWrite(op.DB); err != nil {
		return nil, err
	}
	if err := n.checkExpected(op); err != nil {
		return nil, err
	}
	c, err := n.collection(op)
	if err != nil {
		return nil, err
	}
	u, err := n.parseUpdate(m.next(), op, c, a, op.Args.Doc("let"))
	if err != nil {
		return nil, err
	}
	u.Check = n.validator(ctx, c, op.Args.Bool("bypassDocumentValidation"))
	if c == nil && u.Upsert {
		if c, err = n.forWrite(ctx, op, true); err != nil {
			return nil, err
		}
	}
	return m.writer.Update(ctx, c, u)
}

// describeUpdate writes a statement as the profile shows it.
func describeUpdate(b *bson.Builder, a *command.Args) {
	b.Doc("q", a.Doc("q")).Value("u", a.Value("u"))
	for _, name := range []string{"c", "sort", "arrayFilters"} {
		if a.Has(name) {
			b.Value(name, a.Value(name))
		}
	}
	describeHint(b, a.Value("hint"))
	b.Bool("multi", a.Bool("multi")).Bool("upsert", a.Bool("upsert"))
	if a.Has("collation") {
		b.Doc("collation", a.Doc("collation"))
	}
}

// parseUpdate reads a statement {q, u, c, arrayFilters, multi, upsert, hint,
// collation, sort}.
func (n *Node) parseUpdate(m *writeMemory, op *command.Op, c *catalog.Collection, a *command.Args, let bson.Doc) (*exec.Update, error) {
	s, err := n.scopeIn(&m.statementMemory, op, c, let, a.Doc("collation"))
	if err != nil {
		return nil, err
	}
	q, err := n.scopedQueryIn(&m.statementMemory, op, c, s, a.Doc("q"))
	if err != nil {
		return nil, err
	}
	q.Hint = a.Value("hint")
	out := &m.update
	*out = exec.Update{Query: q.Query, Multi: a.Bool("multi"), Upsert: a.Bool("upsert"), KeepZeroTimestamps: keepsZeroTimestamps(&op.Args)}
	if a.Has("sort") {
		if out.Multi {
			return nil, mongoerr.New(mongoerr.FailedToParse, "Cannot specify sort with multi=true")
		}
		if q.Sort, err = sortOf(a.Doc("sort"), a.Doc("q"), c, s.collation); err != nil {
			return nil, err
		}
	}
	if !out.Multi && !q.Sort.IsEmpty() {
		q.AllowDiskUse = true
	}
	n.updated.note(a.Value("u"), a.Has("arrayFilters"))
	if out.Update, err = n.parseModification(&m.modification, s, a.Value("u"), arrayFilters(a), a.Doc("c")); err != nil {
		return nil, err
	}
	if out.Multi && out.Update.Kind() == update.Replacement {
		return nil, mongoerr.New(mongoerr.FailedToParse, "multi update is not supported for replacement-style update")
	}
	return out, checkTimeseriesUpdate(c, out, a.Value("u"))
}

// sortOf parses the sort of a statement that changes one document. Where the
// filter has its _id, mongod looks it up and ignores the sort, unless another collation
// than the collection's makes several equal.
func sortOf(sort, filter bson.Doc, c *catalog.Collection, collation bson.Doc) (sortkey.Pattern, error) {
	if id, v := filter.First(); id == "_id" && filter.Len() == 1 && (c == nil || bytes.Equal(collationOf(c.Settings), collation)) {
		switch v.Type {
		case bson.TypeRegex, bson.TypeArray:
		case bson.TypeDocument:
			if k, _ := v.Doc().First(); !strings.HasPrefix(k, "$") {
				sort = nil
			}
		default:
			sort = nil
		}
	}
	return sortkey.Parse(sort)
}

// parseModification parses the modification of an update or a findAndModify.
func (n *Node) parseModification(o *update.Options, s scope, u bson.Value, filters []bson.Doc, constants bson.Doc) (*update.Update, error) {
	*o = update.Options{ArrayFilters: filters, Constants: constants, Match: s.match, Expr: s.expr, Collator: s.collator}
	return update.Parse(u, o)
}

func arrayFilters(a *command.Args) []bson.Doc {
	if !a.Has("arrayFilters") {
		return nil
	}
	fs := []bson.Doc{}
	for _, v := range a.Array("arrayFilters") {
		fs = append(fs, v.Doc())
	}
	return fs
}
