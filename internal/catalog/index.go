package catalog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Index is one state of an index of a collection. Immutable except for its live
// state: multikey paths and use counts.
type Index struct {
	*schema.Index
	// Form is the index by which entries are made: the index itself or, for a
	// time-series collection, its form for buckets; nil if there are no entries.
	Form *schema.Index
	// Ident is the keyspace of the entries. Where it is the collection's, Records is true:
	// for the index on _id of a collection that is clustered by _id, and for one on the
	// shard key by which a collection lies, if that begins with a hashed field.
	Ident storage.Ident
	// Records says that the records are the entries, and the values documents: the keys are
	// record keys or, where OnPlace, record keys without layout.First.
	Records bool
	// OnPlace, where not nil, says that this is an index on the shard key by which the
	// collection lies, by this layout: the entries are the records and, where not Records, those
	// that documents have in Ident which the layout sets apart.
	OnPlace *layout.ByKey
	// ByPrefix, where not nil, says that this is the index on _id of a collection whose
	// record keys end in the key string of _id: an entry has what precedes that, by this
	// layout, as value.
	ByPrefix layout.Layout
	// Ready says that a build has ended; only then may a plan use the index.
	Ready bool

	live *indexLive
	top  []string // the first components of the paths, where only they decide the keys; else nil
}

// indexLive is the live state that all descriptors of an index share.
type indexLive struct {
	dropped  atomic.Bool
	accesses atomic.Int64
	since    atomic.Int64 // when accesses were counted from, in milliseconds since 1970
	build    *build       // while it is built

	multikey struct {
		sync.Mutex
		shown   atomic.Pointer[schema.MultikeyPaths] // what plans see
		durable atomic.Pointer[schema.MultikeyPaths] // what commits have stored
	}
}

// newIndex makes an index of a collection; served says that it is OnPlace.
func newIndex(c *Collection, ix *schema.Index, ident storage.Ident, served, ready bool) (*Index, error) {
	n := &Index{Ident: ident, Records: ident == c.Ident, Ready: ready, live: &indexLive{}}
	if err := n.describe(c, ix); err != nil {
		return nil, err
	}
	if served {
		n.OnPlace = c.layout.(*layout.ByKey)
	}
	n.live.resetUse()
	return n, nil
}

// describe sets the fields that follow from the specification.
func (ix *Index) describe(c *Collection, s *schema.Index) (err error) {
	ix.Index, ix.Form = s, s
	if c.IsTimeseries() {
		if ix.Form, err = c.Settings.Timeseries.BucketForm(s); err != nil {
			return err
		}
	}
	ix.top = nil
	if ix.Form != nil {
		ix.top = topFields(ix.Form)
	}
	return nil
}

// hasEntries reports whether the index has its own keyspace, with entries.
func (ix *Index) hasEntries() bool { return !ix.Records && ix.Form != nil }

// Clusters reports whether the index is the order by which the records are clustered: it
// is never dropped.
func (ix *Index) Clusters() bool { return ix.Records && ix.OnPlace == nil }

// HasDocuments reports whether a walk of the index comes by the documents.
func (ix *Index) HasDocuments() bool { return ix.Records || ix.OnPlace != nil }

// holds reports whether the index has entries of a document with a record key: the
// index on _id has none for documents that are stored by _id, and one on the shard key by which
// the collection lies has some for documents that are set apart.
func (ix *Index) holds(record RecordKey) bool {
	return ix.hasEntries() && !(ix.ByPrefix != nil && record.OfID()) && !(ix.OnPlace != nil && !record.Apart())
}

// drop ends the index, and its build if there is one.
func (l *indexLive) drop() {
	l.dropped.Store(true)
	if l.build != nil {
		l.build.abort(errDropped)
	}
}

// resetUse resets the access count, as hiding and unhiding an index does.
func (l *indexLive) resetUse() {
	l.accesses.Store(0)
	l.since.Store(time.Now().UnixMilli())
}

// topFields returns the fields of a document on which the keys in ix depend;
// nil if they may depend on all.
func topFields(ix *schema.Index) []string {
	if ix.Plugin != "" && ix.Plugin != "hashed" || ix.Filter != nil {
		return nil
	}
	var top []string
	for _, p := range ix.Parts {
		top = append(top, p.Components[0])
	}
	return top
}

// unique reports whether two documents may not have a key in common.
func (ix *Index) unique() bool { return ix.Unique || ix.PrepareUnique || ix.IsID() || ix.Clusters() }

// Multikey returns the paths that hold arrays, nil for none. Take the snapshot
// first (invariant multikey-first).
func (ix *Index) Multikey() schema.MultikeyPaths { return load(&ix.live.multikey.shown) }

// MarkUsed counts one access, for $indexStats.
func (ix *Index) MarkUsed() { ix.live.accesses.Add(1) }

// Used returns the accesses counted, and since when.
func (ix *Index) Used() (accesses int64, since time.Time) {
	return ix.live.accesses.Load(), time.UnixMilli(ix.live.since.Load())
}

// Check returns nil while the index exists, else error 175 as a cursor reports it.
func (ix *Index) Check() error {
	if ix.live.dropped.Load() {
		return mongoerr.New(mongoerr.QueryPlanKilled, "index '%s' dropped", ix.Name)
	}
	return nil
}

func load(p *atomic.Pointer[schema.MultikeyPaths]) schema.MultikeyPaths {
	if m := p.Load(); m != nil {
		return *m
	}
	return nil
}

// storedMultikey says that paths are durable already, so that a unit need not
// write them.
func (l *indexLive) storedMultikey(paths schema.MultikeyPaths) bool {
	_, more := load(&l.multikey.durable).Union(paths)
	return !more
}

func (l *indexLive) addMultikey(p *atomic.Pointer[schema.MultikeyPaths], paths schema.MultikeyPaths) {
	l.multikey.Lock()
	defer l.multikey.Unlock()
	if all, more := load(p).Union(paths); more {
		p.Store(&all)
	}
}
