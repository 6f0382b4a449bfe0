package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/seal"
	"github.com/mayflydb/mayfly/internal/storage"
)

// restoreCacheBytes is the cache of a store while entries are applied to it.
const restoreCacheBytes = 64 << 20

// RestoreOptions say what is restored.
type RestoreOptions struct {
	To string // a directory that is empty or does not exist, or an unfinished one
	// Backup begins the name of a backup; "" for the newest before At.
	Backup string
	// Set is the id of a replica set, where the repository has backups of several.
	Set string
	// At is the time up to which the log is applied; 0: the backup as it is.
	At Time
	// KeepExpired leaves what is due to the TTL monitor: else the server removes it before it
	// serves.
	KeepExpired bool
	// Master is the master key of the data: that of the server where the backup is of an encrypted
	// one, else one under which they are encrypted; nil if they are not.
	Master   seal.Master
	Progress Progress
}

// Restored is what Restore has done.
type Restored struct {
	*Manifest
	Reached Time // of the last entry, or of the backup
	Entries uint64
}

// Restore makes a data directory. Until it is whole, nothing opens it. Errors: *DamageError.
func (r *Repository) Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	m, err := r.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	var log []logObject
	if o.At != 0 {
		if log, err = r.logOf(ctx, m.SetID); err != nil {
			return nil, err
		}
		if o.At != Latest {
			if err := reaches(log, m, o.At); err != nil {
				return nil, err
			}
		}
	}
	if o.Master == nil && m.keys() != nil {
		return nil, fmt.Errorf("%s is of a server whose data are encrypted: the master key of that is needed", m.Name())
	}
	if err := prepareTarget(o.To); err != nil {
		return nil, err
	}
	store, err := r.files(ctx, m, o)
	if err != nil {
		return nil, err
	}
	done := &Restored{Manifest: m, Reached: m.Time}
	if m.Set != "" {
		err = r.replay(ctx, store, done, log, o)
	} else {
		err = openOnce(store, o.To)
	}
	if err != nil {
		return nil, err
	}
	if !o.KeepExpired {
		if err := SetRestored(o.To); err != nil {
			return nil, err
		}
	}
	return done, storage.SetFinished(storage.OSFS(), o.To)
}

// choose finds the backup.
func (r *Repository) choose(ctx context.Context, o RestoreOptions) (*Manifest, error) {
	all, damaged := r.Backups(ctx)
	var found *Manifest
	for _, m := range all {
		switch {
		case o.Backup != "" && !strings.HasPrefix(m.Name(), o.Backup), o.Set != "" && m.SetID != o.Set, o.At != 0 && m.Time > o.At:
			continue
		case found != nil && o.Backup != "":
			return nil, fmt.Errorf("several backups have a name that begins with %s", o.Backup)
		case found != nil && found.SetID != m.SetID:
			return nil, fmt.Errorf("the repository has backups of several servers or sets (%s of %s, %s of %s): --backup or --set says which", found.Name(), found.Server, m.Name(), m.Server)
		case found == nil || m.Time >= found.Time:
			found = m
		}
	}
	switch {
	case damaged != nil:
		return nil, damaged // the right one may be among them
	case found == nil && len(all) > 0 && o.At != 0:
		return nil, fmt.Errorf("no backup is from %s or before", o.At.Said())
	case found == nil:
		return nil, errors.New("the repository has no such backup")
	case o.At != 0 && found.Set == "":
		return nil, fmt.Errorf("%s is the backup of a standalone, which has no log: only its own time can be restored, without --at", found.Name())
	}
	return found, nil
}

