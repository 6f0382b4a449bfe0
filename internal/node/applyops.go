package node

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	// applyOpsFields are what mongod 8.0 reads, besides the operations. Other fields,
	// allowAtomic among them, say nothing: each operation commits by itself.
	applyOpsFields = command.NewFields("applyOps",
		command.Value(command.ArrayOf("", command.Object("")).Required()),
		command.Bool("alwaysUpsert"),
		command.ArrayOf("preCondition", command.Object("")),
		command.Bool("prepare"),
		command.Bool("partialTxn"),
		command.Int64("count"),
	).Lenient()
	oplogEntryFields = command.NewFields("OplogEntryBase",
		command.Enum("op", "c", "i", "u", "d", "n").Required(),
		command.String("ns").Required(),
		command.UUID("ui"),
		command.Object("o").Required(),
		command.Object("o2"),
		command.Bool("b"),
	).Lenient()
)

// maxApplyOpsDepth is how deep an applyOps may be in others.
const maxApplyOpsDepth = 10

// applyOps answers {applyOps: [entry, …]}: it does what entries of an oplog tell, one after
// the other, as mongod 8.0 does: those before one that fails stay. (Manual: database command
// applyOps.)
func (n *Node) applyOps() *command.Command {
	return &command.Command{
		Name: "applyOps", Flags: command.Writes | command.TakesWriteConcern | command.ChecksBlock,
		Help: "internal command to apply oplog entries\n{ applyOps : [ ] }", Run: n.runApplyOps,
	}
}

func (n *Node) runApplyOps(ctx context.Context, op *command.Op) error {
	if err := checkApplyOps(op.Body, 0); err != nil {
		return err
	}
	_, ops := op.Body.First()
	for i, e := range ops.Doc().Slice() {
		if err := checkEntry(bson.Index(i), e.Doc()); err != nil {
			return err
		}
	}
	a := &applying{n: n, op: op}
	done, err := a.all(ctx, op.Body)
	if err != nil && done == nil {
		return err
	}
	if err != nil {
		e := mongoerr.From(err)
		b := new(bson.Builder)
		if e.Extra != nil {
			b.Fields(bson.Doc(e.Extra))
		}
		done.write(b)
		return e.WithExtra(b.Finish())
	}
	done.write(op.Reply)
	return nil
}

