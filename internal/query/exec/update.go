package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/update"
)

// maxRestarts bounds how often a statement restarts because others have changed the
// documents that it had found.
const maxRestarts = 1000

// Update is one update statement.
type Update struct {
	Query  *Query
	Update *update.Update
	Multi  bool
	Upsert bool
	// KeepZeroTimestamps leaves Timestamp(0, 0) in a replacement as it is.
	KeepZeroTimestamps bool
	// Check is the collection's validator, or nil: it refuses a new document
	// with error 121.
	Check func(old, doc bson.Doc) error
	// Keep asks for copies of the document before and after (findAndModify).
	Keep bool

	run updating
}

// Delete is one delete statement.
type Delete struct {
	Query *Query
	Multi bool
	Keep  bool

	run deleting
}

// Written is what a statement did.
type Written struct {
	Matched, Modified, Deleted int64
	// Upserted is the _id of the document that an upsert inserted, or Missing.
	Upserted bson.Value
	// Old and New are kept where the statement asked for them; nil for none.
	Old, New bson.Doc
	// Meta is what the plan knew about the document that was written last, or nil.
	Meta       *stage.Meta
	Summary    string
	Keys, Docs int64
	Conflicts  int64
	Sorted     bool
	Spilled    bool
	FromTrial  bool
	// KeysInserted and KeysDeleted count index entries.
	KeysInserted, KeysDeleted int64

	deletes bool        // it is what a delete did
	node    plan.Node   // the plan that found the documents, and
	stage   stage.Stage // how, where stages ran
	lookup  plan.IDHack // memory of node
}

// effect applies a statement to one locked document, which it does not keep. done ends
// the statement.
type effect interface {
	apply(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, index string) (done bool, err error)
}

// updating is the effect of an update statement.
type updating struct {
	w    *Writer
	ctx  context.Context
	c    *catalog.Collection
	s    *Update
	at   update.Context
	done Written
}

func (e *updating) apply(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, index string) (bool, error) {
	e.at.ArrayIndex = index
	next, changed, err := e.s.Update.Apply(doc, &e.at)
	if err != nil {
		return false, err
	}
	if changed {
		if err := e.w.hold(max(len(doc), len(next))); err != nil {
			return false, err
		}
		next = u.Stamp(e.c, next)
		if e.s.Check != nil {
			if err := e.s.Check(doc, next); err != nil {
				return false, err
			}
		}
		u.SetReplacement(e.s.Update.Kind() == update.Replacement)
		err := e.done.tally(u, func() error { return u.Update(e.ctx, e.c, record, doc, next) })
		if err != nil {
			return false, err
		}
		e.w.tell(e.c, "update", next)
		e.done.Modified++
	}
	e.done.Matched++
	if e.s.Keep {
		e.done.Old, e.done.New = doc.Clone(), next.Clone()
	}
	return !e.s.Multi, nil
}

// Update runs an update statement. c may be nil only for statements that do
// not upsert: the caller creates the collection first. What it returns is a part of
// s, which runs once at a time.
func (w *Writer) Update(ctx context.Context, c *catalog.Collection, s *Update) (*Written, error) {
	if w.guard != nil {
		w.guard.Multi = s.Multi
	}
	if c != nil && c.IsTimeseries() {
		return w.updateMeasurements(ctx, c, s)
	}
	if s.Query.Env != nil {
		s.Query.Env.Watch(ctx)
	}
	s.run = updating{w: w, ctx: ctx, c: c, s: s, at: update.Context{Env: s.Query.Env, KeepZeroTimestamps: s.KeepZeroTimestamps, Memory: &w.next}}
	out := &s.run.done
	for attempt := 0; ; attempt++ {
		if err := w.each(ctx, c, s.Query, s.Multi, s.Update.NeedsArrayIndex(), out, &s.run); err != nil {
			return out, err
		}
		if !s.Upsert && out.Summary == "IDHACK" {
			out.Summary = "EXPRESS_IXSCAN { _id: 1 },EXPRESS_UPDATE"
		}
		if out.Matched > 0 || !s.Upsert {
			return out, nil
		}
		err := w.under(w.upsert(ctx, c, s, out))
		if err == nil || attempt == maxRestarts || !mongoerr.Is(err, mongoerr.DuplicateKey) || !retryUpsert(s.Query.Filter, err) {
			return out, err
		}
		out.Conflicts++
	}
}

// retryUpsert reports whether a duplicate key means that another client has inserted a
// document that the filter matches: then the update is retried.
// (Manual: update, "Upsert with Duplicate Values".)
func retryUpsert(f *match.Filter, err error) bool {
	extra := bson.Doc(mongoerr.From(err).Extra)
	values := extra.Lookup("keyValue")
	if values.Type != bson.TypeDocument {
		return false
	}
	eq := map[string]bson.Value{}
	for _, c := range match.Conjuncts(f.Root()) {
		cmp, ok := c.(*match.Compare)
		if !ok || cmp.Op != match.Eq {
			return false
		}
		eq[cmp.FieldPath()] = cmp.Value
	}
	for it := values.Doc().Iter(); it.Next(); {
		if v, ok := eq[it.Key]; !ok || !bson.Equal(v, it.Value) {
			return false
		}
	}
	return len(eq) == values.Doc().Len()
}

