package exec

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// sharedRows is from how many documents on two goroutines read them, half each, in the
// order of the records.
const sharedRows = 8 << 10

// scattered holds documents that were read in another order than that of their rows.
type scattered struct {
	order recordOrder // of the rows
	parts [2]part
}

// part is the documents that one goroutine has prefetched.
type part struct {
	docs    chunks
	record  []byte // memory for the last record
	narrow  []byte // the last document with only its fields
	builder bson.Builder
}

// prefetchDocuments reads the documents of the rows in the order of their records.
func (s *fetch) prefetchDocuments(ctx context.Context) error {
	a := &s.prefetch
	if a.scattered == nil {
		a.scattered = new(scattered)
	}
	a.scattered.order.sort(&a.entryBatch)
	order := a.scattered.order.rows
	a.scattered.parts[0].docs.clear()
	a.scattered.parts[1].docs.clear()
	a.docs = slices.Grow(a.docs, len(a.rows))[:len(a.rows)]
	clear(a.docs)
	if _, ok := s.source.reader.(*storage.Snapshot); !ok || len(order) < sharedRows || s.source.visibility != nil {
		s.walk.begin()
		return s.readPart(ctx, &s.walk, order, 0, maxPrefetchBytes)
	}
	half := len(order) / 2
	other := make(chan outcome, 1)
	go func() {
		var w walk
		var out outcome
		defer func() {
			out.panicked = recover()
			other <- out
		}()
		defer func() { _ = w.close() }()
		out.err = s.readPart(ctx, &w, order[half:], 1, maxPrefetchBytes/2)
	}()
	s.walk.begin()
	err := s.readPart(ctx, &s.walk, order[:half], 0, maxPrefetchBytes/2)
	out := <-other
	if out.panicked != nil {
		panic(out.panicked) // on the command's goroutine, where it is handled
	}
	if err == nil {
		err = out.err
	}
	return err
}

// outcome is how a goroutine ended.
type outcome struct {
	err      error
	panicked any
}

// readPart reads documents into a part, up to limit bytes. The rows behind stay
// unread.
func (s *fetch) readPart(ctx context.Context, w *walk, order []fetchOrder, n uint8, limit int) error {
	a, p := &s.prefetch, &s.prefetch.scattered.parts[n]
	for i, k := range order {
		if i%ctxEvery == ctxEvery-1 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.probeIndexes(ctx); err != nil {
				return err
			}
		}
		record := a.scattered.order.record(&p.record, &a.entryBatch, k)
		found, err := w.to(s.source, record)
		if err != nil {
			return err
		}
		d := &a.docs[k.row]
		d.state = docMissing
		if !found {
			continue
		}
		doc, err := w.it.Value()
		if err != nil {
			return err
		}
		if s.source.isExpired(record, doc) {
			continue
		}
		if p.docs.size+len(doc) > limit {
			d.state = docUnread
			return nil
		}
		p.keep(d, doc, a.fields)
		d.part = n
		if s.source.checksDocuments() {
			d.due = s.source.visibility.due
		}
	}
	return nil
}

// keep copies the fields of a document that are read; nil: all.
func (p *part) keep(d *fetchedDoc, doc bson.Doc, fields []string) {
	if fields != nil {
		p.narrow = p.builder.Reset(p.narrow[:0]).Only(doc, fields).Finish()
		doc = p.narrow
	}
	d.state, d.doc = docRead, p.docs.add(doc)
}
