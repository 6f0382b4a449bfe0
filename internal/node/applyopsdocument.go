package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

// document applies an insert, an update or a delete. It returns false for one that mongod
// goes on after: an update that finds no document, a document that the collection refuses.
func (a *applying) document(ctx context.Context, ns schema.Namespace, e *command.Args) (bool, error) {
	kind := e.Str("op")
	if ns.Coll == schema.ViewsCollection { // which is each server's own, whatever its UUID
		if err := a.commit(ctx); err != nil {
			return false, err
		}
		err := a.view(ctx, ns.DB, e)
		return err == nil, err
	}
	if id, ok := e.UUID("ui"); ok {
		if c := a.n.Catalog.LookupUUID(id); c == nil || c.Namespace != ns {
			return false, mongoerr.New(3318200, "Namespace '%s' and UUID '%s' point to different collections", ns, catalog.UUID(id))
		}
	}
	space := &command.Op{DB: ns.DB, NS: ns.String(), Collection: ns.Coll, Client: a.op.Client, Dispatcher: a.op.Dispatcher, Start: a.op.Start}
	space.EndWith(a.op)
	if b := a.n.bucketsOf(ns); b != nil && kind == "d" {
		return a.bucket(ctx, space, b.Buckets(), e)
	}
	c, err := a.n.forWrite(ctx, space, false)
	if err != nil {
		return false, err
	}
	if c == nil {
		if kind == "d" {
			return true, nil
		}
		return false, mongoerr.New(mongoerr.NamespaceNotFound, "cannot apply insert or update operation on a non-existent namespace %s: %s", ns, e.Doc("o"))
	}
	w := a.writer()
	w.SetGuard(a.n.guard(space))
	switch kind {
	case "i":
		return a.insert(ctx, space, c, e.Doc("o"))
	case "u":
		return a.update(ctx, space, c, e)
	}
	a.op.CountDeletes(1)
	id := e.Doc("o").Lookup("_id")
	if id.IsMissing() {
		return false, missingID("delete", e)
	}
	q, err := a.byID(space, c, id)
	if err == nil {
		_, err = w.Delete(ctx, c, &exec.Delete{Query: q})
	}
	return err == nil, err
}

func missingID(what string, e *command.Args) error {
	return mongoerr.New(mongoerr.NoSuchKey, "Failed to apply %s due to missing _id: %s", what, e.Doc("o"))
}

// bucket applies a delete of a bucket of measurements. Buckets are each server's own, so
// none has the _id of another server's. Error 73 where one does.
func (a *applying) bucket(ctx context.Context, space *command.Op, buckets *catalog.Collection, e *command.Args) (bool, error) {
	id := e.Doc("o").Lookup("_id")
	if id.IsMissing() {
		return false, missingID("delete", e)
	}
	q, err := a.byID(space, buckets, id)
	if err != nil {
		return false, err
	}
	found, err := a.n.Exec.Find(ctx, buckets, q)
	if err != nil {
		return false, err
	}
	defer found.Close()
	bucket, err := found.Next(ctx)
	if err == nil && bucket != nil {
		err = mongoerr.New(mongoerr.InvalidNamespace, "cannot write to %s: its documents follow from the measurements", buckets.Namespace)
	}
	return err == nil, err
}

// byID is the query for a document by its _id.
func (a *applying) byID(space *command.Op, c *catalog.Collection, id bson.Value) (*exec.Query, error) {
	s, err := a.n.newScope(space, c, nil, nil)
	if err != nil {
		return nil, err
	}
	q, err := a.n.scopedQuery(space, c, s, new(bson.Builder).OpenDoc("_id").Value("$eq", id).Close().Finish())
	if err != nil {
		return nil, err
	}
	return q.Query, nil
}

// insert stores a document in place of the one that has its _id, if there is one: the same
// entry may be applied again.
func (a *applying) insert(ctx context.Context, space *command.Op, c *catalog.Collection, doc bson.Doc) (bool, error) {
	a.op.CountInserts(1)
	if c.IsTimeseries() {
		return a.measure(ctx, space, c, doc)
	}
	id := doc.Lookup("_id")
	if id.IsMissing() {
		return false, mongoerr.New(mongoerr.NoSuchKey, "Failed to apply insert due to missing _id: %s", doc)
	}
	q, err := a.byID(space, c, id)
	if err != nil {
		return false, err
	}
	out, err := a.writer().Update(ctx, c, &exec.Update{Query: q, Update: update.Stored(doc), Upsert: true, Check: a.check(ctx, c)})
	if err != nil && out.Matched == 0 && mongoerr.Is(err, mongoerr.DocumentValidationFailure) {
		return false, nil
	}
	return err == nil, err
}

// check is the collection's validator, which an applyOps may pass over.
func (a *applying) check(ctx context.Context, c *catalog.Collection) checker {
	return a.n.validator(ctx, c, a.op.Body.Lookup("bypassDocumentValidation").Truthy())
}

// measure inserts a measurement, unless it is there: measurements have no key by which a
// second one would take the place of the first.
func (a *applying) measure(ctx context.Context, space *command.Op, c *catalog.Collection, doc bson.Doc) (bool, error) {
	field := c.Settings.Timeseries.TimeField
	filter := new(bson.Builder)
	for _, name := range []string{field, "_id"} {
		if v := doc.Lookup(name); !v.IsMissing() {
			filter.OpenDoc(name).Value("$eq", v).Close()
		}
	}
	if err := a.commit(ctx); err != nil {
		return false, err
	}
	if doc.Has("_id") {
		q, err := a.n.newQuery(space, nil, nil, filter.Finish())
		if err != nil {
			return false, err
		}
		q.Limit = 1
		found, err := a.n.Exec.Find(ctx, c, q.Query)
		if err != nil {
			return false, err
		}
		defer found.Close()
		if same, err := found.Next(ctx); err != nil || same != nil {
			return err == nil, err
		}
	}
	w := a.writer()
	w.SetGuard(a.n.guard(space))
	err := a.n.insertOne(ctx, w, c, doc, nil, a.n.timestamp)
	return err == nil, err
}

// update applies {op: "u", o, o2: {_id}}; b asks for an upsert.
func (a *applying) update(ctx context.Context, space *command.Op, c *catalog.Collection, e *command.Args) (bool, error) {
	a.op.CountUpdates(1)
	id := bson.Value{}
	if e.Has("o2") {
		id = e.Doc("o2").Lookup("_id")
	}
	if id.IsMissing() {
		return false, missingID("update", e)
	}
	u, err := update.ParseOplog(e.Doc("o"))
	if err != nil {
		return false, err
	}
	q, err := a.byID(space, c, id)
	if err != nil {
		return false, err
	}
	out, err := a.writer().Update(ctx, c, &exec.Update{Query: q, Update: u, Upsert: e.Bool("b"), Check: a.check(ctx, c)})
	return err == nil && (out.Matched > 0 || !out.Upserted.IsMissing()), err
}
