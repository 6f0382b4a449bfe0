package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

// change is what the events of a batch made of one document.
type change struct {
	id      bson.Value // of its last delete
	deleted bool       // a delete is among them
	doc     bson.Doc   // the document behind them; nil for none
	keyed   bool       // the last delete was by a shard key
	before  bson.Doc   // the last document before that
}

// changes are those of one collection, in a batch of events.
type changes struct {
	row  *row
	all  []*change
	byID map[string]*change
}

// of returns the change of the document with an _id. Numbers that are equal are one _id.
func (c *changes) of(id bson.Value) *change {
	k := string(keystring.Append(nil, id, false, nil))
	ch := c.byID[k]
	if ch == nil {
		ch = &change{}
		c.byID[k], c.all = ch, append(c.all, ch)
	}
	return ch
}

// applyEvents applies events in their order. It does no harm when they are applied again, from
// any of them on.
func (im *Importer) applyEvents(ctx context.Context, events []bson.Doc) error {
	if n := len(events); n > 0 { // before a lock is given back: what the copy reads then is behind these
		im.applied.Observe(tokenTime(events[n-1].Lookup("_id").Doc()))
	}
	var rows []*changes
	byRow := map[*row]*changes{}
	flush := func() error {
		for _, c := range rows {
			if err := im.applyChanges(ctx, c); err != nil {
				return fmt.Errorf("following %s: %w", c.row.name(), err)
			}
		}
		rows = nil
		clear(byRow)
		return nil
	}
	var before bson.Doc // the token of the last write
	for _, event := range events {
		if ownDatabase(event) {
			continue
		}
		kind := kindOf(event)
		if !writes[kind] {
			if err := flush(); err != nil {
				return err
			}
			if before != nil { // what is told again after a kill has no writes to what has another name then
				if err := im.storeToken(ctx, before); err != nil {
					return err
				}
			}
			before = nil
			if err := im.applyDefinition(ctx, kind, event); err != nil {
				return err
			}
			if err := im.storeToken(ctx, event.Lookup("_id").Doc()); err != nil {
				return err
			}
			continue
		}
		id, _ := uuidOf(event.Lookup("collectionUUID"))
		r := im.rows.get(id)
		if r == nil {
			return fmt.Errorf("the source tells of a document of a collection that it has not told of: %s", without(event, "fullDocument", "updateDescription"))
		}
		if r.void || r.ended || !r.made() { // it was dropped, and this is told again; or will be
			continue
		}
		c := byRow[r]
		if c == nil {
			c = &changes{row: r, byID: map[string]*change{}}
			byRow[r], rows = c, append(rows, c)
		}
		c.add(kind, event)
		before = event.Lookup("_id").Doc()
	}
	return flush()
}

// add adds an event.
func (c *changes) add(kind string, event bson.Doc) {
	key := event.Lookup("documentKey").Doc()
	id := key.Lookup("_id")
	ch := c.of(id)
	if kind == "delete" {
		if ch.keyed = key.Len() > 1; ch.doc != nil {
			ch.before = ch.doc
		}
		ch.id, ch.deleted, ch.doc = id, true, nil
		return
	}
	if v := event.Lookup("fullDocument"); v.Type == bson.TypeDocument {
		ch.doc = v.Doc()
	} // else it is gone at the source, and its delete is still to come
}

// maxMoves bounds the renames of a collection that are followed while its documents are looked up.
const maxMoves = 10

