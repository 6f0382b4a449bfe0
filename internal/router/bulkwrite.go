package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/process"
)

// bulkWrite answers {bulkWrite: 1, ops, nsInfo} on the database admin: inserts, updates
// and deletes over several collections. (Manual: database command bulkWrite.)
func (r *Router) bulkWrite() *command.Command {
	return &command.Command{
		Name: "bulkWrite", Flags: writeFlags | command.AdminOnly, Help: "writes to several collections", Run: r.runBulkWrite,
	}
}

// bulk is a bulkWrite that is being executed.
type bulk struct {
	r       *Router
	op      *command.Op
	spaces  []string
	uuids   map[string]bson.Value // of the namespaces for which the client gives one
	ordered bool
	quiet   bool // errorsOnly: true
	items   []bson.Doc
	results results // the state that the batches share

	errors, inserted, matched, modified, upserted, deleted int64
}

func (r *Router) runBulkWrite(ctx context.Context, op *command.Op) error {
	b := &bulk{r: r, op: op, uuids: map[string]bson.Value{}, ordered: true, quiet: op.Body.Lookup("errorsOnly").Truthy()}
	if v := op.Body.Lookup("ordered"); v.Type == bson.TypeBool {
		b.ordered = v.Bool()
	}
	for _, d := range op.Documents("nsInfo") {
		ns := d.Lookup("ns")
		if ns.Type != bson.TypeString {
			return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified for bulkWrite: '%s'", ns)
		}
		if db, coll := splitNamespace(ns.Str()); db == "" || coll == "" {
			return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified for bulkWrite: '%s'", ns.Str())
		}
		b.spaces = append(b.spaces, ns.Str())
		if id := d.Lookup("collectionUUID"); !id.IsMissing() {
			b.uuids[ns.Str()] = id
		}
	}
	ops := op.Documents("ops")
	if n := len(ops); n == 0 || n > process.MaxWriteBatch {
		return mongoerr.New(mongoerr.InvalidLength, "Write batch sizes must be between 1 and %d. Got %d operations.", process.MaxWriteBatch, n)
	}
	list := make([]*statement, len(ops))
	places := make([]string, len(ops))
	for i, d := range ops {
		var err error
		if list[i], places[i], err = b.parse(i, d); err != nil {
			return err
		}
	}
	for i := 0; i < len(list); {
		// Consecutive inserts into one collection form a batch. Other statements need
		// an outcome each.
		n := 1
		for list[i].kind == inserts && i+n < len(list) && list[i+n].kind == inserts && places[i+n] == places[i] {
			n++
		}
		failed, err := b.execute(ctx, places[i], list[i:i+n])
		if err != nil {
			return err
		}
		if failed && b.ordered {
			break
		}
		i += n
	}
	if op.WriteConcern.Unacknowledged() {
		*b = bulk{r: r, op: op}
	}
	return b.reply(ctx)
}

// parse converts one of the ops into a statement of the command for its kind.
func (b *bulk) parse(i int, d bson.Doc) (*statement, string, error) {
	name, _, n, err := node.ParseBulkOp(d, len(b.spaces))
	if err != nil {
		return nil, "", err
	}
	s := &statement{index: i}
	switch name {
	case "insert":
		s.kind, s.doc = inserts, withID(document(d.Lookup("document")))
		return s, b.spaces[n], nil
	case "update":
		s.kind = updates
	case "delete":
		s.kind = deletes
	}
	var doc bson.Builder
	multi := false
	for field, v := range d.All() {
		switch field {
		case name:
		case "filter":
			doc.Value("q", v)
		case "updateMods":
			doc.Value("u", v)
		case "constants":
			doc.Value("c", v)
		case "multi":
			multi = v.Truthy()
		default:
			doc.Value(field, v)
		}
	}
	if s.kind == updates {
		doc.Bool("multi", multi)
	} else {
		limit := int32(1)
		if multi {
			limit = 0
		}
		doc.Int32("limit", limit)
	}
	s.doc = doc.Finish()
	return s, b.spaces[n], nil
}

