package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	bulkInsert = command.NewFields("insert",
		command.SafeInt("insert").Min(0).Required(),
		command.Object("document").Required(),
	)
	bulkUpdate = command.NewFields("update",
		command.SafeInt("update").Min(0).Required(),
		command.Object("filter").Required(),
		command.Modification("updateMods").Required(),
		command.ArrayOf("arrayFilters", command.Object("")),
		command.Bool("multi"),
		command.Hint("hint"),
		command.Object("constants"),
		command.Object("collation"),
		command.Object("sort"),
		command.Bool("upsert"),
	)
	bulkDelete = command.NewFields("delete",
		command.SafeInt("delete").Min(0).Required(),
		command.Object("filter").Required(),
		command.Bool("multi"),
		command.Hint("hint"),
		command.Object("collation"),
	)
	bulkNamespace = command.NewFields("bulkWrite.nsInfo",
		command.String("ns").Required(),
		command.UUID("collectionUUID"),
		command.Any("encryptionInformation"),
		command.Any("isTimeseriesNamespace"),
		command.Object("shardVersion"),
		command.Object("databaseVersion"),
	)
	bulkWriteFields = command.NewFields("bulkWrite",
		command.ArrayOf("ops", command.Object("")).Required(),
		command.ArrayOf("nsInfo", command.Struct("", bulkNamespace)).Required(),
		command.Bool("ordered"),
		command.SafeBool("bypassDocumentValidation"),
		command.Bool("bypassEmptyTsReplacement"),
		command.Bool("errorsOnly"),
		command.Object("let"),
		command.Struct("cursor", command.NewFields("bulkWrite.cursor", command.SafeInt64("batchSize").Min(0))),
		command.ArrayOf("stmtIds", command.Int32("")),
		command.Int32("stmtId"),
	)
)

// bulkWrite answers {bulkWrite: 1, ops, nsInfo} on the database admin: inserts,
// updates and deletes over several collections. (Manual: database command
// bulkWrite.)
func (n *Node) bulkWrite() *command.Command {
	return &command.Command{
		Name: "bulkWrite", Fields: bulkWriteFields,
		Flags: command.AdminOnly | command.ChecksBlock | command.Writes | command.TakesWriteConcern | command.Retryable | command.Transaction | command.APIv1,
		Help:  "writes to several collections",
		Run:   n.runBulkWrite,
	}
}

// bulk is a running bulkWrite.
type bulk struct {
	n      *Node
	op     *command.Op
	spaces []*bulkSpace
	w      *exec.Writer
	try    attempt
	items  []bson.Doc
	bytes  int

	errors, inserted, matched, modified, upserted, deleted int64
}

// bulkSpace is one of the namespaces: name and collection as single commands
// have them, and the UUID that the client expects.
type bulkSpace struct {
	command.Op
	expected bson.Value
}

func (n *Node) runBulkWrite(ctx context.Context, op *command.Op) error {
	ops := op.Documents("ops")
	if err := checkBatch(len(ops)); err != nil {
		return err
	}
	b := &bulk{n: n, op: op}
	var err error
	if b.try, err = newAttempt(op, len(ops)); err != nil {
		return err
	}
	if err := b.namespaces(); err != nil {
		return err
	}
	list := make([]bulkStatement, len(ops))
	for i, d := range ops {
		var err error
		if list[i], err = b.parse(d); err != nil {
			return err
		}
	}
	b.w = n.newWriter(op)
	b.w.SetGuard(b.guard())
	defer b.w.Abort()
	if err := b.runAll(ctx, list, op.Args.BoolOr("ordered", true)); err != nil {
		return err
	}
	if err := b.w.Commit(ctx); err != nil {
		return err
	}
	if op.WriteConcern.Unacknowledged() {
		*b = bulk{n: n, op: op}
	}
	return b.reply(ctx)
}

