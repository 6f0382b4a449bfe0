package importer

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
)

// row is what an import knows of one collection of the source, which its UUID names. Views, time
// series and capped collections are made at the cut-over: time series and views have no row, and
// capped collections one that is void.
type row struct {
	uuid bson.UUID
	void bool // nothing of it is at the target

	// lock guards the fields below. A batch of the copy holds it shared from before its read until
	// its documents are acknowledged, a batch of events exclusively (invariant copy-behind-events).
	lock     sync.RWMutex
	db, coll string    // its name as of the last event that was applied
	ended    bool      // it was dropped
	target   bson.UUID // what it is at the target: all writes name it, and none makes a collection

	// Of the copy, which one worker makes.
	copied    bool
	last      bson.Value // the last _id that was copied; Missing for none
	documents int64
}

// name is its namespace.
func (r *row) name() string { return r.db + "." + r.coll }

// made reports whether it was made at the target.
func (r *row) made() bool { return r.target != bson.UUID{} }

// storeRow stores a row as it is.
func storeRow(ctx context.Context, w *writer, r *row) error {
	b := new(bson.Builder).String("db", r.db).String("coll", r.coll).Bool("ended", r.ended).Bool("void", r.void).Bool("copied", r.copied).Int64("documents", r.documents)
	if r.made() {
		b.Value("target", uuidValue(r.target))
	}
	if !r.last.IsMissing() {
		b.Value("last", r.last)
	}
	return w.set(ctx, progressColl, uuidValue(r.uuid), b.Finish())
}

// storeCopied stores how far the copy of a row is, and not its name, which is the applier's.
func storeCopied(ctx context.Context, w *writer, r *row) error {
	b := new(bson.Builder).Bool("copied", r.copied).Int64("documents", r.documents)
	if !r.last.IsMissing() {
		b.Value("last", r.last)
	}
	return w.set(ctx, progressColl, uuidValue(r.uuid), b.Finish())
}

// rows are those of an import.
type rows struct {
	mu   sync.Mutex
	byID map[bson.UUID]*row
}

func (t *rows) get(id bson.UUID) *row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *rows) put(r *row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[bson.UUID]*row{}
	}
	t.byID[r.uuid] = r
}

// forget forgets them all.
func (t *rows) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.byID)
}

// all returns those that are at the target.
func (t *rows) all() (out []*row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.byID {
		if r.void {
			continue
		}
		r.lock.RLock()
		if !r.ended {
			out = append(out, r)
		}
		r.lock.RUnlock()
	}
	return out
}

// readRows reads the rows that are stored.
func (im *Importer) readRows(ctx context.Context) error {
	docs, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", progressColl).Finish())
	if err != nil {
		return err
	}
	for _, d := range docs {
		id, ok := uuidOf(d.Lookup("_id"))
		if !ok {
			continue // of what is copied at the cut-over (late.go)
		}
		r := &row{
			uuid: id, db: d.Lookup("db").Str(), coll: d.Lookup("coll").Str(), ended: d.Lookup("ended").Truthy(), void: d.Lookup("void").Truthy(),
			copied: d.Lookup("copied").Truthy(), last: d.Lookup("last"), documents: bson.ClampToInt64(d.Lookup("documents")),
		}
		r.target, _ = uuidOf(d.Lookup("target"))
		im.rows.put(r)
	}
	return nil
}
