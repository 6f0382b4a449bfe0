package node

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

// merging is the target of a $merge.
type merging struct {
	w      *world
	m      *pipeline.Merge
	ns     schema.Namespace
	c      *catalog.Collection // nil until there is one
	check  checker
	writer *exec.Writer
	on     [][]string
	env    *expr.Env // of the pipeline, for let
	update *update.Update
	pass   command.Pass
	batch  pipeline.MergeBatch
}

// Merge opens the target of a $merge.
func (w *world) Merge(ctx context.Context, m *pipeline.Merge, r *pipeline.Run) (pipeline.Target, error) {
	ns := schema.Namespace{DB: m.Into.DB, Coll: m.Into.Coll}
	if err := ns.CheckArchive(); err != nil {
		return nil, err
	}
	pass, err := w.enter(ctx, m.Into.DB)
	if err != nil {
		return nil, err
	}
	t := &merging{w: w, m: m, ns: ns, env: r.Env, pass: pass}
	for _, path := range m.On {
		t.on = append(t.on, strings.Split(path, "."))
	}
	t.writer = w.n.Exec.NewWriter(w.op.WriteConcern.Durability())
	t.use(ctx, w.n.Catalog.Lookup(t.ns))
	return t, nil
}

// use makes c the collection to write to.
func (t *merging) use(ctx context.Context, c *catalog.Collection) {
	t.c, t.check = c, t.w.n.validator(ctx, c, t.w.bypass())
}

// bypass reports whether the command bypasses validators.
func (w *world) bypass() bool {
	return (w.op.Name == "aggregate" || w.op.Name == "mapReduce") && w.op.Args.Bool("bypassDocumentValidation")
}

// vars are the variables of the command's let.
func (q *query) vars() []string {
	if q.expr == nil {
		return nil
	}
	return slices.Clone(q.expr.Vars)
}

// javascript is what the command's JavaScript shares.
func (q *query) javascript() *javascript.Session {
	if q.expr == nil {
		return nil
	}
	return q.expr.JavaScript
}

// parse parses the update of the mode with those variables, and the command's.
func (t *merging) parse(vars []string) (*update.Update, error) {
	opts := &expr.Options{Collator: t.w.query.Collator, Vars: append(t.w.query.vars(), vars...), JavaScript: t.w.query.javascript(), ClusterTime: t.w.n.Dispatcher.Member != nil}
	return update.Parse(t.m.Update(), &update.Options{Expr: opts, Match: &match.Options{Collator: t.w.query.Collator, Expr: opts}, Collator: t.w.query.Collator})
}

// Add merges one document.
func (t *merging) Add(ctx context.Context, d bson.Doc) error {
	if t.batch.Begin(d) {
		return t.Finish(ctx)
	}
	filter, d, err := t.filter(d)
	if err != nil {
		return err
	}
	if err := t.write(ctx, filter, d); err != nil {
		if mongoerr.Is(err, mongoerr.ImmutableField) {
			err = mongoerr.Under(err, "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?")
		}
		if ctx.Err() != nil {
			return err
		}
		t.batch.Fail(err)
	}
	return nil
}

func (t *merging) write(ctx context.Context, filter *match.Filter, d bson.Doc) error {
	if t.m.WhenMatched == "fail" {
		err := t.insert(ctx, d)
		if mongoerr.Is(err, mongoerr.DuplicateKey) {
			e := *mongoerr.From(err)
			e.Message = "$merge failed due to a DuplicateKey error :: caused by :: " + e.Message
			return &e
		}
		return err
	}
	d = t.m.Ordered(d)
	u, env, err := t.updater(d)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		matched, err := t.updateOne(ctx, filter, u, env)
		if err != nil || matched {
			return err
		}
		switch t.m.WhenNotMatched {
		case "discard":
			return nil
		case "fail":
			return mongoerr.New(mongoerr.MergeStageNoMatchingDocument, "$merge could not find a matching document in the target collection for at least one document in the source collection")
		}
		err = t.insert(ctx, t.m.Completed(d))
		if attempt > 0 || !mongoerr.Is(err, mongoerr.DuplicateKey) {
			return err
		}
		// A document before this one, or another client, may have inserted it.
		if err := t.writer.Commit(ctx); err != nil {
			return err
		}
	}
}

