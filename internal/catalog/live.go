package catalog

import (
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/storage"
)

// live is the live state that all descriptors of a collection share.
type live struct {
	id storage.Ident // the order in which gates are closed
	// gate is held for reading by units that write to the collection, from their
	// first write to their end, and for writing by DDL on it (invariant latest). A
	// unit that holds anything may only try to enter: see Unit.enter.
	gate    gate
	current atomic.Pointer[Collection]
	dropped atomic.Bool
	// changed is the number of the change that has published the current descriptor, of all
	// changes of the catalog.
	changed atomic.Uint64
	// learned is state of the executor that lives as long as the collection.
	learned atomic.Value
	counter *storage.Counter // nil if there are no records
	// measurements are the open ones of a time-series collection, else nil. staging is
	// held for reading by units that stage some, to their end, and for writing by the
	// one that freezes all. It is closed inside gate.
	measurements *measurements.Table
	staging      gate

	// Collections with windows of expiry. lowWater rises while the gate is closed,
	// so it is correct for units inside the gate; readers use that of their state.
	lowWater  layout.Mark
	byID      atomic.Pointer[string] // see layout.Gone; nil for none
	hints     *windowHints           // those of the catalog
	dropping  sync.Mutex             // held by DropWindows
	thinned   thinned                // guarded by dropping
	dropWatch atomic.Pointer[dropWatch]
	listWatch atomic.Pointer[listWatch]
	// writeWatch is that of a WindowReader; nil for none.
	writeWatch atomic.Pointer[writeWatch]
	swept      layout.Mark
	dead       atomic.Int64 // estimate of removed documents with dead entries
	sweeping   sync.Mutex   // held for each step of a sweep, as there is only one watch
	watch      atomic.Pointer[sweepWatch]

	// Capped collections; both change under the keyspace's lock.
	lastSeq  atomic.Int64 // the newest record's sequence number
	firstSeq atomic.Int64 // no record is below it
	arrivals Notifier     // notified when documents become visible

	// Collections that have had a relayout in this process; see relaid.go,
	// relayout.go.
	relaid  atomic.Pointer[relaid]
	relayed atomic.Pointer[RecordKey] // up to here the records have moved, about; nil if not known
	laying  sync.Mutex                // held by RelayPart
	leaving atomic.Pointer[leaveWatch]

	numbering Numbering
}

// gone returns what has been removed in the current state of the collection.
func (l *live) gone() Gone {
	g := Gone{Low: l.lowWater.Load()}
	if p := l.byID.Load(); p != nil {
		g.ByID = *p
	}
	return g
}

// state returns the current state of the collection's sections.
func (l *live) state() layout.State {
	g := l.gone()
	return layout.State{Low: g.Low, Swept: l.swept.Load(), ByID: g.ByID}
}

// setState sets the state of the collection's sections.
func (l *live) setState(s layout.State) {
	l.lowWater.Store(s.Low)
	l.swept.Store(s.Swept)
	l.byID.Store(&s.ByID)
}
