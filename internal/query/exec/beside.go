package exec

import (
	"context"
	"errors"
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// besideAfter is how many documents are read one by one before entries are
	// gathered beside them, where records come in rising order, and besideSure how
	// many more entries there must be: it takes as long as hundreds of them until
	// another processor is awake.
	besideAfter, besideSure = 128, 128
	// besideLeast is how many more must be expected for that.
	besideLeast = 2 * besideRows
	// besideRows is how many entries are handed on at once, at the most.
	besideRows = 512
	// besideFirst is how many entries are handed on first: the reader waits by then.
	besideFirst = 128
	// besideBytes is about how much they take, where keys are short, and
	// maxBesideBytes bounds it, but for one entry, where they are long.
	besideBytes, maxBesideBytes = 24 * besideRows, 4 * 24 * besideRows
	// besideBuffers is how many times that there may be. So many, since to wait for
	// the reader and to be woken again takes longer than to fill some of them.
	besideBuffers = 8
	// besideGiven is how many of them are given back at once, for the same reason.
	besideGiven = besideBuffers / 2
)

// beside gathers the entries of a scan in a goroutine, while the documents of
// those before are read. Until its end nobody else has the scan.
type beside struct {
	scan   *indexScan
	low    catalog.LowWater
	left   int64          // so many rows are wanted; -1: all
	full   chan *gathered // closed when it ends, and out is valid then
	empty  chan *gathered // nil stands for one that is yet to be made
	spent  []*gathered    // to be given back
	cancel context.CancelCauseFunc
	fell   bool // records did not rise
	out    outcome
}

// gatheredMemory is kept for the next scan.
var gatheredMemory = sync.Pool{New: func() any {
	return &gathered{rows: make([]gatheredRow, 0, besideRows), entries: make([]byte, 0, besideBytes)}
}}

// giveMemory is the end of what gatheredMemory lent.
func giveMemory(g *gathered) {
	if g != nil && cap(g.rows) == besideRows && cap(g.entries) <= maxBesideBytes { // keys may be long
		g.clear()
		gatheredMemory.Put(g)
	}
}

// left is how many more rows the reader is expected to ask for; -1: no end is
// known.
func (a *prefetch) left() int64 {
	n := int64(-1)
	if a.wanted > 0 {
		n = a.wanted - a.before - a.handed
	}
	likely := int64(-1)
	switch {
	case a.batch > 0:
		likely = max(0, a.batch-a.handed)
	case a.handed < a.expected:
		likely = a.expected - a.handed
	case a.expected > prefetchAfter:
		likely = a.handed / prefetchSlow
	}
	if n < 0 || likely >= 0 && likely < n {
		n = likely
	}
	return n
}

// mayBeside says whether to begin to gather entries beside documents.
func (a *prefetch) mayBeside() bool {
	if !a.apart || a.handed < besideAfter || !a.rising || a.scan == nil || a.scan.ended || !a.scan.isPlain() {
		return false
	}
	if n := a.left(); n >= 0 && n < besideLeast {
		return false
	}
	_, ok := a.scan.source.reader.(*storage.Snapshot)
	return ok
}

// begin gathers some entries, and leaves those behind them to a goroutine, which is
// woken meanwhile.
// The scan has begun (mayBeside), so that it counts nothing itself.
func (a *prefetch) begin(ctx context.Context) error {
	b := &beside{scan: a.scan, low: a.scan.source.low, left: a.left()}
	if cap(a.rows) == 0 {
		a.gathered = *gatheredMemory.Get().(*gathered)
	}
	a.clear()
	a.docs = a.docs[:0]
	if err := a.plain(ctx, a.scan, b.low, besideSure, maxBesideBytes); err != nil || a.end.works > 0 {
		return err
	}
	a.beside = b
	b.full, b.empty = make(chan *gathered, besideBuffers), make(chan *gathered, besideBuffers)
	// Not under the context of a command: the reader looks at that.
	apart, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.cancel = cancel
	go func() {
		defer close(b.full)
		defer func() { b.out.panicked = recover() }()
		b.out.err = b.gather(apart)
	}()
	if err := a.plain(ctx, a.scan, b.low, besideRows, maxBesideBytes); err != nil || a.end.works > 0 {
		b.cancel(errNotWanted)
		return err
	}
	if b.left > 0 {
		b.left -= int64(len(a.rows))
	}
	for range besideBuffers {
		b.empty <- nil // from now on it has the scan
	}
	return nil
}

// gather fills buffer after buffer until there are no more entries, or so many as
// are left.
func (b *beside) gather(ctx context.Context) error {
	for n := besideFirst; ; n = min(2*n, besideRows) {
		var g *gathered
		select {
		case g = <-b.empty:
		case <-ctx.Done():
			return nil
		}
		if b.left >= 0 {
			if n = int(min(b.left, int64(n))); n == 0 {
				return nil
			}
		}
		if g == nil {
			g = gatheredMemory.Get().(*gathered)
		}
		g.clear()
		err := g.plain(ctx, b.scan, b.low, n, maxBesideBytes)
		over := err != nil || g.end.works > 0
		if b.left > 0 {
			b.left -= int64(len(g.rows))
		}
		b.full <- g // never waits
		if over {
			return err
		}
	}
}

// takeBeside makes the rows those that were gathered beside next; none at the end
// of that. Where they do not rise, it is to end.
func (a *prefetch) takeBeside(ctx context.Context) error {
	b := a.beside
	var g *gathered
	select {
	case g = <-b.full:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if g == nil {
		a.free()
		if b.out.panicked != nil {
			panic(b.out.panicked) // in the goroutine of the command, which knows whose it is
		}
		if errors.Is(b.out.err, errNotWanted) {
			return nil
		}
		return b.out.err
	}
	if !g.rising {
		b.fell = true
		b.cancel(errNotWanted)
	}
	a.gathered, *g = *g, a.gathered
	a.docs, a.next = a.docs[:0], 0
	if b.spent = append(b.spent, g); len(b.spent) == besideGiven {
		for _, g := range b.spent {
			b.empty <- g // never waits
		}
		b.spent = b.spent[:0]
	}
	return nil
}

// stop ends the goroutine.
func (b *beside) stop() {
	b.cancel(errNotWanted)
	for g := range b.full {
		giveMemory(g)
	}
}

// free ends the goroutine, and gives up the rows, and the memory of both.
func (a *prefetch) free() {
	b := a.beside
	if b == nil {
		return
	}
	b.stop()
	for len(b.empty) > 0 {
		giveMemory(<-b.empty)
	}
	for _, g := range b.spent {
		giveMemory(g)
	}
	g := a.gathered
	giveMemory(&g)
	a.beside, a.gathered, a.next = nil, gathered{rising: !b.fell}, 0
}