// checkApplyOps checks the entries of an applyOps and of all within it, as far as nothing
// has to be looked up. Errors: 4, 14, 9 for one too deep, 9585500.
func checkApplyOps(cmd bson.Doc, depth int) error {
	name, list := cmd.First()
	if err := checkType(name, list, bson.TypeArray); err != nil {
		return err
	}
	for i, v := range list.Doc().Slice() {
		if err := checkType(bson.Index(i), v, bson.TypeDocument); err != nil {
			return err
		}
		entry := v.Doc()
		kind, o := entry.Lookup("op"), entry.Lookup("o")
		if err := checkType("op", kind, bson.TypeString); err != nil {
			return err
		}
		if kind.Str() != "c" {
			continue
		}
		if err := checkType("o", o, bson.TypeDocument); err != nil {
			return err
		}
		switch name, _ := o.Doc().First(); {
		case name == "dropDatabase" && depth > 0:
			return mongoerr.New(9585500, "dropDatabase is not allowed inside nested applyOps")
		case name == "applyOps" && depth >= maxApplyOpsDepth:
			return mongoerr.New(mongoerr.FailedToParse, "Too many nested applyOps")
		case name == "applyOps":
			if err := checkApplyOps(o.Doc(), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkType checks the type of a field. Errors: 4 where it is not there, 14.
func checkType(name string, v bson.Value, want bson.Type) error {
	switch v.Type {
	case want:
		return nil
	case bson.Missing:
		return mongoerr.New(mongoerr.NoSuchKey, "Wrong type for '%s'. Expected a %s, got a missing.", name, want)
	}
	return mongoerr.New(mongoerr.TypeMismatch, "Wrong type for '%s'. Expected a %s, got a %s.", name, want, v.Type)
}

// checkEntry checks op and ns of an entry that checkApplyOps has checked. Errors: 20.
func checkEntry(at string, entry bson.Doc) error {
	kind, ns := entry.Lookup("op").Str(), entry.Lookup("ns")
	switch {
	case kind == "":
		return mongoerr.New(mongoerr.IllegalOperation, `"op" field value cannot be empty: %s`, at)
	case ns.IsMissing():
		return mongoerr.New(mongoerr.IllegalOperation, `op does not contain required "ns" field: %s`, at)
	case ns.Type != bson.TypeString:
		return mongoerr.New(mongoerr.IllegalOperation, `"ns" field is not a string: %s`, at)
	case strings.IndexByte(ns.Str(), 0) >= 0:
		return mongoerr.New(mongoerr.IllegalOperation, "namespaces cannot have embedded null characters")
	case kind != "n" && ns.Str() == "":
		return mongoerr.New(mongoerr.IllegalOperation, `"ns" field value cannot be empty when op type is not 'n': %s`, at)
	}
	return nil
}

// applying is a running applyOps.
type applying struct {
	n  *Node
	op *command.Op
	w  *exec.Writer // of the operations on documents since the last command; nil for none
}

// applied is what an applyOps has done: for each of its entries but noops, whether it
// succeeded.
type applied struct{ results []bool }

func (d *applied) write(b *bson.Builder) {
	b.Int32("applied", int32(len(d.results))).OpenArray("results")
	for i, ok := range d.results {
		b.Bool(bson.Index(i), ok)
	}
	b.Close()
}

// all applies the entries of an applyOps. done is nil where it was refused as a whole.
// Errors: 8 where entries failed that do not end it; those of the entry that did.
func (a *applying) all(ctx context.Context, cmd bson.Doc) (done *applied, err error) {
	if err := checkApplyOpsFields(cmd); err != nil {
		return nil, err
	}
	_, list := cmd.First()
	entries := list.Doc().Slice()
	for _, e := range entries {
		if kind := e.Doc().Lookup("op"); kind.Type != bson.TypeString || kind.Str() != "c" || len(entries) == 1 {
			continue
		}
		if name, _ := e.Doc().Lookup("o").Doc().First(); name == "dropDatabase" {
			return nil, mongoerr.New(6275900, "dropDatabase in an applyOps must be the only entry")
		}
	}
	defer func() { // what came before an entry that failed stays
		if e := a.commit(ctx); e != nil && err == nil {
			err = e
		}
	}()
	done = &applied{}
	failed := false
	for _, e := range entries {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if strings.HasPrefix(e.Doc().Lookup("op").Str(), "n") {
			continue
		}
		went, err := a.entry(ctx, e.Doc())
		done.results = append(done.results, went)
		if err != nil {
			return done, err
		}
		failed = failed || !went
	}
	if failed {
		return done, mongoerr.New(mongoerr.UnknownError, "applyOps had one or more errors applying ops")
	}
	return done, nil
}

// checkApplyOpsFields checks what an applyOps has besides its entries. Errors: 14, 2, 31056,
// 31240, 6711600, 6711601.
func checkApplyOpsFields(cmd bson.Doc) error {
	mode := cmd.Lookup("oplogApplicationMode")
	if mode.Type == bson.TypeString && mode.Str() != "ApplyOps" {
		// The others are those of a member that replays its own oplog.
		switch mode.Str() {
		case "InitialSync", "Recovering", "Secondary":
			return mongoerr.New(mongoerr.CommandNotSupported, "the oplog application mode %s is not supported", mode.Str())
		}
		return mongoerr.New(mongoerr.FailedToParse, "Could not parse oplogApplicationMode :: caused by :: Invalid oplog application mode provided: %s", mode.Str())
	}
	if !mode.IsMissing() && mode.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, `Could not parse out oplogApplicationMode :: caused by :: "oplogApplicationMode" had the wrong type. Expected string, found %s`, mode.Type)
	}
	p, err := command.ParseDoc(applyOpsFields, cmd)
	switch {
	case err != nil:
		return err
	case p.Has("preCondition"):
		return mongoerr.New(6711600, "applyOps command no longer supports the 'preCondition' option")
	case p.Bool("alwaysUpsert"):
		return mongoerr.New(6711601, "applyOps command no longer supports the 'alwaysUpsert' option")
	case p.Has("prepare"):
		return mongoerr.New(mongoerr.BadValue, "applyOps command can't have 'prepare' field")
	case p.Has("partialTxn"):
		return mongoerr.New(31056, "applyOps command can't have 'partialTxn' field.")
	case p.Has("count"):
		return mongoerr.New(31240, "applyOps command can't have 'count' field.")
	}
	return nil
}

// entry applies one entry. It returns false for a failure that does not end the applyOps.
func (a *applying) entry(ctx context.Context, d bson.Doc) (bool, error) {
	ns := schema.ParseNamespace(d.Lookup("ns").Str())
	kind := d.Lookup("op").Str()
	if kind[0] != 'c' && ns.Validate() != nil {
		return false, mongoerr.New(mongoerr.InvalidNamespace, "invalid ns: %s", ns)
	}
	e, err := command.ParseDoc(oplogEntryFields, d)
	if err != nil {
		return false, err
	}
	if err := a.op.MayWrite(ns.DB); err != nil {
		return false, err
	}
	if kind == "c" {
		if err := a.commit(ctx); err != nil {
			return false, err
		}
		err := a.command(ctx, ns, &e)
		return err == nil, err
	}
	return a.document(ctx, ns, &e)
}

// writer returns the writer of the operations on documents, which commit together until a
// command comes.
func (a *applying) writer() *exec.Writer {
	if a.w == nil {
		a.w = a.n.newWriter(a.op)
	}
	return a.w
}

func (a *applying) commit(ctx context.Context) error {
	w := a.w
	a.w = nil
	if w == nil {
		return nil
	}
	defer w.Abort()
	return w.Commit(ctx)
}