// prepareTarget makes the directory an unfinished, empty one.
func prepareTarget(dir string) error {
	store := storage.OSFS()
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return err
	}
	if len(list) > 0 {
		again, err := storage.IsUnfinished(store, dir)
		if err != nil {
			return err
		}
		if !again {
			return fmt.Errorf("%s is not empty", dir)
		}
	}
	if err := storage.SetUnfinished(store, dir); err != nil {
		return err
	}
	for _, e := range list {
		if !storage.MarksUnfinished(e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys is the file with the keys of an encrypted server; nil if there is none.
func (m *Manifest) keys() *File {
	i := slices.IndexFunc(m.Files, func(f File) bool { return storage.HasKeys(f.Name) })
	if i < 0 {
		return nil
	}
	return &m.Files[i]
}

// files writes the files of a backup, and returns the file system of the data in them. Those of
// an encrypted server are in the repository as they were there.
func (r *Repository) files(ctx context.Context, m *Manifest, o RestoreOptions) (storage.FS, error) {
	as := storage.OSFS()
	keys := m.keys()
	if keys != nil {
		if err := r.file(ctx, as, *keys, filepath.Join(o.To, keys.Name)); err != nil {
			return nil, err
		}
	} else if o.Master != nil {
		if err := storage.Encrypt(as, o.To, o.Master); err != nil {
			return nil, err
		}
	}
	store, err := storage.Unlock(as, o.To, o.Master)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		as = store
	}
	total, done := m.size(), int64(0)
	for _, f := range m.Files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if storage.MarksUnfinished(f.Name) || storage.HasKeys(f.Name) {
			continue
		}
		if err := r.file(ctx, as, f, filepath.Join(o.To, f.Name)); err != nil {
			return nil, err
		}
		done += f.Size
		o.Progress("bytes", done, total)
	}
	return store, nil
}

func (r *Repository) file(ctx context.Context, store storage.FS, f File, to string) error {
	out, err := store.Create(to, "")
	if err != nil {
		return err
	}
	err = r.get(ctx, f.Object, out)
	if err == nil {
		switch info, e := out.Stat(); {
		case e != nil:
			err = e
		case info.Size() != f.Size:
			err = &DamageError{f.Object, fmt.Errorf("it has %d bytes of %s, not %d", info.Size(), f.Name, f.Size)}
		}
	}
	return errors.Join(err, out.Sync(), out.Close())
}

func openStore(store storage.FS, dir string) (*storage.Engine, error) {
	return storage.Open(storage.Options{Dir: dir, FS: store, CacheBytes: restoreCacheBytes})
}

// openOnce opens a store and closes it: it is one.
func openOnce(store storage.FS, dir string) error {
	e, err := openStore(store, dir)
	if err != nil {
		return err
	}
	return e.Close()
}

// replay applies the log to the data of a member, and makes them those of a standalone.
func (r *Repository) replay(ctx context.Context, store storage.FS, done *Restored, log []logObject, o RestoreOptions) error {
	open := func(dir string) (*storage.Engine, error) { return openStore(store, dir) }
	x, err := repl.OpenRestoration(store, o.To, open, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := r.apply(ctx, x, done, log, o); err != nil {
		return errors.Join(err, x.Close())
	}
	return x.Finish(ctx)
}

func (r *Repository) apply(ctx context.Context, x *repl.Restoration, done *Restored, log []logObject, o RestoreOptions) error {
	if at := x.Applied().Index; at != done.Index {
		return fmt.Errorf("the files of %s have the log up to entry %d, not %d: the backup is damaged", done.Name(), at, done.Index)
	}
	for o.At != 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next := behind(log, x.Applied().Index)
		if next == nil {
			if o.At == Latest {
				break
			}
			return reaches(log, done.Manifest, o.At)
		}
		var b bytes.Buffer
		if err := r.get(ctx, next.name, &b); err != nil {
			return err
		}
		more, err := x.Apply(b.Bytes(), repl.Timestamp(o.At))
		if err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		o.Progress("entries of the log", int64(x.Applied().Index-done.Index), int64(log[len(log)-1].last-done.Index))
		if !more {
			break
		}
	}
	if at := x.Applied(); at.Index > done.Index {
		done.Entries = at.Index - done.Index
		done.Reached = max(done.Reached, Time(at.Time))
	}
	return nil
}
