package catalog

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where operations are recorded, a removal of a range is recorded document by document:
// the unit that drops it has the list of all _ids (docs/rfcs/0020-oplog.md). The list is
// made before the gate closes, in one state of the store; what others add or remove in the
// meantime is corrected when it is closed. So the list is exactly what is removed
// (invariant exact-window).

const (
	// listedDocs is how many documents are removed in one unit, at least those of one
	// window: writers of the collection wait while its entry, of a tenth of a megabyte with
	// ObjectIds, is committed, and the governor looks at clients after each.
	listedDocs = 1 << 13
	// listedStep is after how many documents a removal that lists them may rest: to read them
	// takes about a quarter of a millisecond.
	listedStep = 512
	// listedAtOnce is up to how many documents are listed with the gate closed: that
	// takes less time than to set a watch.
	listedAtOnce = 512
	// maxListBytes bounds a list. The documents of a window that has more are removed
	// one by one.
	maxListBytes = 32 << 20
	// imageBytes bounds the documents that are removed in one unit, at least those of one
	// window, where the collection keeps images: the list has them whole.
	imageBytes = 1 << 20
	// maxListChanges bounds the documents that a watch notes as added or removed.
	maxListChanges = 100_000
)

// errLongList says that a window has more documents than one unit may list.
var errLongList = errors.New("catalog: the window has too many documents to list")

// errLostList says that more documents were added or removed than a watch can note:
// the windows wait for the next visit.
var errLostList = errors.New("catalog: too many documents changed while the window was listed")

// idList is the _ids of some documents: of each the type and the bytes. Where whole is
// set, it is the documents themselves, and else, where the collection has a shard key, their
// document keys.
type idList struct {
	n     int
	bytes []byte
	whole bool
	place place // its key is that of the documents
}

// newList returns an empty list for documents of the collection: of the documents where
// it keeps images, as those who watch the collection may ask for what they were.
func (c *Collection) newList() *idList {
	return &idList{whole: c.Settings != nil && c.Settings.PreAndPostImages && !c.IsTimeseries(), place: place{key: c.documentKey()}}
}

// cut reads an entry off the front of a list, and returns its _id as other lists have it.
func (l *idList) cut(rest []byte) (id, after []byte, ok bool) {
	if l.whole || l.place.key != "" {
		doc, after, ok := cutDocument(rest)
		if !ok {
			return nil, nil, false
		}
		return bson.AppendTyped(nil, doc.Lookup("_id")), after, true
	}
	_, after, ok = bson.CutTyped(rest)
	return rest[:len(rest)-len(after)], after, ok
}

// add adds the _id of a document.
func (l *idList) add(doc bson.Doc) error {
	if len(l.bytes) > maxListBytes {
		return errLongList
	}
	l.n++
	switch {
	case l.whole:
		l.bytes = append(l.bytes, doc...)
	case l.place.key != "":
		var room [128]byte
		l.bytes = append(l.bytes, l.place.documentKey(new(bson.Builder).Reset(room[:0]), doc).Finish()...)
	default:
		l.bytes = bson.AppendTyped(l.bytes, doc.Lookup("_id"))
	}
	return nil
}

// addSpan adds the documents of some sections, as they are in r, and calls rest, if there is
// one, after each listedStep.
func (l *idList) addSpan(c *Collection, r storage.Reader, span layout.Span, rest func() error) error {
	return c.iters(r, span, func(it *storage.Iter) (more bool, err error) {
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err == nil {
				err = l.add(v)
			}
			if err == nil && rest != nil && l.n%listedStep == 0 {
				err = rest()
			}
			if err != nil {
				return false, err
			}
		}
		return true, it.Err()
	})
}

