package readahead

import (
	"context"
	"errors"
	"sync"
)

const (
	// LeastRows is how many more rows must be expected for a Background to pay.
	LeastRows = 2 * backgroundRows
	// backgroundSure is how many more entries there must be before a goroutine is
	// started: waking another processor takes as long as hundreds of entries.
	backgroundSure = 128
	// backgroundRows is the most entries in a batch.
	backgroundRows = 512
	// backgroundFirst is the size of the first batch: the reader is waiting for it.
	backgroundFirst = 128
	// backgroundBytes is about what a batch of short keys takes. maxBackgroundBytes
	// bounds a batch of long ones, which may exceed it by one entry.
	backgroundBytes, maxBackgroundBytes = 24 * backgroundRows, 4 * 24 * backgroundRows
	// backgroundBuffers bounds the batches of a scan. There are several because waiting
	// for the reader and waking up takes longer than filling several.
	backgroundBuffers = 8
	// backgroundReturned is how many batches go back at once, for the same reason.
	backgroundReturned = backgroundBuffers / 2
)

// errStopped ends a goroutine whose reader is done.
var errStopped = errors.New("readahead: the reader has stopped")

// Background reads the entries of a scan in a goroutine, while its owner reads the
// documents of earlier entries. Until Stop or Close, the scan must not be used otherwise.
type Background struct {
	scan      Scan
	rows      int64       // to read; -1: all
	full      chan *Batch // closed at the end; err and panicked are valid then
	empty     chan *Batch // nil: allocate one
	used      []*Batch    // to return to empty
	cancel    context.CancelCauseFunc
	unordered bool // records were not in ascending order
	err       error
	panicked  any
}

// batchPool keeps batches for the next scan.
var batchPool = sync.Pool{New: func() any {
	return &Batch{rows: make([]row, 0, backgroundRows), entries: make([]byte, 0, backgroundBytes)}
}}

// returnBatch gives a batch back to batchPool.
func returnBatch(b *Batch) {
	if b != nil && cap(b.rows) == backgroundRows && cap(b.entries) <= maxBackgroundBytes { // keys may be long
		b.Clear()
		batchPool.Put(b)
	}
}

// StartBackground reads the next entries of scan into b and leaves the rest to a
// goroutine, which wakes up at the same time. rows is how many entries the reader is
// expected to ask for, -1 if that is not known. The scan has begun, so that the
// goroutine touches none of its counters. Nil where the scan ends before a goroutine
// is worth it.
func StartBackground(ctx context.Context, scan Scan, b *Batch, rows int64) (*Background, error) {
	if cap(b.rows) == 0 {
		*b = *batchPool.Get().(*Batch)
	}
	b.Clear()
	if err := scan.Read(ctx, b, backgroundSure, maxBackgroundBytes); err != nil || b.Tail > 0 {
		return nil, err
	}
	s := &Background{scan: scan, rows: rows, full: make(chan *Batch, backgroundBuffers), empty: make(chan *Batch, backgroundBuffers)}
	// Not the command's context: the reader checks that one.
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.cancel = cancel
	go func() {
		defer close(s.full)
		defer func() { s.panicked = recover() }()
		s.err = s.run(detached)
	}()
	if err := scan.Read(ctx, b, backgroundRows, maxBackgroundBytes); err != nil || b.Tail > 0 {
		s.cancel(errStopped)
		return s, err
	}
	if s.rows > 0 {
		s.rows -= int64(b.Len())
	}
	for range backgroundBuffers {
		s.empty <- nil // from here on the goroutine owns the scan
	}
	return s, nil
}

// run fills batches until all rows are read, or there are no more.
func (s *Background) run(ctx context.Context) error {
	for n := backgroundFirst; ; n = min(2*n, backgroundRows) {
		var b *Batch
		select {
		case b = <-s.empty:
		case <-ctx.Done():
			return nil
		}
		if s.rows >= 0 {
			if n = int(min(s.rows, int64(n))); n == 0 {
				return nil
			}
		}
		if b == nil {
			b = batchPool.Get().(*Batch)
		}
		b.Clear()
		err := s.scan.Read(ctx, b, n, maxBackgroundBytes)
		over := err != nil || b.Tail > 0
		if s.rows > 0 {
			s.rows -= int64(b.Len())
		}
		s.full <- b // never waits
		if over {
			return err
		}
	}
}

// Take puts the next batch in the place of b; false at the end, or where ctx ends
// before there is one. The end comes behind a batch whose records do not rise.
func (s *Background) Take(ctx context.Context, b *Batch) (bool, error) {
	var next *Batch
	select {
	case next = <-s.full:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if next == nil {
		if s.panicked != nil {
			panic(s.panicked) // on the command's goroutine, which handles it
		}
		if errors.Is(s.err, errStopped) {
			return false, nil
		}
		return false, s.err
	}
	if !next.Rising {
		s.unordered = true
		s.cancel(errStopped)
	}
	*b, *next = *next, *b
	if s.used = append(s.used, next); len(s.used) == backgroundReturned {
		for _, b := range s.used {
			s.empty <- b // never waits
		}
		s.used = s.used[:0]
	}
	return true, nil
}

// Stop ends the goroutine. The batch at hand stays.
func (s *Background) Stop() {
	s.cancel(errStopped)
	for b := range s.full {
		returnBatch(b)
	}
}

// Close ends the goroutine, and releases the memory of all batches, that of b, which
// is the one at hand, among them.
func (s *Background) Close(b *Batch) {
	s.Stop()
	for len(s.empty) > 0 {
		returnBatch(<-s.empty)
	}
	for _, b := range s.used {
		returnBatch(b)
	}
	s.used = nil
	last := *b
	returnBatch(&last)
	*b = Batch{Rising: !s.unordered}
}
