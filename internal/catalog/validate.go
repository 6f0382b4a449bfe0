package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// maxFindings bounds the errors of one kind that a Validation lists.
	maxFindings = 100
	// validateCheckDocs is after how many documents Validate checks its context.
	validateCheckDocs = 1000
	// maxStoredDepth is how deep a stored document may be.
	maxStoredDepth = 200
)

// Validation is what Validate found.
type Validation struct {
	Namespace schema.Namespace
	UUID      UUID
	Valid     bool
	Errors    []string
	Warnings  []string

	Records          int64 // documents in the collection
	InvalidDocuments int64 // documents that are not valid BSON
	CorruptRecords   []RecordKey
	Indexes          []IndexValidation
	ExtraEntries     []Finding // entries without their document
	MissingEntries   []Finding // keys of documents without an entry
}

// IndexValidation is one index in a Validation.
type IndexValidation struct {
	Index  *Index
	Valid  bool
	Keys   int64 // entries
	Errors []string
}

// Finding is an index entry that should not be there, or that is missing.
type Finding struct {
	Index  *Index
	Key    schema.Key
	Record RecordKey
}

// fingerprint represents a multiset of entries by 128 bits and a count: equal
// sets have equal fingerprints, different ones practically never.
type fingerprint struct {
	a, b uint64
	n    int64
}

func (f *fingerprint) add(key, value []byte) {
	var d xxhash.Digest
	d.ResetWithSeed(1)
	d.Write(key)
	k := d.Sum64()
	d.ResetWithSeed(k)
	d.Write(value)
	f.a += k*0x9e3779b97f4a7c15 ^ k>>29
	f.b += d.Sum64()
	f.n++
}

// validation is a running Validate.
type validation struct {
	ctx   context.Context
	s     *storage.Snapshot
	coll  *Collection
	full  bool // each entry by itself
	v     *Validation
	want  []fingerprint          // by index: what the documents should have
	paths []schema.MultikeyPaths // by index: what the documents need
	keys  []schema.Key
	buf   []byte
	value []byte
	size  int64

	low     Gone                         // what has been removed, in this state
	windows map[uint64][windowSums]int64 // what the windows should have; nil without windows
	record  RecordKey                    // memory

	progress func(done, total int64) // or nil

	measured int64 // measurements in buckets
	placed   int64 // records that are entries of an index on the shard key
}

// Validate checks on one snapshot that a collection is consistent: every
// document is valid BSON under its own record key, each of its keys has an
// entry in each ready index and each entry its document, unique keys are
// unique, multikey paths cover the documents, and the counts are right. full
// also checks the form of each entry; without it entries are compared as sets.
// It also reads all blocks of the tables from the files instead of the block
// cache.
func (c *Catalog) Validate(ctx context.Context, coll *Collection, full bool) (*Validation, error) {
	depth := validateSets
	if full {
		depth = validateFull
	}
	return c.validate(ctx, coll, depth, nil)
}

// validateDepth is how much a validation checks.
type validateDepth int

const (
	validateSets    validateDepth = iota // entries as sets
	validateEntries                      // also each entry by itself
	validateFull                         // also the tables
)

// validate is Validate; progress, which may be nil, is called with how many documents
// of how many have been read.
func (c *Catalog) validate(ctx context.Context, coll *Collection, depth validateDepth, progress func(done, total int64)) (*Validation, error) {
	// Inside the gate no DDL is half done, so descriptor and snapshot agree.
	if err := coll.live.gate.RLock(ctx); err != nil {
		return nil, err
	}
	now := coll.Latest()
	s := c.engine.NewSnapshot()
	coll.live.gate.RUnlock()
	defer s.Close()
	if now == nil {
		return nil, coll.Check()
	}
	x := &validation{ctx: ctx, s: s, coll: now, full: depth >= validateEntries, progress: progress,
		v:    &Validation{Namespace: now.Namespace, UUID: now.UUID},
		want: make([]fingerprint, len(now.indexes)), paths: make([]schema.MultikeyPaths, len(now.indexes))}
	if now.Ident != 0 {
		if depth == validateFull {
			if err := x.tables(c.engine); err != nil {
				return nil, err
			}
		}
		// Where the tables are damaged, reading may end there: the reply names them.
		if err := x.run(); err != nil && (len(x.v.Errors) == 0 || !errors.Is(err, storage.ErrCorruption)) {
			return nil, err
		}
	}
	x.v.Valid = len(x.v.Errors) == 0
	for _, ix := range x.v.Indexes {
		x.v.Valid = x.v.Valid && ix.Valid
	}
	return x.v, nil
}

