package catalog

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A collection whose documents expire by a date, or by their last write, is
// clustered by windows: its record key is the number of a window, eight bytes
// big-endian, and then the key string of _id. So what is due lies together, and
// goes as one range (dropwindows.go). (docs/rfcs/0008-expiry-windows.md)
//
// A window is a span of dates, or of seconds of last writes, so a change of
// expireAfterSeconds moves nothing; documents that bring a ttl of their own
// have windows apart, by the second at which they expire (windowof.go). A
// document that the windows cannot judge lives in the last one, which never
// goes as a whole. A document stays in its window when its instant changes; one
// whose own window is another by then, and not an earlier one of the same kind,
// is counted there as stayed.
//
// The index on _id has entries of its own, without the record key at the end:
// key string of _id → window ‖ type bits. Entries in other indexes end in the
// record key, as always, so each names its window; those of windows below the
// low water are dead: their documents are gone.
//
// Beside the documents, in the keyspace IdentWindows: the collection's ident →
// its windowState; the ident ‖ a window → the sums of what lives in it.
//
// Time-series collections have windows of another kind (bucketwindows.go).

const windowBytes = 8

// The sums of a window.
const (
	windowDocs   = iota
	windowSize   // their bytes
	windowStayed // more than 0 where some may not belong there any more; see stayMark, windowMeasured
	windowSums
)

// windowsFor returns the windows that a collection without documents gets with
// new indexes: by the first one whose instants tell all about its documents'
// expiry; nil for none.
func windowsFor(c *Collection, fresh []*schema.Index) *windows {
	ns := c.Namespace
	if c.windows != nil || !c.ClusteredByID() || c.Settings.Clustered != nil || ns.DB == "local" || ns.DB == "config" || ns.DB == "admin" || ns.IsSystem() {
		return nil
	}
	for _, ix := range fresh {
		if ix.IsTTL() && windowable(ix) {
			return newWindows(ix)
		}
	}
	return nil
}

// windowable says whether an index may have windows.
func windowable(ix *schema.Index) bool {
	_, lastWrite := ix.ByLastWrite()
	return (ix.Plugin == "" || lastWrite) && len(ix.Parts) == 1
}

func appendWindow(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// window is the window of a record key of a windowed collection; 0 for one
// that is damaged.
func (k RecordKey) window() uint64 {
	if len(k) < windowBytes {
		return 0
	}
	return binary.BigEndian.Uint64(k)
}

// Windowed says whether the collection is clustered by windows of expiry, in
// which its documents are found by _id.
func (c *Collection) Windowed() bool { return c.windows != nil && !c.windows.buckets }

// WindowedBy says whether the documents that are due by a rule are those of
// the earliest windows.
func (c *Collection) WindowedBy(r *Rule) bool {
	return c.windows != nil && r.Kind != schema.ByID && c.windows.serve(r.Index.Index)
}

// WholeUntil is the last instant up to now by which all that is due by a rule
// is in windows that are wholly due; now itself for a collection without
// windows by that rule. What is due since then can wait for the rest of its
// window, and go with it.
func (c *Collection) WholeUntil(r *Rule, now int64) int64 {
	if !c.WindowedBy(r) || c.windows.lastWrite {
		return now // windows by last writes are whole with each second, as instants are
	}
	last := r.lastDue(now)
	return now - (last - c.windows.wholeUntil(last))
}

// LowWater reads the low water of a collection in a state of the store: index
// entries with a record key below it are dead. Zero without windows.
func (c *Collection) LowWater(r storage.Reader) (LowWater, error) {
	if c.windows == nil {
		return LowWater{}, nil
	}
	s, err := readWindowState(r, c.Ident)
	return s.low, err
}

// dead is LowWater.Dead in the latest state. REQUIRES: a unit is inside the
// collection, or the gate is closed.
func (c *Collection) dead(record RecordKey) bool {
	return c.windows != nil && c.live.lowWater.Load().Dead(record)
}

// lockName is what stands for a document among the locks: the part of its
// record key that it keeps when it moves to another window.
func (c *Collection) lockName(record RecordKey) []byte {
	if !c.Windowed() || len(record) < windowBytes {
		return record
	}
	return record[windowBytes:]
}

// Identity is the part of a record key that a document keeps for its life.
func (c *Collection) Identity(record RecordKey) []byte { return c.lockName(record) }

// FindsByID says whether FindID takes some lookups, and no scan.
func (c *Collection) FindsByID() bool { return c.ClusteredByID() || c.Windowed() }

// FindID reads the document with an _id; nil where there is none, and closer
// with it. The record key is appended to dst.
// REQUIRES: FindsByID.
func (c *Collection) FindID(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	if c.windows == nil {
		record = c.AppendIDKey(dst, id)
		doc, closer, err = c.find(r, record)
		return record, doc, closer, err
	}
	return c.findInWindows(dst, r, id)
}

// find reads the document of a record key, nil where it is gone.
func (c *Collection) find(r storage.Reader, record RecordKey) (bson.Doc, io.Closer, error) {
	doc, closer, err := r.Get(c.Ident, record)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, nil
	}
	return doc, closer, err
}

