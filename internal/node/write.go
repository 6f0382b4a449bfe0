package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxErrorBytes bounds the write errors of one reply; further ones keep their
// code and lose their message, as the server's do.
const maxErrorBytes = 1 << 20

// forWrite resolves the collection of a write. With create it creates one that
// does not exist; otherwise it returns nil for that. Errors: 73, 166, 26 for an
// unknown UUID, 361 for a collectionUUID of another collection.
func (n *Node) forWrite(ctx context.Context, op *command.Op, create bool) (*catalog.Collection, error) {
	c, err := n.collection(op)
	if err != nil {
		return nil, err
	}
	ns := schema.Namespace{DB: op.DB, Coll: op.Collection}
	if err := ns.ValidateWrite(); err != nil {
		return nil, err
	}
	if c == nil && n.bucketsOf(ns) != nil {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "cannot write to %s: its documents follow from the measurements", ns)
	}
	if c != nil && c.Virtual() != nil {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "cannot write to %s", ns)
	}
	if err := writableInTransaction(op, c, ns); err != nil {
		return nil, err
	}
	if account.Keeps(ns) {
		if err := op.Auditable(); err != nil {
			return nil, err
		}
	}
	if c != nil || !create {
		return c, nil
	}
	c, err = n.createByUse(ctx, op, ns)
	if mongoerr.Is(err, mongoerr.NamespaceExists) {
		return n.collection(op)
	}
	return c, err
}

// createByUse creates a collection because op, which is no create, uses it, and tells auditors:
// in a transaction at once, too, as the collection is there at once. Errors: 48, 14031.
func (n *Node) createByUse(ctx context.Context, op *command.Op, ns schema.Namespace) (c *catalog.Collection, err error) {
	if err := op.Auditable(); err != nil {
		return nil, err
	}
	if op.Transaction != nil {
		c, err = op.Transaction.Create(ctx, ns, nil)
	} else {
		c, err = n.Catalog.Create(ctx, ns, nil)
	}
	if err == nil {
		op.Audited("createCollection", new(bson.Builder).String("ns", ns.String()).Finish())
	}
	return c, err
}

// writableInTransaction refuses writes that a transaction may not make: 263.
func writableInTransaction(op *command.Op, c *catalog.Collection, ns schema.Namespace) error {
	switch {
	case op.Transaction == nil || c == nil && !ns.IsSystem():
	case ns.IsSystem():
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot write to system collection %s within a transaction.", ns)
	case c.IsTimeseries():
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot insert into a time-series collection in a multi-document transaction: %s", ns)
	case c.Capped:
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Collection '%s' is a capped collection. Writes in transactions are not allowed on capped collections.", ns)
	}
	return nil
}

// newWriter returns a writer for op.
func (n *Node) newWriter(op *command.Op) *exec.Writer {
	w := new(exec.Writer)
	n.beginWriter(w, op)
	return w
}

// beginWriter begins a writer for op.
func (n *Node) beginWriter(w *exec.Writer, op *command.Op) {
	if op.Transaction != nil {
		w.BeginIn(n.Exec, op.Transaction)
	} else {
		w.Begin(n.Exec, op.WriteConcern.Durability())
		w.Execution = op.Execution
	}
	w.SetGuard(n.guard(op))
	if op.IsAudited() {
		w.Tell = func(c *catalog.Collection, how string, doc bson.Doc) {
			if account.Keeps(c.Namespace) {
				account.AuditMutation(op, c.Namespace, how, doc)
			}
		}
	}
}

// checker refuses documents that fail a collection's validator; old is nil for
// an insert.
type checker func(old, doc bson.Doc) error

// validator returns the checker of a collection, or nil if everything is
// valid.
func (n *Node) validator(ctx context.Context, c *catalog.Collection, bypass bool) checker {
	if c == nil || bypass || c.Settings.Validation == nil {
		return nil
	}
	v := c.Settings.Validation
	return func(old, doc bson.Doc) error { return v.Check(old, doc, c.Stamps(), n.warnValidation(ctx, c)) }
}

// warnValidation logs documents that validationAction "warn" accepts.
func (n *Node) warnValidation(ctx context.Context, c *catalog.Collection) func(bson.Doc) {
	return func(details bson.Doc) {
		n.Log.WarnContext(ctx, "Document would fail validation", "id", 20294, "c", "STORAGE", "namespace", c.Namespace.String(), "errInfo", details.String())
	}
}

// writeErrors collects the errors of the statements of one write command.
type writeErrors struct {
	list  []bson.Doc
	bytes int
}

func (w *writeErrors) add(index int, err error) {
	e := mongoerr.From(err)
	var b bson.Builder
	b.Int("index", int64(index)).Int32("code", int32(e.Code))
	if e.Extra != nil {
		b.Fields(e.Extra)
	}
	if e.Info != nil {
		b.Doc("errInfo", e.Info)
	}
	message := e.Message
	if w.bytes > maxErrorBytes {
		message = ""
	}
	b.String("errmsg", message)
	d := b.Finish()
	w.bytes += len(d)
	w.list = append(w.list, d)
}

// sort puts the errors into the order of the statements.
func (w *writeErrors) sort() {
	slices.SortStableFunc(w.list, func(x, y bson.Doc) int { return cmp.Compare(x.Lookup("index").Int32(), y.Lookup("index").Int32()) })
}

func (w *writeErrors) write(b *bson.Builder) {
	if len(w.list) == 0 {
		return
	}
	b.OpenArray("writeErrors")
	for i, d := range w.list {
		b.Doc(bson.Index(i), d)
	}
	b.Close()
}

// book adds what a statement did to the operation's counters.
func book(op *command.Op, w *exec.Written) {
	tally(&op.Stats, w)
	if w.Summary != "" {
		op.SetPlanSummary(w.Summary)
		op.Stats.ExecStats = w
	}
}

// tally adds what a statement did.
func tally(st *command.Stats, w *exec.Written) {
	st.IsWrite, st.IsQuery = true, true
	st.KeysExamined += w.Keys
	st.DocsExamined += w.Docs
	st.NMatched += w.Matched
	st.NModified += w.Modified
	st.NDeleted += w.Deleted
	st.WriteConflicts += w.Conflicts
	st.KeysInserted += w.KeysInserted
	st.KeysDeleted += w.KeysDeleted
	st.HasSortStage = st.HasSortStage || w.Sorted
	st.UsedDisk = st.UsedDisk || w.Spilled
	st.FromMultiPlanner = st.FromMultiPlanner || w.FromTrial
	if !w.Upserted.IsMissing() {
		st.NUpserted++
	}
}

// noteStatement logs and profiles a statement of an update or a delete,
// which began at start; w is nil if nothing ran.
func noteStatement(ctx context.Context, op *command.Op, kind command.OpKind, start time.Time, w *exec.Written, err error, describe func(b *bson.Builder)) {
	op.NoteStatement(ctx, kind, start, err, func(s *command.Statement) {
		b := new(bson.Builder)
		describe(b)
		s.Command = b.Finish()
		if w != nil {
			tally(&s.Stats, w)
			s.PlanSummary = w.Summary
			if w.Summary != "" {
				s.Stats.ExecStats = w
			}
		}
	})
}

// describeHint writes the hint of a statement as mongod's profile shows it.
func describeHint(b *bson.Builder, hint bson.Value) {
	switch {
	case hint.IsMissing():
	case hint.Type == bson.TypeString:
		b.OpenDoc("hint").Value("$hint", hint).Close()
	default:
		b.Value("hint", hint)
	}
}
