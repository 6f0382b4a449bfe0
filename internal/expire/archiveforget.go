package expire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Documents are forgotten object by object: what is left of one is written, intended, stored and read
// back as what expires is, and one unit makes a row of the new object and gives up the old one, which is
// removed then, or by the collector. So at any time, whatever dies, each document that stays is in one
// row's object, and one that goes in one or none.

// Forget implements node.ArchiveForgetter.
func (m *Monitor) Forget(ctx context.Context, manifest *catalog.Collection, list func(context.Context) ([]archive.Row, error), dry bool, matches func(bson.Doc) (bool, error)) (done archive.Forgotten, err error) {
	select {
	case m.archives.forgetting <- struct{}{}: // each has an object in memory
	case <-ctx.Done():
		return done, context.Cause(ctx)
	}
	defer func() { <-m.archives.forgetting }()
	rows, err := list(ctx) // who had the turn before has replaced objects
	if err != nil {
		return done, err
	}
	f := forgetting{m: m, manifest: manifest, done: &done, ctx: ctx}
	f.memory.Open(m.o.Exec.Memory)
	defer f.memory.Close()
	f.holding = f.memory.Hold(&f)
	defer func() {
		if !dry && done.Documents > 0 {
			m.say(ctx, slog.LevelInfo, logForgotten, "documents were removed from an archive", slog.String("namespace", manifest.Namespace.String()),
				slog.Int64("documents", done.Documents), slog.Int64("objectsRewritten", done.Rewritten), slog.Int64("objectsRemoved", done.Removed))
		}
	}()
	rows, intended := partRows(rows)
	if !dry {
		if err := f.collect(ctx, intended); err != nil {
			return done, err
		}
	}
	return done, f.objects(ctx, rows, dry, matches)
}

// partRows parts the rows of objects from those that are intended only.
func partRows(all []archive.Row) (rows, intended []archive.Row) {
	for _, r := range all {
		if r.Writing {
			intended = append(intended, r)
		} else {
			rows = append(rows, r)
		}
	}
	return rows, intended
}

// forgetting removes documents from objects.
type forgetting struct {
	m        *Monitor
	manifest *catalog.Collection
	old      *archive.Row // of the object that it is at
	done     *archive.Forgotten
	ctx      context.Context // of the operation, for memory
	memory   memory.Account
	holding  memory.Holding
}

// Context implements memory.Waiter.
func (f *forgetting) Context() context.Context { return f.ctx }

// collect removes what objects without a row have left: one that was replaced before, and could not be
// removed, has documents that were to be forgotten.
func (f *forgetting) collect(ctx context.Context, intended []archive.Row) error {
	intended = slices.DeleteFunc(intended, func(r archive.Row) bool { return f.m.archives.isUnderWay(r.ID()) })
	owner, err := f.m.owner()
	if err != nil {
		return err
	}
	for i := range intended {
		if r := &intended[i]; r.GivenUp && r.Owner != owner {
			if len(f.done.Left) == archive.MaxLeft {
				f.done.More, intended = true, intended[:i] // the next run names the rest
				break
			}
			f.done.Left = append(f.done.Left, r.ID())
		}
	}
	_, waiting, err := f.m.collectRows(ctx, f.manifest, intended, map[string]error{})
	f.done.Waiting += waiting
	return err
}

