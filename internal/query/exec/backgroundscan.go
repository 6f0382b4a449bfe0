package exec

import (
	"context"
	"errors"
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// backgroundAfter is how many documents are read one by one, with their records in
	// rising order, before a background scan may start, and backgroundSure how many more
	// entries there must be: to wake another processor takes as long as hundreds of them.
	backgroundAfter, backgroundSure = 128, 128
	// backgroundLeast is how many more rows must be expected for it to pay.
	backgroundLeast = 2 * backgroundRows
	// backgroundRows is the most entries in a batch.
	backgroundRows = 512
	// backgroundFirst is the size of the first batch: the reader is waiting for it.
	backgroundFirst = 128
	// backgroundBytes is about what a batch of short keys takes. maxBackgroundBytes
	// bounds a batch of long ones, which may exceed it by one entry.
	backgroundBytes, maxBackgroundBytes = 24 * backgroundRows, 4 * 24 * backgroundRows
	// backgroundBuffers bounds the batches of a scan. There are so many because to wait
	// for the reader and to be woken again takes longer than to fill several.
	backgroundBuffers = 8
	// backgroundReturned is how many batches go back at once, for the same reason.
	backgroundReturned = backgroundBuffers / 2
)

// backgroundScan reads the entries of a scan in a goroutine, while its owner reads
// the documents of earlier entries. Until it ends, nobody else uses the scan.
type backgroundScan struct {
	scan      *indexScan
	low       catalog.Gone
	rowsLeft  int64            // to read; -1: all
	full      chan *entryBatch // closed at the end; out is valid then
	empty     chan *entryBatch // nil: allocate one
	used      []*entryBatch    // to go back to empty
	cancel    context.CancelCauseFunc
	unordered bool // records did not come in rising order
	out       outcome
}

// batchPool keeps batches for the next scan.
var batchPool = sync.Pool{New: func() any {
	return &entryBatch{rows: make([]batchEntry, 0, backgroundRows), entries: make([]byte, 0, backgroundBytes)}
}}

// returnBatch gives a batch back to batchPool.
func returnBatch(g *entryBatch) {
	if g != nil && cap(g.rows) == backgroundRows && cap(g.entries) <= maxBackgroundBytes { // keys may be long
		g.clear()
		batchPool.Put(g)
	}
}

// rowsLeft is how many more rows the reader is expected to ask for; -1 if that is
// not known.
func (a *prefetch) rowsLeft() int64 {
	n := int64(-1)
	if a.rowLimit > 0 {
		n = a.rowLimit - a.before - a.delivered
	}
	likely := int64(-1)
	switch {
	case a.batch > 0:
		likely = max(0, a.batch-a.delivered)
	case a.delivered < a.expected:
		likely = a.expected - a.delivered
	case a.expected > prefetchAfter:
		likely = a.delivered / prefetchSlow
	}
	if n < 0 || likely >= 0 && likely < n {
		n = likely
	}
	return n
}

// mayScanInBackground says whether a background scan pays now.
func (a *prefetch) mayScanInBackground() bool {
	if !a.parallelizable || a.delivered < backgroundAfter || !a.rising || a.scan == nil || a.scan.ended || !a.scan.isPlain() {
		return false
	}
	if n := a.rowsLeft(); n >= 0 && n < backgroundLeast {
		return false
	}
	_, ok := a.scan.source.reader.(*storage.Snapshot)
	return ok
}

// startBackground reads some entries and leaves the rest to a goroutine, which wakes
// up meanwhile. The scan has begun (mayScanInBackground), so the goroutine touches none
// of its counters.
func (a *prefetch) startBackground(ctx context.Context) error {
	b := &backgroundScan{scan: a.scan, low: a.scan.source.low, rowsLeft: a.rowsLeft()}
	if cap(a.rows) == 0 {
		a.entryBatch = *batchPool.Get().(*entryBatch)
	}
	a.clear()
	a.docs = a.docs[:0]
	if err := a.readPlain(ctx, a.scan, b.low, backgroundSure, maxBackgroundBytes); err != nil || a.end.works > 0 {
		return err
	}
	a.background = b
	b.full, b.empty = make(chan *entryBatch, backgroundBuffers), make(chan *entryBatch, backgroundBuffers)
	// Not the command's context: the reader checks that one.
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.cancel = cancel
	go func() {
		defer close(b.full)
		defer func() { b.out.panicked = recover() }()
		b.out.err = b.run(detached)
	}()
	if err := a.readPlain(ctx, a.scan, b.low, backgroundRows, maxBackgroundBytes); err != nil || a.end.works > 0 {
		b.cancel(errReaderStopped)
		return err
	}
	if b.rowsLeft > 0 {
		b.rowsLeft -= int64(len(a.rows))
	}
	for range backgroundBuffers {
		b.empty <- nil // from here on the goroutine has the scan
	}
	return nil
}

// run fills batch after batch until rowsLeft entries are read, or there are no more.
func (b *backgroundScan) run(ctx context.Context) error {
	for n := backgroundFirst; ; n = min(2*n, backgroundRows) {
		var g *entryBatch
		select {
		case g = <-b.empty:
		case <-ctx.Done():
			return nil
		}
		if b.rowsLeft >= 0 {
			if n = int(min(b.rowsLeft, int64(n))); n == 0 {
				return nil
			}
		}
		if g == nil {
			g = batchPool.Get().(*entryBatch)
		}
		g.clear()
		err := g.readPlain(ctx, b.scan, b.low, n, maxBackgroundBytes)
		over := err != nil || g.end.works > 0
		if b.rowsLeft > 0 {
			b.rowsLeft -= int64(len(g.rows))
		}
		b.full <- g // never waits
		if over {
			return err
		}
	}
}

// takeBackground takes over the next batch of the background scan; none at its end.
// The scan ends where records stop coming in rising order.
func (a *prefetch) takeBackground(ctx context.Context) error {
	b := a.background
	var g *entryBatch
	select {
	case g = <-b.full:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if g == nil {
		a.endBackground()
		if b.out.panicked != nil {
			panic(b.out.panicked) // on the command's goroutine, where it is handled
		}
		if errors.Is(b.out.err, errReaderStopped) {
			return nil
		}
		return b.out.err
	}
	if !g.rising {
		b.unordered = true
		b.cancel(errReaderStopped)
	}
	a.entryBatch, *g = *g, a.entryBatch
	a.docs, a.next = a.docs[:0], 0
	if b.used = append(b.used, g); len(b.used) == backgroundReturned {
		for _, g := range b.used {
			b.empty <- g // never waits
		}
		b.used = b.used[:0]
	}
	return nil
}

// stop ends the goroutine.
func (b *backgroundScan) stop() {
	b.cancel(errReaderStopped)
	for g := range b.full {
		returnBatch(g)
	}
}

// endBackground ends the goroutine, drops the rows, and gives back the memory of both.
func (a *prefetch) endBackground() {
	b := a.background
	if b == nil {
		return
	}
	b.stop()
	for len(b.empty) > 0 {
		returnBatch(<-b.empty)
	}
	for _, g := range b.used {
		returnBatch(g)
	}
	g := a.entryBatch
	returnBatch(&g)
	a.background, a.entryBatch, a.next = nil, entryBatch{rising: !b.unordered}, 0
}
