package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// asyncInput reads a cursor in a goroutine of its own, for a stage that consumes all
// of its input: the store and the stage work at the same time. The first asyncAfter
// documents are read without one; most inputs have no more.
type asyncInput struct {
	in   pipeline.Iterator
	keep []string // the fields that the pipeline reads; nil: all

	direct int         // documents read without a goroutine
	full   chan []byte // nil until it runs; closed when it ends
	empty  chan []byte
	cancel context.CancelCauseFunc
	over   bool // full is closed; what follows is valid

	err      error
	panicked any

	block []byte // documents one after the other
	at    int
}

const (
	// asyncAfter is how many documents are read before a goroutine is worth it.
	asyncAfter = 500
	// asyncBlock is about how many bytes of documents a block has.
	asyncBlock = 64 << 10
	// asyncBlocks bounds the blocks that wait for the reader.
	asyncBlocks = 3
)

// mayReadAsync says whether a pipeline over q consumes all that q finds before it
// delivers anything, and shares no state with q while both run: collators keep
// memory, JavaScript its variables.
func mayReadAsync(q *Query, rest *pipeline.Pipeline) bool {
	return q.Collator == nil && rest.ConsumesAll() && len(rest.Meta()) == 0 && !q.Tailable && !evaluates(q.Filter.Root())
}

// evaluates says whether a predicate has expressions or JavaScript in it.
func evaluates(n match.Node) bool {
	switch n := n.(type) {
	case *match.And:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Or:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Nor:
		return slices.ContainsFunc(n.Children, evaluates)
	case *match.Not:
		return evaluates(n.Child)
	case match.Leaf:
		return false
	}
	return true
}

var errReaderStopped = errors.New("exec: the reader has stopped")

// Next returns the next document.
func (a *asyncInput) Next(ctx context.Context) (bson.Doc, error) {
	if a.full == nil {
		if a.direct < asyncAfter {
			d, err := a.in.Next(ctx)
			if a.direct++; len(d) > asyncBlock {
				a.direct = 0 // large documents: a few would exceed what blocks hold
			}
			return d, err
		}
		a.start(ctx)
	}
	for a.at == len(a.block) {
		if a.over {
			return nil, a.ended()
		}
		a.recycle()
		var ok bool
		if a.block, ok = <-a.full; !ok {
			a.over = true
		}
	}
	d := a.block[a.at:]
	d = d[:binary.LittleEndian.Uint32(d)]
	a.at += len(d)
	return bson.Doc(d), nil
}

// recycle gives back the block that was read.
func (a *asyncInput) recycle() {
	// A few large documents do not make all blocks large.
	if cap(a.block) > 0 && cap(a.block) <= 2*asyncBlock {
		select {
		case a.empty <- a.block[:0]:
		default:
		}
	}
	a.block, a.at = nil, 0
}

// start starts the goroutine, which stop waits for.
func (a *asyncInput) start(ctx context.Context) {
	a.full, a.empty = make(chan []byte, asyncBlocks), make(chan []byte, asyncBlocks)
	ctx, a.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(a.full)
		defer func() { a.panicked = recover() }()
		a.err = a.read(ctx)
	}()
}

// ended is the result of Next at the end. A panic of the goroutine continues on the
// command's, where it is handled.
func (a *asyncInput) ended() error {
	if p := a.panicked; p != nil {
		a.panicked = nil
		panic(p)
	}
	return a.err
}

// read fills block after block.
func (a *asyncInput) read(ctx context.Context) error {
	for {
		var block []byte
		select {
		case block = <-a.empty:
		default:
			block = make([]byte, 0, asyncBlock+asyncBlock/4)
		}
		block, err := a.fill(ctx, block)
		if len(block) > 0 {
			select {
			case a.full <- block:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil || len(block) < asyncBlock {
			return err
		}
	}
}

// fill reads documents into a block: fewer than asyncBlock bytes at the end. It drops
// fields that nobody reads only while blocks wait for the stage: then it has the time.
func (a *asyncInput) fill(ctx context.Context, block []byte) ([]byte, error) {
	var b bson.Builder
	narrow := a.keep != nil && len(a.full) > 1
	for len(block) < asyncBlock {
		d, err := a.in.Next(ctx)
		if err != nil || d == nil {
			return block, err
		}
		if !narrow {
			block = append(block, d...)
			continue
		}
		n := len(block)
		block = append(block[:n], b.Reset(block[n:]).Only(d, a.keep).Finish()...)
	}
	return block, nil
}

// stop ends the goroutine.
func (a *asyncInput) stop() {
	if a.full == nil || a.over {
		return
	}
	a.cancel(errReaderStopped)
	for range a.full {
	}
	a.over, a.block, a.at = true, nil, 0
	if a.err == nil {
		a.err = errReaderStopped
	}
}

// Close ends the reading.
func (a *asyncInput) Close() {
	a.stop()
	a.in.Close()
}