// objects reads objects, and replaces those with documents that match. One that is damaged does not keep
// it from the others: it returns the first such error at its end.
func (f *forgetting) objects(ctx context.Context, rows []archive.Row, dry bool, matches func(bson.Doc) (bool, error)) error {
	damaged, first := 0, error(nil)
	for i := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.done.More {
			return nil
		}
		f.old = &rows[i]
		err := f.object(ctx, dry, matches)
		if damage := (*archive.DamageError)(nil); errors.As(err, &damage) && damage.Path == f.old.Path {
			is, failed := f.isRow(ctx)
			switch {
			case failed != nil:
				err = failed
			case !is:
				err = f.expired(ctx, dry)
			default:
				if damaged++; first == nil {
					first = err
				}
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	if damaged == 0 {
		return nil
	}
	did := "were removed from"
	if dry {
		did = "match in"
	}
	return fmt.Errorf("%d archived objects could not be read; %d documents %s the others: %w", damaged, f.done.Documents, did, first)
}

// isRow reports whether the object still has its row: it may have expired meanwhile.
func (f *forgetting) isRow(ctx context.Context) (bool, error) {
	q := &exec.Query{}
	var err error
	if q.Filter, err = match.Parse(new(bson.Builder).String("_id", f.old.ID()).Finish(), nil); err != nil {
		return false, err
	}
	cur, err := f.m.o.Exec.Find(ctx, f.manifest, q)
	if err != nil {
		return false, err
	}
	defer cur.Close()
	d, err := cur.Next(ctx)
	return f.is(d), err
}

// is reports whether d is still the row of the object; nil is none.
func (f *forgetting) is(d bson.Doc) bool {
	if d == nil {
		return false
	}
	r, ok := archive.ParseRow(d)
	return ok && !r.Writing && r.SHA256 == f.old.SHA256
}

// expired removes the object, which has no row any more.
func (f *forgetting) expired(ctx context.Context, dry bool) error {
	if dry {
		return nil
	}
	return f.removeOld(ctx)
}

// object reads the object, and replaces it if it has documents that match.
func (f *forgetting) object(ctx context.Context, dry bool, matches func(bson.Doc) (bool, error)) error {
	if is, err := f.isRow(ctx); err != nil {
		return err
	} else if !is {
		return f.expired(ctx, dry)
	}
	to, err := f.m.o.Archives.Open(ctx, f.old.To)
	if err != nil {
		return err
	}
	size := int(f.old.Bytes)
	if err := f.holding.Set(size); err != nil {
		return err
	}
	content, err := archive.Fetch(ctx, to, f.old)
	if err != nil {
		return err
	}
	f.done.Read++
	f.done.ReadBytes += f.old.Bytes
	var stay []archive.Document
	found := int64(0)
	file := bytes.NewReader(content)
	err = archive.Dated(file, f.old.Bytes, func(d archive.Document) error {
		goes, err := matches(d.Doc)
		if err != nil {
			return err
		}
		if goes {
			found++
			return nil
		}
		if size += len(d.Doc); !dry {
			err = f.holding.Set(size)
		}
		stay = append(stay, archive.Document{Date: d.Date, Doc: d.Doc.Clone()})
		return err
	})
	if err != nil || found == 0 {
		return err
	}
	if !dry {
		fields, err := archive.Fields(file, f.old.Bytes)
		if err != nil {
			return err
		}
		if replaced, err := f.replace(ctx, to, fields, stay); err != nil || !replaced {
			return err
		}
	}
	f.done.Documents += found
	if len(stay) > 0 {
		f.done.Rewritten++
	} else {
		f.done.Removed++
	}
	return nil
}

// replace stores an object with the documents that stay, if there are any, and swaps it for the old one.
// It reports false where that has expired meanwhile.
func (f *forgetting) replace(ctx context.Context, to objectstore.Store, fields []string, stay []archive.Document) (bool, error) {
	owner, err := f.m.owner()
	if err != nil {
		return false, err
	}
	if f.old.Owner != owner && len(f.done.Left) == archive.MaxLeft {
		f.done.More = true
		return false, nil
	}
	var rows []archive.Row
	if len(stay) > 0 {
		o, err := f.write(ctx, to, owner, fields, stay)
		if err != nil {
			return false, err
		}
		defer func() { go removeFiles([]*object{o}) }()
		rows = []archive.Row{o.row}
		f.m.archives.begin(rows)
		err = f.inGate(ctx, func() error { return f.m.intend(ctx, f.manifest, rows) })
		if err == nil {
			err = archive.Put(ctx, to, o.row.Path, o.file, o.row.Written)
		}
		if err != nil {
			f.m.archives.end(rows) // the collector removes it
			return false, err
		}
	}
	err = f.inGate(ctx, func() error { return f.swap(ctx, rows) })
	switch changed := errors.Is(err, errArchiveChanged); {
	case err == nil:
		f.m.archives.end(rows)
		return true, f.removeOld(ctx)
	case changed:
		if err := f.m.giveUp(ctx, f.manifest, rows, true); err != nil {
			return false, err
		}
		if is, err := f.isRow(ctx); err != nil || is {
			return false, errors.Join(err, errArchiveChanged) // the new object was given up by another
		}
		return false, f.removeOld(ctx)
	}
	return false, errors.Join(err, f.m.giveUp(ctx, f.manifest, rows, false))
}

// write writes the new object to a file.
func (f *forgetting) write(ctx context.Context, to objectstore.Store, owner string, fields []string, stay []archive.Document) (*object, error) {
	row := *f.old
	row.Writing, row.Owner, row.Path = true, owner, archive.Name(row.Namespace, owner, archive.Day(stay[0].Date))
	h := archive.Header{Namespace: row.Namespace, Rule: row.Rule, ExpiredAt: row.Gone, Fields: fields}
	var objects []*object // that of a call that is late is its own; none with an error
	err := archive.Ask(ctx, to, archiveBytes, func(ctx context.Context) error {
		file, err := to.Temp(ctx)
		if err != nil {
			return err
		}
		wrote := []*object{{row: row, file: file}}
		if wrote[0].row.Written, err = archive.Write(file, h, stay); err == nil {
			err = wrote[0].row.Written.Check(file, stay)
		}
		if err != nil {
			removeFiles(wrote)
			return err
		}
		objects = wrote
		return nil
	}, func() { removeFiles(objects) })
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// swap makes a row of the new object, if there is one, and gives up the old one, in one unit.
func (f *forgetting) swap(ctx context.Context, rows []archive.Row) error {
	return f.m.o.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		key, old, err := u.LockID(ctx, f.manifest, bson.String(f.old.ID()))
		if err != nil {
			return err
		}
		if !f.is(old) {
			return errArchiveChanged // it has expired meanwhile, or the database was dropped
		}
		gone := *f.old
		gone.Writing, gone.GivenUp = true, true
		if err := u.Update(ctx, f.manifest, key, old, gone.Doc()); err != nil {
			return err
		}
		for i := range rows {
			if err := enterRow(ctx, u, f.manifest, rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeOld removes the object that has no row any more.
func (f *forgetting) removeOld(ctx context.Context) error {
	owner, err := f.m.owner()
	if err != nil {
		return err
	}
	if f.old.Owner != owner && len(f.done.Left) < archive.MaxLeft { // replace does not go on behind so many
		f.done.Left = append(f.done.Left, f.old.ID())
	}
	_, _, err = f.m.collect(ctx, f.manifest, f.old.ID())
	if away := (storeError{}); errors.As(err, &away) {
		f.done.Waiting++
		return nil
	}
	return err
}

// inGate calls fn inside of the write gate.
func (f *forgetting) inGate(ctx context.Context, fn func() error) error {
	pass, err := f.m.enter(ctx, f.manifest.Namespace.DB)
	if err != nil {
		return err
	}
	defer pass.leave()
	return fn()
}
