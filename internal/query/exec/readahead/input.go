package readahead

import (
	"context"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// Input reads a cursor in a separate goroutine, for a pipeline that consumes all of
// its input, so that the store and the pipeline work at the same time. The first
// inputAfter documents are read without the goroutine; most inputs have no more.
type Input struct {
	in   pipeline.Iterator
	keep []string // the fields that the pipeline reads; nil: all

	direct int         // documents read without a goroutine
	full   chan []byte // nil until it runs; closed when it ends
	empty  chan []byte
	cancel context.CancelCauseFunc
	over   bool // full is closed; what follows is valid

	err      error
	panicked any

	block []byte // concatenated documents
	at    int
}

const (
	// inputAfter is how many documents are read before a goroutine is started.
	inputAfter = 500
	// inputBlock is the approximate size of a block, in bytes.
	inputBlock = 64 << 10
	// inputBlocks bounds the blocks that wait for the reader.
	inputBlocks = 3
)

// NewInput makes an Input of in, of whose documents only the fields keep are needed;
// nil: all.
func NewInput(in pipeline.Iterator, keep []string) *Input { return &Input{in: in, keep: keep} }

// Next returns the next document, valid until the following call; nil at the end.
func (s *Input) Next(ctx context.Context) (bson.Doc, error) {
	if s.full == nil {
		if s.direct < inputAfter {
			d, err := s.in.Next(ctx)
			if s.direct++; len(d) > inputBlock {
				s.direct = 0 // large documents: a few would exceed a block
			}
			return d, err
		}
		s.start(ctx)
	}
	for s.at == len(s.block) {
		if s.over {
			return nil, s.ended()
		}
		s.recycle()
		var ok bool
		if s.block, ok = <-s.full; !ok {
			s.over = true
		}
	}
	d := s.block[s.at:]
	d = d[:binary.LittleEndian.Uint32(d)]
	s.at += len(d)
	return bson.Doc(d), nil
}

// recycle returns the block that was read.
func (s *Input) recycle() {
	// Keeps a few large documents from making all blocks large.
	if cap(s.block) > 0 && cap(s.block) <= 2*inputBlock {
		select {
		case s.empty <- s.block[:0]:
		default:
		}
	}
	s.block, s.at = nil, 0
}

// start starts the goroutine, which Stop waits for.
func (s *Input) start(ctx context.Context) {
	s.full, s.empty = make(chan []byte, inputBlocks), make(chan []byte, inputBlocks)
	ctx, s.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(s.full)
		defer func() { s.panicked = recover() }()
		s.err = s.read(ctx)
	}()
}

// ended is the result of Next at the end. A panic of the goroutine continues on the
// command's goroutine, which handles it.
func (s *Input) ended() error {
	if p := s.panicked; p != nil {
		s.panicked = nil
		panic(p)
	}
	return s.err
}

// read fills block after block.
func (s *Input) read(ctx context.Context) error {
	for {
		var block []byte
		select {
		case block = <-s.empty:
		default:
			block = make([]byte, 0, inputBlock+inputBlock/4)
		}
		block, err := s.fill(ctx, block)
		if len(block) > 0 {
			select {
			case s.full <- block:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil || len(block) < inputBlock {
			return err
		}
	}
}

// fill reads documents into a block: fewer than inputBlock bytes at the end. It drops
// unread fields only while blocks wait for the stage: then it has time.
func (s *Input) fill(ctx context.Context, block []byte) ([]byte, error) {
	var b bson.Builder
	narrow := s.keep != nil && len(s.full) > 1
	for len(block) < inputBlock {
		d, err := s.in.Next(ctx)
		if err != nil || d == nil {
			return block, err
		}
		if !narrow {
			block = append(block, d...)
			continue
		}
		n := len(block)
		block = append(block[:n], b.Reset(block[n:]).Only(d, s.keep).Finish()...)
	}
	return block, nil
}

// Stop ends the goroutine, so that the caller may read the cursor. What it has read
// is lost.
func (s *Input) Stop() {
	if s.full == nil || s.over {
		return
	}
	s.cancel(errStopped)
	for range s.full {
	}
	s.over, s.block, s.at = true, nil, 0
	if s.err == nil {
		s.err = errStopped
	}
}

// Close ends the reading.
func (s *Input) Close() {
	s.Stop()
	s.in.Close()
}