func (c *Collection) findInWindows(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	n := len(dst)
	record = appendWindow(dst, 0)
	record = c.appendID(record, id)
	hash := hintHash(c.Ident, record[n+windowBytes:])
	last, looked := c.live.hints.get(hash)
	if looked && !c.live.lowWater.Load().below(last) {
		binary.BigEndian.PutUint64(record[n:], last)
		doc, closer, err = c.find(r, record[n:])
		if err != nil || doc != nil {
			return record, doc, closer, err
		}
	}
	for looked = false; ; {
		window, found, err := c.windowOf(r, record[n+windowBytes:])
		if err != nil || !found || looked && window == last {
			return record, nil, nil, err
		}
		binary.BigEndian.PutUint64(record[n:], window)
		doc, closer, err = c.find(r, record[n:])
		if doc != nil {
			c.live.hints.put(hash, window)
		}
		if err != nil || doc != nil {
			return record, doc, closer, err
		}
		// Where r reads the latest state, it may have moved between the two looks.
		last, looked = window, true
	}
}

// windowOf looks a key string of _id up; the entry may be dead.
func (c *Collection) windowOf(r storage.Reader, id []byte) (window uint64, found bool, err error) {
	v, closer, err := r.Get(c.indexes[0].Ident, id)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer closer.Close()
	window = RecordKey(v).window()
	return window, true, nil
}

// windowState is what all windows of a collection have in common.
type windowState struct {
	// low is the low water: all windows below it are gone.
	low LowWater
	// swept is a low water of which no index has entries any more.
	swept LowWater
}

// encode is the stored form: the marks of the first kind of windows, and those
// of the second and the drops, where there are any.
func (s windowState) encode() []byte {
	b := appendWindow(appendWindow(nil, s.low.first), s.swept.first)
	if s.low.own > 0 || s.low.drops > 0 {
		b = appendWindow(appendWindow(b, s.low.own), s.swept.own)
	}
	if s.low.drops > 0 {
		b = appendWindow(appendWindow(b, uint64(s.low.drops)), uint64(s.swept.drops))
	}
	return b
}

// readWindowState reads the state of a collection, as r has it.
func readWindowState(r storage.Reader, id storage.Ident) (s windowState, err error) {
	v, closer, err := r.Get(storage.IdentWindows, identKey(id))
	if errors.Is(err, storage.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer closer.Close()
	return decodeWindowState(v), nil
}

func decodeWindowState(v []byte) (s windowState) {
	if len(v) >= 2*windowBytes {
		s.low.first, s.swept.first = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[windowBytes:])
	}
	if v = v[min(len(v), 2*windowBytes):]; len(v) >= 2*windowBytes {
		s.low.own, s.swept.own = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[windowBytes:])
	}
	if v = v[min(len(v), 2*windowBytes):]; len(v) == 2*windowBytes {
		s.low.drops, s.swept.drops = uint32(binary.BigEndian.Uint64(v)), uint32(binary.BigEndian.Uint64(v[windowBytes:]))
	}
	return s
}

// windowKey is where the sums of a window are.
func windowKey(dst []byte, id storage.Ident, window uint64) []byte {
	return appendWindow(storage.AppendIdent(dst, id), window)
}

// windowDelta is what a unit has changed in a window.
type windowDelta struct {
	ident  storage.Ident
	live   *live
	window uint64
	d      [windowSums]int64
	mark   bool // stayMark is in d
}

// countWindow notes a change in the window of the unit's record; stayed is by how
// much the documents rise that have stayed there, or the measurements of buckets.
func (u *Unit) countWindow(c *Collection, docs, size, stayed int64) {
	if c.windows == nil {
		return
	}
	n, mark := u.record.window(), false
	if !c.windows.buckets {
		mark = stayed > 0 && !u.c.stays.has(markedWindow{c.Ident, n})
		stayed = 0
		if docs == 0 && size == 0 && !mark {
			return
		}
	}
	i := len(u.deltas) - 1
	for i >= 0 && (u.deltas[i].window != n || u.deltas[i].ident != c.Ident) {
		i--
	}
	if i < 0 {
		i = len(u.deltas)
		u.deltas = append(u.deltas, windowDelta{ident: c.Ident, live: c.live, window: n})
	}
	d := &u.deltas[i]
	d.d[windowDocs] += docs
	d.d[windowSize] += size
	d.d[windowStayed] += stayed
	if mark {
		d.d[windowStayed], d.mark = stayMark, true
	}
}

// stayed is stays for the window of the unit's record.
func (u *Unit) stayed(c *Collection, doc bson.Doc) int64 {
	return c.stays(doc, u.record.window())
}

// stays is 1 for a document that does not belong to a window any more, else 0;
// for a bucket how many measurements it has.
func (c *Collection) stays(doc bson.Doc, in uint64) int64 {
	switch {
	case c.windows == nil:
		return 0
	case c.windows.buckets:
		return measured(doc)
	case c.windows.stayed(doc, in):
		return 1
	}
	return 0
}

// writeWindows adds what was noted to the sums of the windows.
func (u *Unit) writeWindows() error {
	for i := range u.deltas {
		d := &u.deltas[i]
		if d.d == [windowSums]int64{} {
			continue
		}
		u.value = windowKey(u.value[:0], d.ident, d.window)
		if err := u.u.AddSums(storage.IdentWindows, u.value, d.d[:]); err != nil {
			return err
		}
		if d.mark {
			u.e.note(&markedNote{about{d.ident, d.live}, d.window})
		}
	}
	return nil
}