// execute executes statements of one kind on one collection, and records their outcomes.
func (b *bulk) execute(ctx context.Context, ns string, list []*statement) (failed bool, err error) {
	k := list[0].kind
	leave := []string{"ops", "nsInfo", "ordered", "errorsOnly", "cursor", "stmtIds", "stmtId"}
	if k == inserts {
		leave = append(leave, "let")
	}
	var common bson.Builder
	if b.op.WriteConcern.Unacknowledged() {
		leave = append(leave, "writeConcern")
		common.OpenDoc("writeConcern").Int32("w", 1).Close()
	}
	appendRest(&common, b.op.Body, leave...)
	if id, ok := b.uuids[ns]; ok {
		common.Value("collectionUUID", id)
	}
	w := &batch{r: b.r, op: b.op, ns: ns, ordered: b.ordered, common: common.Finish(), pending: append([]*statement(nil), list...)}
	if err := w.run(ctx); err != nil {
		if ctx.Err() != nil || b.op.InTransaction() || retryable(b.op) && command.MayRetry(mongoerr.From(err).Code) {
			return false, err
		}
		for _, s := range list {
			w.results.errors = append(w.results.errors, failedStatement(s, err))
			if b.ordered {
				break
			}
		}
	}
	b.r.noteWrites(b.op, k, len(list))
	b.results.concerns = append(b.results.concerns, w.results.concerns...)
	b.results.retried = append(b.results.retried, w.results.retried...)
	errs := map[int]*mongoerr.Error{}
	for _, f := range w.results.errors {
		errs[f.index] = f.err
	}
	for _, s := range list {
		if e := errs[s.index]; e != nil {
			b.fail(s, e)
			failed = true
			if b.ordered {
				return true, nil
			}
			continue
		}
		b.succeed(s, &w.results)
	}
	return failed, nil
}

func failedStatement(s *statement, err error) failed { return failed{s.index, mongoerr.From(err)} }

// succeed records the counts of a statement.
func (b *bulk) succeed(s *statement, r *results) {
	item := new(bson.Builder).Double("ok", 1).Int("idx", int64(s.index))
	switch s.kind {
	case inserts:
		b.inserted++
		item.Int32("n", 1)
	case deletes:
		b.deleted += r.n
		item.Int("n", r.n)
	case updates:
		item.Int("n", r.n).Int("nModified", r.modified)
		b.modified += r.modified
		if len(r.upserted) > 0 {
			b.upserted++
			item.OpenDoc("upserted").Value("_id", r.upserted[0].id).Close()
		} else {
			b.matched += r.n
		}
	}
	if !b.quiet {
		b.items = append(b.items, item.Finish())
	}
}

// fail records the error of a statement.
func (b *bulk) fail(s *statement, e *mongoerr.Error) {
	b.op.FailTransaction()
	b.errors++
	d := new(bson.Builder).Double("ok", 0).Int("idx", int64(s.index)).Int32("code", int32(e.Code))
	if e.Info != nil {
		d.Doc("errInfo", e.Info)
	}
	d.String("errmsg", e.Message)
	if e.Extra != nil {
		d.Fields(e.Extra)
	}
	d.Int32("n", 0)
	if s.kind == updates {
		d.Int32("nModified", 0)
	}
	b.items = append(b.items, d.Finish())
}

// reply appends a cursor over the outcomes, and their sums.
func (b *bulk) reply(ctx context.Context) error {
	size := sizeOf(document(b.op.Body.Lookup("cursor")).Lookup("batchSize"), int64(len(b.items))+1)
	err := command.WriteCursorReply(ctx, b.op, command.CursorSpec{NS: "admin.$cmd.bulkWrite", Cursor: command.Documents(b.items), BatchSize: size})
	if err != nil {
		return err
	}
	b.op.Reply.Int("nErrors", b.errors).Int("nInserted", b.inserted).Int("nMatched", b.matched)
	b.op.Reply.Int("nModified", b.modified).Int("nUpserted", b.upserted).Int("nDeleted", b.deleted)
	b.results.writeConcern(b.op.Reply)
	return nil
}