// runAll runs the statements; if they are ordered, up to the first that
// fails.
func (b *bulk) runAll(ctx context.Context, list []bulkStatement, ordered bool) error {
	for i := 0; i < len(list); {
		n, failed, stale, err := b.insertRun(ctx, i, list[i:], ordered)
		if err != nil {
			return err
		}
		ordered = ordered || stale
		if n == 0 {
			n = 1
			if err := b.run(ctx, i, &list[i]); err != nil {
				if err := fails(ctx, b.op, err); err != nil {
					return err
				}
				failed = true
				b.fail(i, list[i].kind, err)
				ordered = endsBatch(ordered, err)
			}
		}
		if failed && ordered {
			return nil
		}
		i += n
	}
	return nil
}

func (b *bulk) namespaces() error {
	for _, a := range b.op.Args.Structs("nsInfo") {
		ns := schema.ParseNamespace(a.Str("ns"))
		if ns.Validate() != nil {
			return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified for bulkWrite: '%s'", a.Str("ns"))
		}
		if b.op.Transaction != nil && (ns.DB == "admin" || ns.DB == "config" || ns.DB == "local") {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot run command against the '%s' database in a transaction.", ns.DB)
		}
		space := &bulkSpace{
			command.Op{DB: ns.DB, NS: ns.String(), Collection: ns.Coll, Client: b.op.Client, Dispatcher: b.op.Dispatcher, Transaction: b.op.Transaction, ExpiryTime: b.op.ExpiryTime},
			a.Value("collectionUUID"),
		}
		space.EndWith(b.op)
		var err error
		if space.Generic.Versions, err = command.ParseVersions(a.Doc("shardVersion"), a.Doc("databaseVersion")); err != nil {
			return err
		}
		b.spaces = append(b.spaces, space)
	}
	return nil
}

// bulkStatement is one of the ops, parsed.
type bulkStatement struct {
	kind  string
	args  command.Args
	space *bulkSpace
}

// bulkStatements are the kinds of ops.
var bulkStatements = map[string]*command.Fields{"insert": bulkInsert, "update": bulkUpdate, "delete": bulkDelete}

// parse reads an op. The whole command fails where one is malformed.
func (b *bulk) parse(d bson.Doc) (bulkStatement, error) {
	kind, args, at, err := ParseBulkOp(d, len(b.spaces))
	if err != nil {
		return bulkStatement{}, err
	}
	return bulkStatement{kind, args, b.spaces[at]}, nil
}

// ParseBulkOp reads one of the ops of a bulkWrite over so many namespaces: its kind, its
// arguments and the index of its namespace. Errors: those of malformed ones, 2, 9.
func ParseBulkOp(d bson.Doc, spaces int) (kind string, args command.Args, space int, err error) {
	kind, _ = d.First()
	fields, ok := bulkStatements[kind]
	if !ok {
		return "", args, 0, mongoerr.New(mongoerr.IDLUnknownField, "BSON field 'bulkWrite.ops.%s' is an unknown field.", kind)
	}
	if args, err = command.ParseDoc(fields, d); err != nil {
		return "", args, 0, err
	}
	space = args.Int(kind)
	switch {
	case space >= spaces:
		err = mongoerr.New(mongoerr.BadValue, "BulkWrite ops entry has an invalid nsInfo index.")
	case kind == "update" && args.Bool("multi") && args.Has("sort"):
		err = mongoerr.New(mongoerr.FailedToParse, "Cannot specify sort with multi=true")
	case kind == "update":
		err = update.CheckStages(args.Value("updateMods"))
	}
	return kind, args, space, err
}