// filter returns the filter for the document into which d is merged. It
// generates a missing _id.
func (t *merging) filter(d bson.Doc) (*match.Filter, bson.Doc, error) {
	var nodes []match.Node
	for i, path := range t.on {
		v := bson.Document(d)
		for _, name := range path {
			if v.Type == bson.TypeArray {
				break
			}
			if v.Type != bson.TypeDocument {
				v = bson.Value{}
				break
			}
			v = v.Doc().Lookup(name)
		}
		switch {
		case v.Type == bson.TypeArray:
			return nil, nil, mongoerr.New(mongoerr.Code(51185), "$merge write error: 'on' field cannot be an array")
		case v.IsMissing() && t.m.On[i] == "_id":
			full, err := schema.PrepareInsert(d, t.w.n.timestamp)
			if err != nil {
				return nil, nil, err
			}
			d, v = full, full.Lookup("_id")
		case v.IsNullish() && !t.m.Nullable && t.m.On[i] != "_id":
			return nil, nil, mongoerr.New(mongoerr.Code(51132), "$merge write error: 'on' field cannot be missing, null, undefined or an array if supporting index is sparse")
		case v.IsNullish():
			v = bson.Null
		}
		nodes = append(nodes, match.NewCompare(t.m.On[i], match.Eq, v, t.w.query.Collator))
	}
	return match.FilterOf(match.AndOf(nodes...)), d, nil
}

// updater returns the update for d with its variables: those of let that have a
// value.
func (t *merging) updater(d bson.Doc) (*update.Update, *expr.Env, error) {
	if t.m.Let == nil {
		if t.update == nil {
			var err error
			if t.update, err = t.parse([]string{"new"}); err != nil {
				return nil, nil, err
			}
		}
		return t.update, t.envWith([]bson.Value{bson.Document(d)}), nil
	}
	all, err := t.m.Let.Eval(t.env.WithRoot(d))
	if err != nil {
		return nil, nil, err
	}
	var names []string
	var values []bson.Value
	for i, v := range all {
		if !v.IsMissing() {
			names, values = append(names, t.m.Let.Names[i]), append(values, v)
		}
	}
	if t.update == nil || len(names) < len(all) {
		u, err := t.parse(names)
		if err != nil || len(names) < len(all) {
			return u, t.envWith(values), err
		}
		t.update = u
	}
	return t.update, t.envWith(values), nil
}

func (t *merging) envWith(vars []bson.Value) *expr.Env {
	var all []bson.Value
	for i := range t.w.query.vars() {
		all = append(all, t.env.Var(i))
	}
	env := expr.NewEnv(t.env.Now, append(all, vars...)...)
	env.ClusterTime, env.Collator, env.UserRoles = t.env.ClusterTime, t.env.Collator, t.env.UserRoles
	return env
}

func (t *merging) updateOne(ctx context.Context, filter *match.Filter, u *update.Update, env *expr.Env) (matched bool, err error) {
	if t.c == nil {
		return false, nil
	}
	q := &exec.Query{Query: plan.Query{Env: env}}
	q.Filter, q.Collation, q.Collator = filter, t.w.query.Collation, t.w.query.Collator
	w, err := t.writer.Update(ctx, t.c, &exec.Update{Query: q, Update: u, Check: t.check})
	return w != nil && w.Matched > 0, err
}

func (t *merging) insert(ctx context.Context, d bson.Doc) error {
	if t.c == nil {
		if err := t.ns.ValidateCreate(); err != nil {
			return err
		}
		c, err := t.w.n.createByUse(ctx, t.w.op, t.ns)
		if mongoerr.Is(err, mongoerr.NamespaceExists) {
			c, err = t.w.n.Catalog.Lookup(t.ns), nil
		}
		if err != nil {
			return err
		}
		t.use(ctx, c)
	}
	return t.w.n.insertOne(ctx, t.writer, t.c, d, t.check, t.w.n.timestamp)
}

// Finish commits what is pending, and returns the error of the first write that failed.
func (t *merging) Finish(ctx context.Context) error {
	if err := t.writer.Commit(ctx); err != nil {
		return err
	}
	return t.batch.Err()
}

// Close drops what is not committed. What was committed before stays.
func (t *merging) Close() {
	t.writer.Abort()
	t.pass.Leave()
	t.pass = command.Pass{}
}