// tables checks the files with the keys of the collection and of its indexes.
func (x *validation) tables(e *storage.Engine) error {
	idents := []storage.Ident{x.coll.Ident}
	if x.coll.Open != 0 {
		idents = append(idents, x.coll.Open)
	}
	for _, ix := range x.coll.indexes {
		if ix.Ident != x.coll.Ident {
			idents = append(idents, ix.Ident)
		}
	}
	seen := map[storage.Damage]bool{}
	for _, id := range idents {
		damaged, err := e.CheckTables(x.ctx, id)
		if err != nil {
			return err
		}
		for _, d := range damaged {
			if !seen[d] {
				seen[d] = true
				x.fail("damaged table: %s", d)
			}
		}
	}
	return nil
}

func (x *validation) run() error {
	if x.coll.sections != nil {
		state, err := readWindowState(x.s, x.coll.Ident)
		if err != nil {
			return err
		}
		x.low, x.windows = state.Gone(), map[uint64][windowSums]int64{}
	}
	if err := x.documents(); err != nil {
		return err
	}
	for i, ix := range x.coll.indexes {
		if !ix.Ready {
			continue
		}
		if err := x.index(i, ix); err != nil {
			return err
		}
	}
	return x.counts()
}

func (x *validation) fail(format string, args ...any) {
	if len(x.v.Errors) < maxFindings {
		x.v.Errors = append(x.v.Errors, fmt.Sprintf(format, args...))
	}
}

// documents walks the records.
func (x *validation) documents() error {
	it, err := x.s.NewIter(x.coll.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if x.v.Records%validateCheckDocs == 0 {
			if x.ctx.Err() != nil {
				return context.Cause(x.ctx)
			}
			if x.progress != nil {
				x.progress(x.v.Records, x.coll.live.counter.Load(sumDocs))
			}
		}
		doc, err := it.Value()
		if err != nil {
			return err
		}
		x.v.Records++
		x.size += int64(len(doc))
		if err := x.document(it.Key(), doc); err != nil {
			x.v.InvalidDocuments++
			if len(x.v.CorruptRecords) < maxFindings {
				x.v.CorruptRecords = append(x.v.CorruptRecords, bytes.Clone(it.Key()))
			}
			x.fail("record %x: %v", it.Key(), err)
		}
	}
	return it.Err()
}

// document checks one record, and adds up the entries that it should have.
func (x *validation) document(key RecordKey, doc bson.Doc) error {
	if err := bson.Validate(doc, maxStoredDepth); err != nil {
		return err
	}
	if id, has := x.coll.layout.ID(key); has && !bytes.Equal(id, x.coll.appendID(nil, doc.Lookup("_id"))) {
		return fmt.Errorf("the record key does not match _id %s", doc.Lookup("_id"))
	}
	if x.coll.layout.Misplaced(key, layout.Place{Doc: doc, ID: x.coll.layout.Identity(key)}) {
		return errors.New("the record key does not match the shard key by which the collection lies")
	}
	if x.coll.sections != nil {
		if err := x.window(key, doc); err != nil {
			return err
		}
	}
	if !key.Apart() {
		x.placed++
	}
	for i, ix := range x.coll.indexes {
		if !ix.holds(key) || !ix.Ready {
			continue
		}
		keys, paths, err := ix.Form.Keys(doc, x.keys[:0])
		if err != nil {
			return fmt.Errorf("index %s: %w", ix.Name, err)
		}
		x.keys = keys
		x.paths[i], _ = x.paths[i].Union(paths)
		for _, k := range keys {
			x.want[i].add(x.entry(ix, k, key))
		}
	}
	return nil
}

// entry returns the entry for a key of a document; valid until the next call.
func (x *validation) entry(ix *Index, k schema.Key, record RecordKey) (key, value []byte) {
	x.buf, x.value = ix.appendEntry(x.buf[:0], x.value[:0], k, record)
	return x.buf, x.value
}

// window checks the place of one record among the windows, and adds up what
// its window should have.
func (x *validation) window(key RecordKey, doc bson.Doc) error {
	n := x.coll.sections.In(key)
	if x.coll.Open != 0 {
		n, err := measurements.CheckBucket(key, doc, x.coll.Settings.Timeseries, x.full)
		if x.measured += n; err != nil {
			return err
		}
	}
	if x.low.Dead(key) {
		return errors.New("its window of expiry is gone")
	}
	sums := x.windows[n]
	sums[windowDocs]++
	sums[windowSize] += int64(len(doc))
	sums[windowThird] += x.coll.sections.Third(doc, n)
	x.windows[n] = sums
	return nil
}

