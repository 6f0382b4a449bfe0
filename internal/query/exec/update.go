package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/update"
)

// maxRestarts bounds how often a statement looks again because others changed
// what it had found.
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
}

// Delete is one delete statement.
type Delete struct {
	Query *Query
	Multi bool
	Keep  bool
}

// Written is what a statement did.
type Written struct {
	Matched, Modified, Deleted int64
	// Upserted is the _id of the document that an upsert inserted, or Missing.
	Upserted bson.Value
	// Old and New are kept where the statement asked for them; nil for none.
	Old, New bson.Doc
	// Meta is what the plan knew about the document that was written last, or nil.
	Meta       *Meta
	Summary    string
	Keys, Docs int64
	Conflicts  int64
	Sorted     bool
	Spilled    bool
	FromTrial  bool
	// KeysInserted and KeysDeleted count index entries.
	KeysInserted, KeysDeleted int64

	deletes bool      // it is what a delete did
	node    plan.Node // what found the documents, and
	stage   Stage     // how, where stages ran
}

// effect applies a statement to one locked document. done ends the statement.
type effect func(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, index string) (done bool, err error)

// Update runs an update statement. c may be nil only for statements that do
// not upsert: the caller creates the collection first.
func (w *Writer) Update(ctx context.Context, c *catalog.Collection, s *Update) (*Written, error) {
	if c != nil && c.IsTimeseries() {
		return w.updateMeasurements(ctx, c, s)
	}
	out := &Written{}
	if s.Query.Env != nil {
		s.Query.Env.Watch(ctx)
	}
	apply := func(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, index string) (bool, error) {
		next, changed, err := s.Update.Apply(doc, &update.Context{ArrayIndex: index, Env: s.Query.Env, KeepZeroTimestamps: s.KeepZeroTimestamps})
		if err != nil {
			return false, err
		}
		if changed {
			if err := w.hold(max(len(doc), len(next))); err != nil {
				return false, err
			}
			next = u.Stamp(c, next)
			if s.Check != nil {
				if err := s.Check(doc, next); err != nil {
					return false, err
				}
			}
			err := out.tally(u, func() error { return u.Update(ctx, c, record, doc, next) })
			if err != nil {
				return false, err
			}
			out.Modified++
		}
		out.Matched++
		if s.Keep {
			out.Old, out.New = doc, next.Clone()
		}
		return !s.Multi, nil
	}
	for attempt := 0; ; attempt++ {
		if err := w.each(ctx, c, s.Query, s.Multi, s.Update.NeedsArrayIndex(), out, apply); err != nil {
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

// retryUpsert says whether a duplicate key means that another client inserted
// the very document that the filter asks for: then the update is tried again.
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
	err = w.do(ctx, func(u *catalog.Unit) error {
		doc = u.Stamp(c, doc)
		return out.tally(u, func() error { return u.Insert(ctx, c, doc) })
	})
	if err != nil {
		return err
	}
	out.KeysInserted += ownKeys(c)
	out.Upserted = doc.Lookup("_id").Clone()
	if s.Keep {
		out.New = doc
	}
	return nil
}

// Delete runs a delete statement. c is nil where the collection does not
// exist.
func (w *Writer) Delete(ctx context.Context, c *catalog.Collection, s *Delete) (*Written, error) {
	if c != nil && c.IsTimeseries() {
		return w.deleteMeasurements(ctx, c, s)
	}
	out := &Written{deletes: true}
	err := w.each(ctx, c, s.Query, s.Multi, false, out, func(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, _ string) (bool, error) {
		err := out.tally(u, func() error { return u.Delete(ctx, c, record, doc) })
		if err != nil {
			return false, err
		}
		out.KeysDeleted += ownKeys(c)
		out.Deleted++
		if s.Keep {
			out.Old = doc
		}
		return !s.Multi, nil
	})
	if out.Summary == "IDHACK" {
		out.Summary = "EXPRESS_IXSCAN { _id: 1 },EXPRESS_DELETE"
	}
	return out, err
}

// each finds the documents of a statement on a snapshot, locks each, makes
// sure that it still matches, and applies the effect. A statement for one
// document whose find was changed by others under its hands looks again.
func (w *Writer) each(ctx context.Context, c *catalog.Collection, q *Query, multi, index bool, out *Written, apply effect) error {
	if c == nil {
		out.Summary, out.node = "EOF", &plan.EOF{NoCollection: true}
		return nil
	}
	if id, ok := plan.PointID(&q.Query, c.Options.Lookup("collation").Data); ok && c.FindsByID() && !index {
		return w.one(ctx, c, id, out, apply)
	}
	if err := w.show(ctx); err != nil {
		return err
	}
	if err := w.expect(ctx, c); err != nil {
		return w.under(err)
	}
	for attempt := 0; ; attempt++ {
		lost, done, err := w.pass(ctx, c, q, index, out, apply)
		if err != nil || done || multi || !lost || attempt == maxRestarts {
			return err
		}
		out.Conflicts++
	}
}

// one is each for a statement about a single _id: one lock, one look.
func (w *Writer) one(ctx context.Context, c *catalog.Collection, id bson.Value, out *Written, apply effect) error {
	out.Summary, out.node = "IDHACK", &plan.IDHack{ID: id}
	if err := w.expect(ctx, c); err != nil {
		return w.under(err)
	}
	return w.under(w.do(ctx, func(u *catalog.Unit) error {
		record, doc, err := u.LockID(ctx, c, id)
		if err != nil || doc == nil || w.x.Catalog.Hides(c, doc) {
			return err
		}
		if err := w.hold(len(doc)); err != nil {
			return err
		}
		out.Keys, out.Docs = 1, 1
		_, err = apply(u, record, doc, "")
		return err
	}))
}

// pass runs over the matches of one snapshot. lost says that a document was
// changed by others and no longer matches; done that the effect ended the
// statement.
func (w *Writer) pass(ctx context.Context, c *catalog.Collection, q *Query, index bool, out *Written, apply effect) (lost, done bool, err error) {
	q.NoExpress = true
	r, err := w.x.start(ctx, c, q, nil)
	if err != nil {
		return false, false, err
	}
	defer r.close()
	defer w.account(r, out)
	menv := matchEnv(q.Env)
	var row Row
	for {
		ok, err := r.next(ctx, &row)
		if err != nil || !ok {
			return lost, false, w.under(err)
		}
		record := catalog.RecordKey(bytes.Clone(row.Record))
		err = w.do(ctx, func(u *catalog.Unit) error {
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
			done, err = apply(u, record, doc, at)
			return err
		})
		if err != nil || done {
			return lost, done, w.under(err)
		}
	}
}
