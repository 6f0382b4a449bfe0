package expire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/objectstore"
)

// Where the windows of a collection follow a rule that archives, those that are due are read once, in
// order, stored, and dropped as a range in the unit that makes rows of their objects: some windows at
// a time. While those of one time are stored, the next are read and written to files.

// archiveWindowDocs bounds the documents of the windows that go in one unit, beside archiveBytes; the
// catalog has a bound of its own where a unit lists them.
const archiveWindowDocs = 1 << 16

// windowObjects are windows that were read, and the objects with their documents.
type windowObjects struct {
	part    *catalog.WindowPart
	to      objectstore.Store
	objects []*object
	err     error
}

// archiveRanges is ranges where the rule archives.
func (d *documentRemover) archiveRanges(ctx context.Context, v *removal) (gone catalog.Dropped, err error) {
	a := d.newArchive(v)
	if a == nil {
		return gone, nil
	}
	err = a.windows(ctx, &gone)
	d.later = gone.More
	if errors.Is(err, errArchiveChanged) {
		err = nil // the documents of these windows are archived one by one
	}
	if away := (storeError{}); errors.As(err, &away) || gone.Docs > 0 {
		_, err = a.tell(ctx, gone.More, gone.Docs, err)
	}
	if err != nil || gone.Windows == 0 {
		return gone, err
	}
	return gone, d.m.o.Catalog.SweepFirst(ctx, d.c, d.Rule, d.Now, v.sweeping(ctx))
}

// windows archives and drops windows, and adds what it did to gone.
func (a *archiveVisit) windows(ctx context.Context, gone *catalog.Dropped) error {
	rest := a.r.resting(ctx)
	r, err := a.m.o.Catalog.ReadWindows(ctx, a.c, catalog.Drop{
		Rule: a.d.Rule, Now: a.d.Now, MaxTime: a.d.MaxTime, Permit: a.d.Permit,
		Rest: func(took time.Duration, _ bool) error { return rest(took) },
	})
	if err != nil || r == nil {
		return err
	}
	defer r.Close()
	writing, end := context.WithCancel(ctx)
	parts := make(chan *windowObjects)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(parts)
		a.writeWindows(writing, r, parts)
	})
	defer func() {
		end()
		for p := range parts {
			a.m.archivers.leave()
			go removeFiles(p.objects)
		}
		writer.Wait()
	}()
	for begun := time.Now(); ; {
		a.r.pass.leave() // who locks writes does not wait for the store
		p := <-parts
		if err := a.r.pass.enter(ctx); err != nil || p == nil {
			if p != nil {
				a.m.archivers.leave()
				go removeFiles(p.objects)
			}
			return err
		}
		took := time.Now()
		did, err := a.dropWindows(ctx, r, p)
		a.m.archivers.leave()
		if err != nil {
			return err
		}
		gone.Docs += did.Docs
		gone.Bytes += did.Bytes
		gone.Keys += did.Keys
		gone.Windows += did.Windows
		a.m.archives.windows.Add(did.Windows)
		a.r.bookRange(did, time.Since(took))
		if err := rest(time.Since(took)); err != nil {
			return err
		}
		if a.d.MaxTime > 0 && time.Since(begun) >= a.d.MaxTime {
			gone.More = true
			return nil
		}
	}
}

// writeWindows reads windows and writes their objects to files, until there are none or ctx ends. What it
// sends has a turn of the archivers, which who receives it gives back.
func (a *archiveVisit) writeWindows(ctx context.Context, r *catalog.WindowReader, parts chan<- *windowObjects) {
	for {
		select {
		case a.m.archivers.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		p := a.readWindows(ctx, r)
		if p == nil {
			a.m.archivers.leave()
			return
		}
		select {
		case parts <- p:
		case <-ctx.Done():
			a.m.archivers.leave()
			go removeFiles(p.objects)
			return
		}
		if p.err != nil {
			return
		}
	}
}

// readWindows reads the next windows, and writes their objects to files; nil behind the last.
func (a *archiveVisit) readWindows(ctx context.Context, r *catalog.WindowReader) *windowObjects {
	rule := a.d.Rule
	date := func(doc bson.Doc) int64 { return rule.Due(doc) - 1000*rule.Seconds }
	first, some := int64(0), false
	part, err := r.Next(min(archiveWindowDocs, int64(a.m.archives.docs)*archiveWindowDocs/archiveDocs), archiveBytes, func(doc bson.Doc) bool {
		at := date(doc)
		if !some {
			first, some = at, true
		}
		return max(at-first, first-at) < archiveDays*24*time.Hour.Milliseconds()
	})
	if part == nil && err == nil {
		return nil
	}
	p := &windowObjects{part: part, err: err}
	if err == nil {
		docs := make([]archive.Document, len(part.Docs))
		for i, d := range part.Docs {
			docs[i] = archive.Document{Date: date(d), Doc: d}
		}
		if p.to, p.err = a.open(ctx); p.err == nil {
			p.objects, p.err = a.writeFiles(ctx, p.to, docs)
		}
	}
	return p
}

// dropWindows stores the objects of windows, and drops those in the unit that makes rows of the objects.
func (a *archiveVisit) dropWindows(ctx context.Context, r *catalog.WindowReader, p *windowObjects) (gone catalog.Dropped, err error) {
	if p.err != nil {
		return gone, p.err
	}
	if err := a.findRows(ctx); err != nil {
		go removeFiles(p.objects)
		return gone, err
	}
	rows, err := a.put(ctx, p.to, p.objects)
	if err == nil {
		gone, err = r.Drop(ctx, p.part, a.d.Permit, func(u *catalog.Unit) error {
			for i := range rows {
				if err := enterRow(ctx, u, a.rows, rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if errors.Is(err, catalog.ErrWindowsWritten) {
		err = errArchiveChanged
	}
	if err == nil {
		a.stored(rows)
		return gone, nil
	}
	err = a.notStored(ctx, rows, err)
	if refused := a.r.pass.enter(ctx); refused != nil {
		return gone, refused // and not the store's, behind which a visit would go on
	}
	return gone, err
}