// leave removes _ids from the list.
func (l *idList) leave(ids map[string]struct{}) error {
	kept := l.bytes[:0]
	for rest := l.bytes; len(rest) > 0; {
		id, after, ok := l.cut(rest)
		if !ok {
			return storage.ErrCorruption
		}
		if _, gone := ids[string(id)]; gone {
			l.n--
		} else {
			kept = append(kept, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	l.bytes = kept
	return nil
}

// listWatch notes, while documents that are about to be dropped are listed, which
// others add or remove. It is set and removed while the gate is closed.
type listWatch struct {
	due LowWater

	mu       sync.Mutex
	changes  []listChange
	overflow bool
}

// listChange is a record key under which a document was stored or removed, and its
// _id.
type listChange struct {
	key RecordKey
	id  []byte
}

// noteListed notes in the watch that the unit stores a document under a new record
// key, or removes one.
func (u *Unit) noteListed(c *Collection, key RecordKey, doc bson.Doc) {
	u.noteWritten(c, key)
	w := c.live.listWatch.Load()
	if w == nil || c.sections == nil || !w.due.Below(c.sections.In(key)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changes) == maxListChanges {
		w.overflow = true
		return
	}
	w.changes = append(w.changes, listChange{bytes.Clone(key), bson.AppendTyped(nil, doc.Lookup("_id"))})
}

// take returns what was noted in the sections below a mark, each record key once.
func (w *listWatch) take(c *Collection, upTo LowWater) (changes []listChange, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overflow {
		return nil, errLostList
	}
	w.changes = slices.DeleteFunc(w.changes, func(l listChange) bool {
		below := upTo.Below(c.sections.In(l.key))
		if below {
			changes = append(changes, l)
		}
		return below
	})
	slices.SortFunc(changes, func(a, b listChange) int { return bytes.Compare(a.key, b.key) })
	return slices.CompactFunc(changes, func(a, b listChange) bool { return bytes.Equal(a.key, b.key) }), nil
}

// correct updates a list that was made in an earlier state to that of r, by what has
// changed since.
func (l *idList) correct(c *Collection, r storage.Reader, changes []listChange) error {
	if len(changes) == 0 {
		return nil
	}
	ids := make(map[string]struct{}, len(changes))
	for _, ch := range changes {
		ids[string(ch.id)] = struct{}{}
	}
	if err := l.leave(ids); err != nil {
		return err
	}
	for _, ch := range changes {
		doc, closer, err := r.Get(c.Ident, ch.key)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		if err := errors.Join(l.add(doc), closer.Close()); err != nil {
			return err
		}
	}
	return nil
}

// lists reports whether removals of ranges are recorded document by document.
func (c *Catalog) lists(coll *Collection) bool {
	return c.operations && !coll.own() && !c.NoExpiredList.Load()
}

// part returns how far the next part of the windows from one mark up to another
// reaches: at least over one window with documents, and not over many more than a
// number of documents.
func (c *Collection) part(r storage.Reader, from, upTo LowWater, most int64) (LowWater, error) {
	docs, bytes := int64(0), int64(0)
	end, whole := upTo, c.newList().whole
	err := c.eachWindow(r, from, upTo, func(w windowSum) bool {
		if bytes += w.d[windowSize]; docs > 0 && (docs+w.d[windowDocs] > most || whole && bytes > imageBytes) {
			end = from.UpTo(w.window, upTo)
			return false
		}
		docs += w.d[windowDocs]
		return true
	})
	return end, err
}

// listPart returns how far the next part of the windows below cut reaches, and the list
// of its documents; nil if documents are not listed, or the list is made with the gate
// closed.
func (x *dropper) listPart() (upTo LowWater, list *idList, err error) {
	if !x.c.lists(x.coll) {
		return x.cut, nil, nil
	}
	if upTo, err = x.coll.part(x.c.engine, x.low, x.cut, listedDocs); err != nil || x.docs <= listedAtOnce {
		return upTo, nil, err
	}
	if x.listed == nil {
		x.beginList()
	}
	begun := time.Now()
	list, err = x.coll.listSpans(x.listed, x.low, upTo, func() error {
		took := time.Since(begun)
		err := x.rest(took, true)
		x.restedFor += took
		x.rested += time.Since(begun) - took
		begun = time.Now()
		return err
	})
	return upTo, list, err
}

// listSpans lists the documents in the sections from one mark up to another. rest is that of
// addSpan.
func (c *Collection) listSpans(r storage.Reader, from, upTo LowWater, rest func() error) (*idList, error) {
	list := c.newList()
	for _, span := range c.sections.Spans(from, upTo) {
		if err := list.addSpan(c, r, span, rest); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// beginList takes the state in which documents are listed, and sets the watch for what
// changes after it.
func (x *dropper) beginList() {
	l := x.coll.live
	l.gate.Lock()
	defer l.gate.Unlock()
	x.listed, x.listing = x.c.engine.NewSnapshot(), &listWatch{due: x.cut}
	l.listWatch.Store(x.listing)
}

// endList removes the watch.
func (x *dropper) endList() {
	if x.listed == nil {
		return
	}
	l := x.coll.live
	l.gate.Lock()
	l.listWatch.Store(nil)
	l.gate.Unlock()
	_ = x.listed.Close() // never fails: it has no iterators
	x.listed = nil
}

// finishList makes a list of listPart current, given the number of documents.
// REQUIRES: the gate is closed.
func (x *dropper) finishList(list *idList, upTo LowWater, docs int64) (*idList, error) {
	if err := x.coll.live.gate.requireClosed(); err != nil || !x.c.lists(x.coll) {
		return nil, err
	}
	if list != nil {
		changes, err := x.listing.take(x.coll, upTo)
		if err == nil {
			err = list.correct(x.coll, x.c.engine, changes)
		}
		if err != nil || invariant.Check(int64(list.n) == docs, "catalog: a list has the documents that a drop takes") {
			return list, err
		}
	}
	return x.coll.listSpans(x.c.engine, x.low, upTo, nil)
}

// recordExpired records that the documents of a list were removed as a range, by
// a rule.
func (e *Effect) recordExpired(coll *Collection, list *idList, rule string) {
	if coll.IsTimeseries() {
		coll = coll.Buckets()
	}
	p := coll.placeOps()
	p.rule, p.key = rule, list.place.key
	for _, r := range coll.rules {
		if r.Index.Name == rule {
			p.rule = r.Name()
		}
	}
	if p.flags &^= placeImages; list.whole {
		p.flags |= placeImages
	}
	e.ops.expired(p, new(bson.Builder).String("reason", rule).Finish(), list)
}
