package expire

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Documents are forgotten object by object: what is left of one is written, intended, stored and read
// back as what expires is, and one unit makes a row of the new object and gives up the old one, which is
// removed then, or by the collector. So at any time, whatever dies, each document that stays is in one
// row's object, and one that goes in one or none.

// Forget implements node.ArchiveForgetter.
func (m *Monitor) Forget(ctx context.Context, manifest *catalog.Collection, rows []archive.Row, dry bool, matches func(bson.Doc) (bool, error)) (done archive.Forgotten, err error) {
	m.archives.forgetting.Lock() // each has an object in memory
	defer m.archives.forgetting.Unlock()
	for i := range rows {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		f := forgetting{m: m, manifest: manifest, old: &rows[i], done: &done}
		if err := f.object(ctx, dry, matches); err != nil {
			return done, err
		}
	}
	if !dry && done.Documents > 0 {
		m.say(ctx, slog.LevelInfo, logForgotten, "documents were removed from an archive", slog.String("namespace", manifest.Namespace.String()),
			slog.Int64("documents", done.Documents), slog.Int64("objectsRewritten", done.Rewritten), slog.Int64("objectsRemoved", done.Removed))
	}
	return done, nil
}

// forgetting removes documents from an object.
type forgetting struct {
	m        *Monitor
	manifest *catalog.Collection
	old      *archive.Row
	done     *archive.Forgotten
}

// object reads the object, and replaces it if it has documents that match.
func (f *forgetting) object(ctx context.Context, dry bool, matches func(bson.Doc) (bool, error)) error {
	to, err := f.m.o.Archives.Open(ctx, f.old.To)
	if err != nil {
		return err
	}
	content := bytes.NewBuffer(make([]byte, 0, f.old.Bytes))
	if err := archive.Fetch(ctx, to, f.old, content); err != nil {
		return err
	}
	f.done.Read++
	f.done.ReadBytes += f.old.Bytes
	var stay []archive.Document
	found := int64(0)
	file := bytes.NewReader(content.Bytes())
	err = archive.Dated(file, f.old.Bytes, func(d archive.Document) error {
		goes, err := matches(d.Doc)
		if goes {
			found++
		} else {
			stay = append(stay, archive.Document{Date: d.Date, Doc: d.Doc.Clone()})
		}
		return err
	})
	if err != nil || found == 0 {
		return err
	}
	if !dry {
		fields, err := archive.Fields(file, f.old.Bytes)
		if err == nil {
			err = f.replace(ctx, to, fields, stay)
		}
		if err != nil {
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
func (f *forgetting) replace(ctx context.Context, to objectstore.Store, fields []string, stay []archive.Document) error {
	var rows []archive.Row
	if len(stay) > 0 {
		o, err := f.write(ctx, to, fields, stay)
		if err != nil {
			return err
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
			return err
		}
	}
	err := f.inGate(ctx, func() error { return f.swap(ctx, rows) })
	if err != nil {
		return errors.Join(err, f.m.giveUp(ctx, f.manifest, rows, errors.Is(err, errArchiveChanged)))
	}
	f.m.archives.end(rows)
	return f.removeOld(ctx)
}

// write writes the new object to a file.
func (f *forgetting) write(ctx context.Context, to objectstore.Store, fields []string, stay []archive.Document) (o *object, err error) {
	owner, err := f.m.owner()
	if err != nil {
		return nil, err
	}
	row := *f.old
	row.Writing, row.Owner, row.Path = true, owner, archive.Name(row.Namespace, owner, archive.Day(stay[0].Date))
	h := archive.Header{Namespace: row.Namespace, Rule: row.Rule, ExpiredAt: row.Gone, Fields: fields}
	err = archive.Ask(ctx, to, archiveBytes, func(ctx context.Context) error {
		file, err := to.Temp(ctx)
		if err != nil {
			return err
		}
		wrote := &object{row: row, file: file}
		if wrote.row.Written, err = archive.Write(file, h, stay); err == nil {
			err = wrote.row.Written.Check(file, stay)
		}
		if err != nil {
			removeFiles([]*object{wrote})
			return err
		}
		o = wrote
		return nil
	}, func() { removeFiles([]*object{o}) })
	if err != nil {
		return nil, err
	}
	return o, nil
}

// swap makes a row of the new object, if there is one, and gives up the old one, in one unit.
func (f *forgetting) swap(ctx context.Context, rows []archive.Row) error {
	return f.m.o.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		key, old, err := u.LockID(ctx, f.manifest, bson.String(f.old.ID()))
		if err != nil {
			return err
		}
		if was, ok := archive.ParseRow(old); old == nil || !ok || was.Writing || was.SHA256 != f.old.SHA256 {
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
	if f.old.Owner != owner && len(f.done.Left) < archive.MaxLeft {
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
