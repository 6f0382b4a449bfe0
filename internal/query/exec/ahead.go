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

// ahead reads a cursor in a goroutine of its own, for a stage that takes in
// everything anyway: the store and the stage work at the same time. What few
// documents there are in most collections it reads without one.
type ahead struct {
	in   pipeline.Iterator
	keep []string // the fields that the pipeline reads; nil: all

	direct int         // documents that were read without a goroutine
	full   chan []byte // nil until it runs; closed when it ends
	empty  chan []byte
	cancel context.CancelCauseFunc
	over   bool // full is known to be closed, and what follows is valid

	err      error
	panicked any

	block []byte // documents one after the other
	at    int
}

const (
	// aheadAfter is how many documents are read before a goroutine is worth it.
	aheadAfter = 500
	// aheadBlock is about how many bytes of documents are handed on at once.
	aheadBlock = 64 << 10
	// aheadBlocks is how many blocks may wait.
	aheadBlocks = 3
)

// mayReadAhead says whether a pipeline over q takes in all that q finds before
// it delivers anything, and whether the two share nothing while they run:
// collators keep memory, JavaScript its variables.
func mayReadAhead(q *Query, rest *pipeline.Pipeline) bool {
	return q.Collator == nil && rest.Drains() && len(rest.Meta()) == 0 && !q.Tailable && !evaluates(q.Filter.Root())
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

var errNotWanted = errors.New("exec: what is read ahead is not wanted any more")

// Next returns the next document.
func (a *ahead) Next(ctx context.Context) (bson.Doc, error) {
	if a.full == nil {
		if a.direct < aheadAfter {
			d, err := a.in.Next(ctx)
			if a.direct++; len(d) > aheadBlock {
				a.direct = 0 // a few of these would be more than what is read ahead otherwise
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

// recycle hands the block that was read back.
func (a *ahead) recycle() {
	// A few large documents do not make all blocks large.
	if cap(a.block) > 0 && cap(a.block) <= 2*aheadBlock {
		select {
		case a.empty <- a.block[:0]:
		default:
		}
	}
	a.block, a.at = nil, 0
}

// start begins to read in a goroutine, which stop waits for.
func (a *ahead) start(ctx context.Context) {
	a.full, a.empty = make(chan []byte, aheadBlocks), make(chan []byte, aheadBlocks)
	ctx, a.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(a.full)
		defer func() { a.panicked = recover() }()
		a.err = a.read(ctx)
	}()
}

// ended is what Next has to say at the end. A panic goes on in the goroutine of
// the command, which knows whose it is.
func (a *ahead) ended() error {
	if p := a.panicked; p != nil {
		a.panicked = nil
		panic(p)
	}
	return a.err
}

// read fills block after block.
func (a *ahead) read(ctx context.Context) error {
	for {
		var block []byte
		select {
		case block = <-a.empty:
		default:
			block = make([]byte, 0, aheadBlock+aheadBlock/4)
		}
		block, err := a.fill(ctx, block)
		if len(block) > 0 {
			select {
			case a.full <- block:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil || len(block) < aheadBlock {
			return err
		}
	}
}

// fill reads documents into a block: less than aheadBlock at the end. To leave
// out fields that nobody reads takes time, which the reader has where blocks
// wait for the stage.
func (a *ahead) fill(ctx context.Context, block []byte) ([]byte, error) {
	var b bson.Builder
	narrow := a.keep != nil && len(a.full) > 1
	for len(block) < aheadBlock {
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
func (a *ahead) stop() {
	if a.full == nil || a.over {
		return
	}
	a.cancel(errNotWanted)
	for range a.full {
	}
	a.over, a.block, a.at = true, nil, 0
	if a.err == nil {
		a.err = errNotWanted
	}
}

// Close ends the reading.
func (a *ahead) Close() {
	a.stop()
	a.in.Close()
}