func (w *Writer) upsert(ctx context.Context, c *catalog.Collection, s *Update, out *Written) error {
	doc, err := s.Update.Upsert(s.Query.Filter, &update.Context{Env: s.Query.Env, Insert: true, KeepZeroTimestamps: s.KeepZeroTimestamps})
	if err != nil {
		return err
	}
	if s.Check != nil {
		if err := s.Check(nil, doc); err != nil {
			return err
		}
	}
	err = w.Do(ctx, func(u *catalog.Unit) error {
		doc = u.Stamp(c, doc)
		return out.tally(u, func() error { return u.Insert(ctx, c, doc) })
	})
	if err != nil {
		return err
	}
	w.tell(c, "insert", doc)
	out.KeysInserted += ownKeys(c)
	out.Upserted = doc.Lookup("_id").Clone()
	if s.Keep {
		out.New = doc
	}
	return nil
}

// deleting is the effect of a delete statement.
type deleting struct {
	w    *Writer
	ctx  context.Context
	c    *catalog.Collection
	s    *Delete
	done Written
}

func (e *deleting) apply(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, _ string) (bool, error) {
	err := e.done.tally(u, func() error { return u.Delete(e.ctx, e.c, record, doc) })
	if err != nil {
		return false, err
	}
	e.w.tell(e.c, "remove", doc)
	e.done.KeysDeleted += ownKeys(e.c)
	e.done.Deleted++
	if e.s.Keep {
		e.done.Old = doc.Clone()
	}
	return !e.s.Multi, nil
}

// Delete runs a delete statement. c is nil if the collection does not
// exist. What it returns is a part of s, which runs once at a time.
func (w *Writer) Delete(ctx context.Context, c *catalog.Collection, s *Delete) (*Written, error) {
	if c != nil && c.IsTimeseries() {
		return w.deleteMeasurements(ctx, c, s)
	}
	s.run = deleting{w: w, ctx: ctx, c: c, s: s, done: Written{deletes: true}}
	out := &s.run.done
	err := w.each(ctx, c, s.Query, s.Multi, false, out, &s.run)
	if out.Summary == "IDHACK" {
		out.Summary = "EXPRESS_IXSCAN { _id: 1 },EXPRESS_DELETE"
	}
	return out, err
}

// each finds the documents of a statement on a snapshot, locks each, makes
// sure that it still matches, and applies the effect. A statement for one document
// starts again if others have changed the document that it found.
func (w *Writer) each(ctx context.Context, c *catalog.Collection, q *Query, multi, index bool, out *Written, e effect) error {
	if c == nil {
		out.Summary, out.node = "EOF", &plan.EOF{NoCollection: true}
		return nil
	}
	if id, ok := plan.PointID(&q.Query, c.Options.Lookup("collation").Data); ok && c.FindsByID() && !index {
		return w.one(ctx, c, id, out, e)
	}
	if err := w.show(ctx); err != nil {
		return err
	}
	if err := w.expect(ctx, c); err != nil {
		return w.under(err)
	}
	for attempt := 0; ; attempt++ {
		lost, done, err := w.pass(ctx, c, q, index, out, e)
		if err != nil || done || multi || !lost || attempt == maxRestarts {
			return err
		}
		out.Conflicts++
		if err := w.show(ctx); err != nil { // if it lost against a pending version
			return err
		}
	}
}

// one is each for a statement about a single _id: one lock, one read.
func (w *Writer) one(ctx context.Context, c *catalog.Collection, id bson.Value, out *Written, e effect) error {
	out.lookup.ID = id
	out.Summary, out.node = "IDHACK", &out.lookup
	if err := w.expect(ctx, c); err != nil {
		return w.under(err)
	}
	return w.under(w.Do(ctx, func(u *catalog.Unit) error {
		found := &w.found
		if err := u.LockInto(ctx, found, c, id); err != nil || found.Doc == nil || w.x.Catalog.Hides(c, found.Doc) {
			return err
		}
		if err := w.hold(len(found.Doc)); err != nil {
			return err
		}
		out.Keys, out.Docs = 1, 1
		_, err := e.apply(u, found.Record, found.Doc, "")
		return err
	}))
}

// pass runs over the matches of one snapshot. lost says that a document was
// changed by others and no longer matches; done that the effect ended the
// statement.
func (w *Writer) pass(ctx context.Context, c *catalog.Collection, q *Query, index bool, out *Written, e effect) (lost, done bool, err error) {
	q.NoExpress = true
	r, err := w.x.start(ctx, c, q, nil)
	if err != nil {
		return false, false, err
	}
	defer r.close()
	defer w.account(r, out)
	menv := matchEnv(q.Env)
	var row stage.Row
	for {
		ok, err := r.next(ctx, &row)
		if err != nil || !ok {
			return lost, false, w.under(err)
		}
		record := catalog.RecordKey(bytes.Clone(row.Record))
		err = w.Do(ctx, func(u *catalog.Unit) error {
			doc, err := u.LockRecord(ctx, c, record)
			if err != nil {
				return err
			}
			if doc == nil || w.x.Catalog.Hides(c, doc) {
				lost = true
				return nil
			}
			if err := w.hold(len(doc)); err != nil {
				return err
			}
			at, still := "", true
			switch {
			case index:
				still, at, err = q.Filter.MatchArrayIndex(doc, menv)
			case !bytes.Equal(doc, row.Doc):
				still, err = q.Filter.MatchEnv(doc, menv)
			}
			if err != nil {
				return err
			}
			if !still {
				lost = true
				return nil
			}
			out.Meta = row.Meta
			done, err = e.apply(u, record, doc, at)
			return err
		})
		if err != nil || done {
			return lost, done, w.under(err)
		}
	}
}
