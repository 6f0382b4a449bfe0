package router

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

const (
	// maxHeld bounds the documents that $out and $merge buffer before they write them,
	// maxHeldBytes their bytes.
	maxHeld      = 500
	maxHeldBytes = 8 << 20
)

// mergeInto is the target of a $merge. Each document becomes an update of the document
// that it matches; without a match whenNotMatched decides.
type mergeInto struct {
	w   *world
	m   *pipeline.Merge
	ns  string
	env *expr.Env // of the pipeline, for let
	// batch keeps the first statement that failed.
	batch pipeline.MergeBatch
}

func (w *world) newMerge(m *pipeline.Merge, r *pipeline.Run) (pipeline.Target, error) {
	return &mergeInto{w: w, m: m, ns: m.Into.DB + "." + m.Into.Coll, env: r.Env}, nil
}

// variables returns what the update for a document may refer to: the document as new, or the
// variables of let that have a value.
func (t *mergeInto) variables(d bson.Doc) (bson.Doc, error) {
	if t.m.Let == nil {
		return new(bson.Builder).Doc("new", d).Finish(), nil
	}
	values, err := t.m.Let.Eval(t.env.WithRoot(d))
	if err != nil {
		return nil, err
	}
	var b bson.Builder
	for i, v := range values {
		b.Value(t.m.Let.Names[i], v) // leaves out a missing one
	}
	return b.Finish(), nil
}

// write executes statements of the target. The error is one of the whole command, without results,
// or that of the first statement that failed.
func (w *world) write(ctx context.Context, ns string, k kind, docs ...bson.Doc) (*results, error) {
	b := &batch{r: w.a.r, op: w.a.op, ns: ns, common: w.common()}
	if k == updates && !w.a.let.IsEmpty() { // whenMatched's pipeline sees them
		b.common = new(bson.Builder).Fields(b.common).Doc("let", w.a.let).Finish()
	}
	for i, d := range docs {
		b.pending = append(b.pending, &statement{kind: k, index: i, doc: d})
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range b.results.concerns {
		unmet := &w.a.unmet.concerns
		if !slices.ContainsFunc(*unmet, func(u concernError) bool { return u.shard == c.shard }) {
			*unmet = append(*unmet, c)
		}
	}
	for _, f := range b.results.errors {
		return &b.results, f.err
	}
	return &b.results, nil
}

// common has the fields of the client's command that all writes of a pipeline get.
func (w *world) common() bson.Doc {
	var b bson.Builder
	for _, name := range []string{"writeConcern", "bypassDocumentValidation", "lsid"} {
		if v := w.a.op.Body.Lookup(name); !v.IsMissing() {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// Add implements pipeline.Target. Where a statement fails, the rest of its batch is written before
// the $merge ends, as from one server.
func (t *mergeInto) Add(ctx context.Context, d bson.Doc) error {
	if t.batch.Begin(d) {
		return t.batch.Err()
	}
	if slices.Contains(t.m.On, "_id") {
		d = withID(d)
	}
	statement, err := t.merge(ctx, t.m.Ordered(d))
	if err != nil && statement && ctx.Err() == nil {
		t.batch.Fail(err)
		return nil
	}
	return err
}

// merge merges one document. statement says that the error is one of a statement.
func (t *mergeInto) merge(ctx context.Context, d bson.Doc) (statement bool, err error) {
	if t.m.WhenMatched == "fail" {
		out, err := t.w.write(ctx, t.ns, inserts, withID(d))
		if mongoerr.Is(err, mongoerr.DuplicateKey) {
			err = mongoerr.Under(err, "$merge failed due to a DuplicateKey error")
		}
		return out != nil, err
	}
	var filter bson.Builder
	for _, path := range t.m.On {
		v := valueAt(d, path)
		switch {
		case v.Type == bson.TypeArray:
			return false, mongoerr.New(mongoerr.Code(51185), "$merge write error: 'on' field cannot be an array")
		case v.IsNullish() && !t.m.Nullable && path != "_id":
			return false, mongoerr.New(mongoerr.Code(51132), "$merge write error: 'on' field cannot be missing, null, undefined or an array if supporting index is sparse")
		case v.IsMissing():
			v = bson.Null
		}
		filter.OpenDoc(path).Value("$eq", v).Close()
	}
	variables, err := t.variables(d)
	if err != nil {
		return false, err
	}
	update := new(bson.Builder).Doc("q", filter.Finish()).Value("u", t.m.Update()).Doc("c", variables).Doc("collation", t.w.collation()).Finish()
	for attempt := 0; ; attempt++ {
		out, err := t.w.write(ctx, t.ns, updates, update)
		if mongoerr.Is(err, mongoerr.ImmutableField) {
			err = mongoerr.Under(err, "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?")
		}
		if err != nil || out.n > 0 {
			return out != nil, err
		}
		switch t.m.WhenNotMatched {
		case "discard":
			return false, nil
		case "fail":
			return true, mongoerr.New(mongoerr.MergeStageNoMatchingDocument, "$merge could not find a matching document in the target collection for at least one document in the source collection")
		}
		if out, err = t.w.write(ctx, t.ns, inserts, withID(t.m.Completed(d))); attempt > 0 || !mongoerr.Is(err, mongoerr.DuplicateKey) {
			return out != nil, err
		}
	}
}

// valueAt returns the value at a dotted path, as $merge reads it.
func valueAt(d bson.Doc, path string) bson.Value {
	at := bson.Document(d)
	for name := range splitPath(path) {
		if at.Type != bson.TypeDocument {
			if at.Type != bson.TypeArray {
				at = bson.Value{}
			}
			break
		}
		at = at.Doc().Lookup(name)
	}
	return at
}

// Finish implements pipeline.Target.
func (t *mergeInto) Finish(context.Context) error { return t.batch.Err() }

// Close implements pipeline.Target.
func (t *mergeInto) Close() {}
