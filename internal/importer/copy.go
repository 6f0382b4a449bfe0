package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// batchDocuments and batchBytes are how much is copied at once. A first batch, of which nobody
	// knows how large its documents are, has firstBatch documents; a reply has 16 MB at the most.
	batchDocuments = 1000
	batchBytes     = 4 << 20
	firstBatch     = 100
	// waitRenamed is the time between two looks whether the event has come that says where a
	// collection is.
	waitRenamed = 50 * time.Millisecond
)

// scan is a read of a collection in the order of its _id.
type scan struct {
	e        *end
	db, coll string
	uuid     bson.Value // of the collection; Missing for whatever has the name
	concern  bson.Doc   // readConcern, nil for none
	last     bson.Value // the _id behind which to read
	limit    int
	most     int // the largest limit
	size     int // of the documents that were read last, in bytes
}

// next returns the next documents, none at the end. They belong to the caller.
func (s *scan) next(ctx context.Context) (docs []bson.Doc, err error) {
	b := new(bson.Builder).String("find", s.coll)
	if !s.last.IsMissing() { // as min is inclusive
		b.OpenDoc("filter").OpenDoc("_id").Value("$ne", s.last).Close().Close().OpenDoc("min").Value("_id", s.last).Close()
	}
	b.OpenDoc("hint").Int32("_id", 1).Close().OpenDoc("sort").Int32("_id", 1).Close()
	b.Int32("limit", int32(s.limit)).Int32("batchSize", int32(s.limit)).Bool("singleBatch", true)
	b.Value("collectionUUID", s.uuid)
	if s.concern != nil {
		b.Doc("readConcern", s.concern)
	}
	reply, err := s.e.run(ctx, s.db, b.Finish())
	if err != nil {
		return nil, err
	}
	batch := reply.Lookup("cursor").Doc().Lookup("firstBatch")
	if batch.Type != bson.TypeArray {
		return nil, fmt.Errorf("%s: the reply has no cursor", s.e.name)
	}
	s.size = 0
	for v := range batch.Doc().Values() {
		docs, s.size = append(docs, v.Doc()), s.size+len(v.Doc())
	}
	if n := len(docs); n > 0 {
		s.last = docs[n-1].Lookup("_id").Clone()
		s.limit = min(s.most, max(1, batchBytes/max(1, s.size/n)))
	}
	return docs, nil
}

// sourceConcern is the readConcern with which the source is read: what a majority has, and all
// whose events were applied.
func (im *Importer) sourceConcern() bson.Doc {
	if !im.from.replicated() {
		return nil
	}
	b := new(bson.Builder).String("level", "majority")
	if t := im.applied.Now(); t != 0 {
		b.Timestamp("afterClusterTime", t)
	}
	return b.Finish()
}

// copyAll copies the rows that are not copied yet, a worker each.
func (im *Importer) copyAll(ctx context.Context) error {
	todo := make(chan *row)
	work, ctx := errgroup.WithContext(ctx)
	for _, w := range im.workers[:im.o.Parallel] {
		work.Go(func() error {
			for r := range todo {
				if err := im.copyRow(ctx, w, r); err != nil {
					r.lock.RLock()
					defer r.lock.RUnlock()
					return fmt.Errorf("copying %s: %w", r.name(), err)
				}
			}
			return nil
		})
	}
	work.Go(func() error {
		defer close(todo)
		for _, r := range im.rows.all() {
			if r.copied {
				continue
			}
			select {
			case todo <- r:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return work.Wait()
}

// copyRow copies a collection from where its copy is.
func (im *Importer) copyRow(ctx context.Context, w *writer, r *row) error {
	s := &scan{e: im.from, uuid: uuidValue(r.uuid), limit: min(firstBatch, im.o.batch), most: im.o.batch}
	var since time.Time // of the target's refusals
	for {
		more, err := im.copyBatch(ctx, w, r, s)
		if !errors.As(err, new(refusedName)) {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > patience {
			return err
		}
		switch {
		case mongoerr.Is(err, mongoerr.CollectionUUIDMismatch, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled) && !im.o.Once: // it was renamed or dropped: the event is to come
			if err := client.Sleep(ctx, waitRenamed); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case more:
			if err := waitPace(ctx, im.pace, s.size); err != nil {
				return err
			}
			continue
		}
		return nil
	}
}

// newPace bounds what is copied, in bytes a second; 0 is no bound.
func newPace(bytes int64) *rate.Limiter {
	if bytes == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(bytes), int(max(1, bytes/burstsASecond)))
}

// burstsASecond is in how many parts a second's bytes may come.
const burstsASecond = 10

// waitPace waits until n bytes more may be copied.
func waitPace(ctx context.Context, pace *rate.Limiter, n int) error {
	if pace.Limit() == rate.Inf {
		return nil
	}
	for n > 0 {
		part := min(n, pace.Burst())
		if err := pace.WaitN(ctx, part); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		n -= part
	}
	return nil
}

// refusedName is the target's error that a collection does not have the name that its row has. An
// importer that was killed between a rename and its row leaves that; the event is the first to come.
type refusedName struct{ error }

func (e refusedName) Unwrap() error { return e.error }

// copyBatch copies the next batch (invariant copy-behind-events).
func (im *Importer) copyBatch(ctx context.Context, w *writer, r *row, s *scan) (more bool, err error) {
	r.lock.RLock()
	defer r.lock.RUnlock()
	if r.ended || !r.made() { // it was dropped, at the source at least
		return false, nil
	}
	s.db, s.coll, s.concern, s.last = r.db, r.coll, im.sourceConcern(), r.last // what was not inserted is read anew
	docs, err := s.next(ctx)
	if err != nil {
		return false, err
	}
	if len(docs) > 0 {
		if err := im.insert(ctx, w, r, docs); mongoerr.Is(err, mongoerr.CollectionUUIDMismatch, mongoerr.NamespaceNotFound) {
			return false, refusedName{fmt.Errorf("the target's collection has another name, or is gone: does somebody else write there? %w", err)}
		} else if err != nil {
			return false, err
		}
		r.last = s.last
		r.documents += int64(len(docs))
		im.copiedDocuments.Add(int64(len(docs)))
	} else {
		r.copied = true
	}
	return len(docs) > 0, storeCopied(ctx, w, r) // token-behind
}

// unchecked appends what has the target take documents as they are.
func (im *Importer) unchecked(b *bson.Builder) *bson.Builder {
	b.Bool("bypassDocumentValidation", true)
	if im.to.wire >= bypassWire {
		b.Bool("bypassEmptyTsReplacement", true)
	}
	return b
}

// insert inserts documents at the target. What stands there under an _id stays.
func (im *Importer) insert(ctx context.Context, w *writer, r *row, docs []bson.Doc) error {
	body := im.unchecked(new(bson.Builder).String("insert", r.coll).Bool("ordered", false)).Value("collectionUUID", uuidValue(r.target)).Finish()
	reply, err := w.write(ctx, r.db, body, wire.NewSequence("documents", docs...))
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		if pattern := e.doc.Lookup("keyPattern"); e.Code == mongoerr.DuplicateKey && pattern.Type == bson.TypeDocument && pattern.Doc().Has("_id") && pattern.Doc().Len() == 1 {
			continue
		}
		id := bson.Value{}
		if e.index < len(docs) {
			id = docs[e.index].Lookup("_id")
		}
		return fmt.Errorf("the target refuses the document with _id %s: %w", id, e.Error)
	}
	return nil
}