// windowSums compares the sums of the windows.
func (x *validation) windowSums() error {
	it, err := x.s.NewIter(storage.IdentWindows, windowKey(nil, x.coll.Ident, 0), identKey(x.coll.Ident+1))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		var got [windowSums]int64
		if err := storage.Sums(v, got[:]); err != nil {
			return err
		}
		n := RecordKey(it.Key()[len(it.Key())-layout.SectionBytes:]).Section()
		want := x.windows[n]
		if x.coll.sections.Marks() && got[windowThird] > 0 {
			want[windowThird] = got[windowThird] // the mark stays when the documents are removed
		}
		if got != want {
			x.fail("the window of expiry %x has sums %v, but its documents have %v", n, got, want)
		}
		delete(x.windows, n)
	}
	for n, want := range x.windows {
		x.fail("the window of expiry %x has no sums, but its documents have %v", n, want)
	}
	return it.Err()
}

// index checks the entries of one index.
func (x *validation) index(i int, ix *Index) error {
	r := IndexValidation{Index: ix, Valid: true}
	fail := func(format string, args ...any) {
		r.Valid = false
		if len(r.Errors) < maxFindings {
			r.Errors = append(r.Errors, fmt.Sprintf(format, args...))
		}
	}
	defer func() { x.v.Indexes = append(x.v.Indexes, r) }()
	if !ix.hasEntries() {
		r.Keys = x.v.Records
		return nil
	}
	if ix.OnPlace != nil && ix.Unique {
		if err := x.placesUnique(ix, fail); err != nil {
			return err
		}
	}
	got, err := x.entries(ix, fail)
	if err != nil {
		return err
	}
	r.Keys = got.n
	if ix.ByPrefix != nil && x.coll.relay != nil {
		r.Keys += x.windows[layout.ByIDSection][windowDocs]
	}
	if ix.OnPlace != nil {
		r.Keys += x.placed
	}
	stored, err := readPaths(x.s, ix.Ident)
	if err != nil {
		return err
	}
	if _, more := stored.Union(x.paths[i]); more {
		fail("index %s: documents have arrays on paths that are not marked multikey", ix.Name)
	}
	if got == x.want[i] {
		return nil
	}
	fail("index %s: the %d entries do not match the %d keys of the documents", ix.Name, got.n, x.want[i].n)
	return x.differences(ix)
}

// entries walks an index.
func (x *validation) entries(ix *Index, fail func(string, ...any)) (got fingerprint, err error) {
	it, err := x.s.NewIter(ix.Ident, nil, nil)
	if err != nil {
		return got, err
	}
	defer it.Close()
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		if got.n%validateCheckDocs == 0 && x.ctx.Err() != nil {
			return got, context.Cause(x.ctx)
		}
		v, err := it.Value()
		if err != nil {
			return got, err
		}
		key, record, bits := ix.Split(x.record[:0], it.Key(), v)
		if record == nil {
			got.add(it.Key(), v)
			fail("index %s: entry %x is damaged", ix.Name, it.Key())
			continue
		}
		if x.low.Dead(record) {
			continue // dead
		}
		got.add(it.Key(), v)
		if x.full {
			if err := wellFormed(ix, schema.Key{Bytes: key, TypeBits: bits}); err != nil {
				fail("index %s: entry %x: %v", ix.Name, it.Key(), err)
			}
			if err := x.onePlace(ix, key); err != nil {
				fail("index %s: entry %x: %v", ix.Name, it.Key(), err)
			}
		}
		if ix.Unique || ix.IsID() {
			if last != nil && bytes.Equal(key, last) {
				fail("index %s is unique, but several documents have key %x", ix.Name, key)
			}
			last = append(last[:0], key...)
		}
	}
	return got, it.Err()
}

// placesUnique looks for keys of a unique index that several documents have, of which one at
// least is an entry as a record.
func (x *validation) placesUnique(ix *Index, fail func(string, ...any)) error {
	it, err := x.coll.EntryIter(x.s, ix, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	var last []byte
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		if n%validateCheckDocs == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		key, record, _, doc := x.coll.SplitEntry(x.record[:0], ix, it, v)
		if record == nil {
			continue // reported with the record or the entry
		}
		x.record = record
		if doc != nil && last != nil && bytes.Equal(key, last) {
			fail("index %s is unique, but several documents have key %x", ix.Name, key)
		}
		last = append(last[:0], key...)
	}
	return it.Err()
}