func (b *bulk) run(ctx context.Context, i int, s *bulkStatement) error {
	switch done, ok, err := b.try.executed(i); {
	case err != nil:
		return err
	case ok:
		return b.again(i, s, &done)
	}
	space := &s.space.Op
	b.op.NextClusterTime()
	if err := b.op.MayWrite(space.DB); err != nil {
		return err
	}
	if err := b.n.checkUUID(space.DB, space.Collection, b.n.lookup(space, namespace(space)), s.space.expected); err != nil {
		return err
	}
	switch s.kind {
	case "insert":
		return b.insert(ctx, i, &s.args, space)
	case "update":
		return b.update(ctx, i, &s.args, space)
	}
	return b.delete(ctx, i, &s.args, space)
}

// again answers a statement that an earlier attempt has already executed.
func (b *bulk) again(i int, s *bulkStatement, done *retryable.Run) error {
	switch s.kind {
	case "insert":
		b.countInsert(i)
	case "update":
		out, err := updatedBefore(done)
		if err != nil {
			return err
		}
		b.countUpdate(i, out)
	default:
		b.countDelete(i, 1)
	}
	return nil
}

func (b *bulk) bypass() bool { return b.op.Args.Bool("bypassDocumentValidation") }

func (b *bulk) insert(ctx context.Context, i int, a *command.Args, space *command.Op) error {
	c, err := b.n.forWrite(ctx, space, true)
	if err != nil {
		return err
	}
	check := b.n.validator(ctx, c, b.bypass())
	b.op.CountInserts(1)
	if err := b.n.insertOne(ctx, b.w, c, a.Doc("document"), check, b.n.stamp(&b.op.Args)); err != nil {
		return err
	}
	b.try.did(retryable.Inserted, i, nil)
	b.countInsert(i)
	return nil
}

// countInsert answers an insert.
func (b *bulk) countInsert(i int) {
	b.inserted++
	b.item(new(bson.Builder).Double("ok", 1).Int("idx", int64(i)).Int32("n", 1))
}

func (b *bulk) update(ctx context.Context, i int, a *command.Args, space *command.Op) error {
	if err := b.try.refuseMulti(a.Bool("multi"), "multi=true"); err != nil {
		return err
	}
	c, err := b.n.forWrite(ctx, space, a.Bool("upsert"))
	if err != nil {
		return err
	}
	u, err := b.parseUpdate(c, a)
	if err != nil {
		return err
	}
	u.Check = b.n.validator(ctx, c, b.bypass())
	out, err := b.w.Update(ctx, c, u)
	if err != nil {
		return err
	}
	book(b.op, out)
	b.op.CountUpdates(1)
	b.try.updated(i, out)
	b.countUpdate(i, out)
	return nil
}

// countUpdate answers an update.
func (b *bulk) countUpdate(i int, out *exec.Written) {
	b.matched += out.Matched
	b.modified += out.Modified
	n := out.Matched
	item := new(bson.Builder).Double("ok", 1).Int("idx", int64(i))
	if !out.Upserted.IsMissing() {
		b.upserted++
		n = 1
	}
	item.Int("n", n).Int("nModified", out.Modified)
	if !out.Upserted.IsMissing() {
		item.OpenDoc("upserted").Value("_id", out.Upserted).Close()
	}
	b.item(item)
}

func (b *bulk) parseUpdate(c *catalog.Collection, a *command.Args) (*exec.Update, error) {
	s, err := b.n.newScope(b.op, c, b.op.Args.Doc("let"), a.Doc("collation"))
	if err != nil {
		return nil, err
	}
	q, err := b.n.scopedQuery(b.op, c, s, a.Doc("filter"))
	if err != nil {
		return nil, err
	}
	q.Hint = a.Value("hint")
	u := &exec.Update{Query: q.Query, Multi: a.Bool("multi"), Upsert: a.Bool("upsert"), KeepZeroTimestamps: keepsZeroTimestamps(&b.op.Args)}
	if a.Has("sort") {
		if q.Sort, err = sortOf(a.Doc("sort"), a.Doc("filter"), c, s.collation); err != nil {
			return nil, err
		}
		q.AllowDiskUse = true
	}
	if u.Update, err = b.n.parseModification(new(update.Options), s, a.Value("updateMods"), arrayFilters(a), a.Doc("constants")); err != nil {
		return nil, err
	}
	if u.Multi && u.Update.Kind() == update.Replacement {
		return nil, mongoerr.New(mongoerr.FailedToParse, "multi update is not supported for replacement-style update")
	}
	return u, checkTimeseriesUpdate(c, u, a.Value("updateMods"))
}