// living takes back the deletes of documents that the source has. A transaction moves a document
// between shards by an insert and a delete, and the stream may tell of the insert first. Where the
// source has the document, its insert was told before, and holds, or is to come.
func (im *Importer) living(ctx context.Context, c *changes) error {
	ids := new(bson.Builder).OpenArray("$in")
	n := 0
	for _, ch := range c.all {
		if ch.deleted && ch.doc == nil && ch.keyed {
			ids.Value(bson.Index(n), ch.id)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	in := ids.Close().Finish()
	db, coll := c.row.db, c.row.coll
	for range maxMoves {
		docs, err := im.from.all(ctx, db, new(bson.Builder).String("find", coll).OpenDoc("filter").Doc("_id", in).Close().OpenDoc("projection").Int32("_id", 1).Close().
			Value("collectionUUID", uuidValue(c.row.uuid)).Doc("readConcern", im.sourceConcern()).Finish())
		if mongoerr.Is(err, mongoerr.CollectionUUIDMismatch, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled) {
			d, err := ofUUID(ctx, im.from, db, c.row.uuid)
			if err != nil || d == nil { // its drop is to come
				return err
			}
			db, coll = d.db, d.coll
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range docs {
			if ch := c.of(d.Lookup("_id")); ch.deleted && ch.doc == nil && ch.keyed {
				ch.deleted, ch.doc = ch.before != nil, ch.before
			}
		}
		return nil
	}
	return errors.New("it is renamed at the source all the time")
}

// applyChanges applies those of one collection: deletes, and then what stands there now. Of two
// documents with one _id by the collection's collation, the older one was deleted before.
func (im *Importer) applyChanges(ctx context.Context, c *changes) error {
	r := c.row
	r.lock.Lock() // copy-behind-events
	defer r.lock.Unlock()
	if err := im.living(ctx, c); err != nil {
		return err
	}
	var deletes, updates, inserts []bson.Doc
	var updated []bson.Doc
	for _, ch := range c.all {
		odd := ch.doc != nil && dollars(ch.doc)
		if ch.deleted {
			deletes = append(deletes, deletion(ch.id))
		} else if odd {
			deletes = append(deletes, deletion(ch.doc.Lookup("_id")))
		}
		switch {
		case ch.doc == nil:
		case odd:
			inserts = append(inserts, ch.doc)
		default:
			updates = append(updates, new(bson.Builder).OpenDoc("q").OpenDoc("_id").Value("$eq", ch.doc.Lookup("_id")).Close().Close().Doc("u", ch.doc).Bool("upsert", true).Finish())
			updated = append(updated, ch.doc)
		}
	}
	if err := im.delete(ctx, r, deletes); err != nil {
		return err
	}
	if len(updates) > 0 {
		body := im.unchecked(new(bson.Builder).String("update", r.coll).Bool("ordered", false)).Value("collectionUUID", uuidValue(r.target)).Finish()
		reply, err := im.applier.write(ctx, r.db, body, wire.NewSequence("updates", updates...))
		if err != nil {
			return err
		}
		var again []bson.Doc
		for _, e := range writeErrors(reply) {
			// The document there has another _id that is equal, such as 1 and 1.0: an older one.
			if e.Code != mongoerr.ImmutableField && e.Code != mongoerr.DuplicateKey || e.index >= len(updated) {
				return e.Error
			}
			again = append(again, deletion(updated[e.index].Lookup("_id")))
			inserts = append(inserts, updated[e.index])
		}
		if err := im.delete(ctx, r, again); err != nil {
			return err
		}
	}
	if len(inserts) == 0 {
		return nil
	}
	return im.insert(ctx, im.applier, r, inserts)
}

// dollars reports whether a document can be inserted, and is no replacement.
func dollars(d bson.Doc) bool {
	for name := range d.All() {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

func deletion(id bson.Value) bson.Doc {
	return new(bson.Builder).OpenDoc("q").OpenDoc("_id").Value("$eq", id).Close().Close().Int32("limit", 1).Finish()
}

// delete executes deletions.
func (im *Importer) delete(ctx context.Context, r *row, deletes []bson.Doc) error {
	if len(deletes) == 0 {
		return nil
	}
	reply, err := im.applier.write(ctx, r.db, new(bson.Builder).String("delete", r.coll).Bool("ordered", false).Value("collectionUUID", uuidValue(r.target)).Finish(), wire.NewSequence("deletes", deletes...))
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		return e.Error
	}
	return nil
}

// applyDefinition applies an event of DDL.
func (im *Importer) applyDefinition(ctx context.Context, kind string, event bson.Doc) error {
	id, _ := uuidOf(event.Lookup("collectionUUID"))
	r := im.rows.get(id)
	db, coll := nsOf(event.Lookup("ns"))
	switch kind {
	case "create":
		if r != nil || id == (bson.UUID{}) {
			return nil
		}
		return im.created(ctx, id, db, coll)
	case "createIndexes", "dropIndexes", "modify":
		if r == nil || r.void || r.ended {
			return nil
		}
		return im.ensureRow(ctx, im.applier, r)
	case "drop":
		if r == nil {
			return nil // a view, or a time series
		}
		return im.dropped(ctx, r)
	case "rename":
		if r == nil {
			return nil
		}
		return im.renamed(ctx, r, event)
	case "dropDatabase": // the drops of its collections were told
		return nil
	case "shardCollection", "refineCollectionShardKey": // documents and UUID stay
		return nil
	}
	return fmt.Errorf("the source tells of an event %q, which this import does not know: it ends rather than guess. %s", kind, event)
}

// created makes a collection that was made at the source. Its documents come as events.
func (im *Importer) created(ctx context.Context, id bson.UUID, db, coll string) error {
	r := &row{uuid: id, db: db, coll: coll, copied: true}
	d, err := ofUUID(ctx, im.from, db, id)
	if err != nil {
		return err
	}
	// Gone again, or a view: its drop comes as an event.
	r.void = d == nil || d.late()
	if !r.void { // the row that is stored says that the name is the import's
		if err := im.unoccupied(ctx, &definition{db: db, coll: coll}); err != nil {
			return err
		}
	}
	if err := storeRow(ctx, im.applier, r); err != nil {
		return err
	}
	im.rows.put(r)
	if r.void {
		return nil
	}
	d.db, d.coll = db, coll
	return im.makeRow(ctx, im.applier, r, d)
}

// dropped drops a collection that was dropped at the source.
func (im *Importer) dropped(ctx context.Context, r *row) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ended {
		return nil
	}
	if r.made() {
		_, err := im.ddl(ctx, r.db, new(bson.Builder).String("drop", r.coll).Value("collectionUUID", uuidValue(r.target)).Finish())
		if err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.CollectionUUIDMismatch) { // which is that it was dropped before a kill
			return err
		}
	}
	r.ended = true
	return storeRow(ctx, im.applier, r)
}

// renamed renames a collection as at the source.
func (im *Importer) renamed(ctx context.Context, r *row, event bson.Doc) error {
	db, coll := nsOf(event.Lookup("to"))
	if v := event.Lookup("operationDescription"); v.Type == bson.TypeDocument {
		if id, ok := uuidOf(v.Doc().Lookup("dropTarget")); ok {
			if other := im.rows.get(id); other != nil {
				if err := im.dropped(ctx, other); err != nil {
					return err
				}
			}
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.db == db && r.coll == coll || r.ended {
		return nil
	}
	if r.made() {
		_, err := im.ddl(ctx, "admin", new(bson.Builder).String("renameCollection", r.name()).String("to", db+"."+coll).Value("collectionUUID", uuidValue(r.target)).Finish())
		if mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.CollectionUUIDMismatch) { // it was renamed before a kill
			have, err2 := named(ctx, im.to, db, coll)
			if err2 != nil {
				return err2
			}
			if have != nil && have.uuid == r.target {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("renaming %s: %w", r.name(), err)
		}
	}
	r.db, r.coll = db, coll
	return storeRow(ctx, im.applier, r)
}