// onePlace reports that a document in a window is also stored by its _id (invariant
// one-place).
func (x *validation) onePlace(ix *Index, id []byte) error {
	if ix.ByPrefix == nil || x.coll.relay == nil {
		return nil
	}
	_, closer, err := x.s.Get(x.coll.Ident, id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	closer.Close()
	return errors.New("there is also a record under that _id")
}

// differences lists which entries are missing and which are extra.
func (x *validation) differences(ix *Index) error {
	docs, err := x.s.NewIter(x.coll.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer docs.Close()
	for ok := docs.First(); ok && len(x.v.MissingEntries) < maxFindings; ok = docs.Next() {
		doc, err := docs.Value()
		if err != nil {
			return err
		}
		if !ix.holds(docs.Key()) {
			continue
		}
		keys, _, err := ix.Form.Keys(doc, nil)
		if err != nil {
			continue // reported with the document
		}
		for _, k := range keys {
			entry, want := x.entry(ix, k, docs.Key())
			v, closer, err := x.s.Get(ix.Ident, entry)
			if err == nil {
				same := bytes.Equal(v, want)
				closer.Close()
				if same {
					continue
				}
			} else if !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			x.v.MissingEntries = append(x.v.MissingEntries, Finding{ix, cloneKey(k), bytes.Clone(docs.Key())})
		}
	}
	if err := docs.Err(); err != nil {
		return err
	}
	return x.extra(ix)
}

// extra lists the entries whose document does not have the key.
func (x *validation) extra(ix *Index) error {
	it, err := x.s.NewIter(ix.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok && len(x.v.ExtraEntries) < maxFindings; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		key, record, bits := ix.Split(nil, it.Key(), v)
		if x.low.Dead(record) {
			continue
		}
		has, err := x.documentHas(ix, record, key)
		if err != nil {
			return err
		}
		if !has {
			x.v.ExtraEntries = append(x.v.ExtraEntries, Finding{ix, cloneKey(schema.Key{Bytes: key, TypeBits: bits}), bytes.Clone(record)})
		}
	}
	return it.Err()
}

func (x *validation) documentHas(ix *Index, record RecordKey, key []byte) (bool, error) {
	doc, closer, err := x.s.Get(x.coll.Ident, record)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	keys, _, err := ix.Form.Keys(doc, nil)
	if err != nil {
		return true, nil // reported with the document
	}
	for _, k := range keys {
		if bytes.Equal(k.Bytes, key) {
			return true, nil
		}
	}
	return false, nil
}

func cloneKey(k schema.Key) schema.Key {
	return schema.Key{Bytes: bytes.Clone(k.Bytes), TypeBits: bytes.Clone(k.TypeBits)}
}

// wellFormed reports whether a key's bytes match its parts.
func wellFormed(ix *Index, k schema.Key) error {
	if ix.Collation != nil {
		return nil // holds collation keys, which decode to nothing
	}
	_, rest, err := keystring.Decode(k.Bytes, k.TypeBits, ix.Form.Directions())
	if err == nil && len(rest) != 0 {
		err = errors.New("the key has too many parts")
	}
	return err
}

// counts checks the durable counter in the same snapshot.
func (x *validation) counts() error {
	docs, size, err := storage.ReadCounter(x.s, x.coll.Ident)
	if err != nil {
		return err
	}
	if docs != x.v.Records {
		x.fail("the count is %d, but there are %d documents", docs, x.v.Records)
	}
	if size != x.size {
		x.fail("the data size is %d, but the documents have %d bytes", size, x.size)
	}
	if x.coll.Open != 0 {
		if err := x.open(); err != nil {
			return err
		}
	}
	if x.coll.sections != nil {
		return x.windowSums()
	}
	return nil
}

// open checks the measurements that are in no bucket, and the counts of all.
func (x *validation) open() error {
	records := 0
	count, size, err := measurements.CheckOpen(x.s, x.coll.Open, x.coll.Settings.Timeseries, maxStoredDepth, func() error {
		if records++; records%validateCheckDocs == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		return nil
	}, func(key []byte, err error) {
		x.v.InvalidDocuments++
		x.fail("open measurements %x: %v", key, err)
	})
	if err != nil {
		return err
	}
	counted, bytes, err := storage.ReadCounter(x.s, x.coll.Open)
	if err != nil {
		return err
	}
	if counted != count+x.measured {
		x.fail("the count is %d, but there are %d measurements in buckets and %d in none", counted, x.measured, count)
	}
	if bytes != size {
		x.fail("the size of the measurements in no bucket is %d, but they have %d bytes", bytes, size)
	}
	return nil
}