func (b *bulk) delete(ctx context.Context, i int, a *command.Args, space *command.Op) error {
	if err := b.try.refuseMulti(a.Bool("multi"), "multi=true"); err != nil {
		return err
	}
	c, err := b.n.forWrite(ctx, space, false)
	if err != nil {
		return err
	}
	s, err := b.n.newScope(b.op, c, b.op.Args.Doc("let"), a.Doc("collation"))
	if err != nil {
		return err
	}
	q, err := b.n.scopedQuery(b.op, c, s, a.Doc("filter"))
	if err != nil {
		return err
	}
	q.Hint = a.Value("hint")
	out, err := b.w.Delete(ctx, c, &exec.Delete{Query: q.Query, Multi: a.Bool("multi")})
	if err != nil {
		return err
	}
	book(b.op, out)
	b.op.CountDeletes(1)
	b.try.deleted(i, out)
	b.countDelete(i, out.Deleted)
	return nil
}

// countDelete answers a delete.
func (b *bulk) countDelete(i int, n int64) {
	b.deleted += n
	b.item(new(bson.Builder).Double("ok", 1).Int("idx", int64(i)).Int("n", n))
}

// item keeps the outcome of a statement; with errorsOnly those of failures
// only.
func (b *bulk) item(d *bson.Builder) {
	if b.op.Args.Bool("errorsOnly") {
		return
	}
	b.items = append(b.items, d.Finish())
}

func (b *bulk) fail(i int, kind string, err error) {
	e := mongoerr.From(err)
	b.op.FailTransaction()
	b.errors++
	d := new(bson.Builder).Double("ok", 0).Int("idx", int64(i)).Int32("code", int32(e.Code))
	if e.Info != nil {
		d.Doc("errInfo", e.Info)
	}
	message := e.Message
	if b.bytes += len(message); b.bytes > maxErrorBytes {
		message = ""
	}
	d.String("errmsg", message)
	if e.Extra != nil {
		d.Fields(e.Extra)
	}
	d.Int32("n", 0)
	if kind == "update" {
		d.Int32("nModified", 0)
	}
	b.items = append(b.items, d.Finish())
}

// reply answers with a cursor over the outcomes and their sums.
func (b *bulk) reply(ctx context.Context) error {
	batch := int64(command.DefaultBatch)
	if a, ok := b.op.Args.Struct("cursor"); ok {
		batch = a.Int64Or("batchSize", batch)
	}
	if batch == command.DefaultBatch {
		batch = int64(len(b.items)) + 1
	}
	err := command.WriteCursorReply(ctx, b.op, command.CursorSpec{NS: "admin.$cmd.bulkWrite", Cursor: &listCursor{docs: b.items}, BatchSize: batch})
	if err != nil {
		return err
	}
	b.op.Reply.Int("nErrors", b.errors).Int("nInserted", b.inserted).Int("nMatched", b.matched)
	b.op.Reply.Int("nModified", b.modified).Int("nUpserted", b.upserted).Int("nDeleted", b.deleted)
	b.try.write(b.op.Reply)
	return nil
}

// listCursor is a cursor over documents in memory.
type listCursor struct{ docs []bson.Doc }

// Next returns the next document.
func (c *listCursor) Next(context.Context) (bson.Doc, error) {
	if len(c.docs) == 0 {
		return nil, nil
	}
	d := c.docs[0]
	c.docs = c.docs[1:]
	return d, nil
}

// Close releases the documents.
func (c *listCursor) Close() { c.docs = nil }
