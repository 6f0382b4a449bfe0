package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/catalog"
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
	// Set is the id of a replica set, a cluster or a standalone (Manifest.Of), where the repository
	// has backups of several.
	Set string
	// At is the time up to which the log is applied; 0: the backup as it is.
	At Time
	// Only has the collections that are restored.
	Only Namespaces
	// Hosts are where the parts of a cluster will be, by their names: SET/HOST:PORT,… for each
	// that the cluster has then.
	Hosts map[string]string
	// Parts are those of a cluster that are restored; none for all.
	Parts []string
	// Look says that what is restored is looked at and not served: the parts of a cluster need no
	// hosts.
	Look bool
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
	Reached Time // of the last entry, or of the backup; of a cluster, what all parts have reached
	Entries uint64
	Dirs    []string // the data directories
}

// Restore makes a data directory; of a cluster, one for each part, under its name. Until it is
// whole, nothing opens it. Errors: *DamageError.
func (r *Repository) Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	m, err := r.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	if m.Cluster != "" {
		return r.restoreCluster(ctx, m, o)
	}
	if len(o.Hosts)+len(o.Parts) > 0 {
		return nil, fmt.Errorf("%s is no backup of a cluster: it has no parts", m.Name())
	}
	p := &restoredPart{r: r, m: m, part: &m.Part, dir: o.To, at: o.At, o: o, total: m.size()}
	if len(o.Only) > 0 {
		p.adopt = o.Only.keepOnly
	}
	if err := p.findLog(ctx); err != nil {
		return nil, err
	}
	if err := prepareTarget(o.To); err != nil {
		return nil, err
	}
	if err := p.restore(ctx); err != nil {
		return nil, err
	}
	return &Restored{Manifest: m, Reached: p.reached, Entries: p.entries, Dirs: []string{o.To}}, storage.SetFinished(storage.OSFS(), o.To)
}

// restoredPart is a part of a backup that is being restored.
type restoredPart struct {
	r    *Repository
	m    *Manifest
	part *Part
	dir  string
	at   Time // up to which the log is applied; 0: the files as they are
	log  []logObject
	o    RestoreOptions
	// adopt changes the data when they belong to no set any more; nil for nothing.
	adopt func(ctx context.Context, c *catalog.Catalog) error
	// store is the file system of the data, once files has found it.
	store storage.FS
	// done and total are bytes of files.
	done, total int64

	reached Time
	entries uint64
}

// findLog finds the log that is needed, if it is there. Errors: also a master key that is missing.
func (p *restoredPart) findLog(ctx context.Context) (err error) {
	if p.o.Master == nil && len(p.part.keys()) > 0 {
		return fmt.Errorf("%s is of a server whose data are encrypted: the master key of that is needed", p.m.Name())
	}
	if p.at == 0 {
		return nil
	}
	if p.log, err = p.r.logOf(ctx, p.part.SetID); err != nil || p.at == Latest {
		return err
	}
	return p.m.reaches(p.log, p.part, p.at)
}

// restore makes the directory, which is unfinished and stays so.
func (p *restoredPart) restore(ctx context.Context) error {
	if err := p.files(ctx); err != nil {
		return err
	}
	p.reached = p.part.Time
	err := error(nil)
	if p.part.Set != "" {
		err = p.replay(ctx)
	} else {
		err = openOnce(ctx, p.store, p.dir, p.adopt)
	}
	if err != nil || p.o.KeepExpired {
		return err
	}
	return SetRestored(p.dir)
}

// choose finds the backup.
func (r *Repository) choose(ctx context.Context, o RestoreOptions) (*Manifest, error) {
	all, damaged := r.Backups(ctx)
	var found *Manifest
	for _, m := range all {
		switch {
		case o.Backup != "" && !strings.HasPrefix(m.Name(), o.Backup), o.Set != "" && m.Of() != o.Set, o.At != 0 && m.Time > o.At:
			continue
		case found != nil && o.Backup != "":
			return nil, fmt.Errorf("several backups have a name that begins with %s", o.Backup)
		case found != nil && found.Of() != m.Of():
			return nil, fmt.Errorf("the repository has backups of several servers, sets or clusters (%s of %s at %s, %s of %s at %s): --backup or --set says which", found.Name(), found.Of(), found.Server, m.Name(), m.Of(), m.Server)
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
	case o.At != 0 && found.Set == "" && found.Cluster == "":
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

// keys are the files with the keys of an encrypted server, of which one is enough.
func (p *Part) keys() (all []File) {
	for _, f := range p.Files {
		if storage.HasKeys(f.Name) {
			all = append(all, f)
		}
	}
	return all
}

// files writes the files of a backup, and finds the file system of the data in them. Those of an
// encrypted server are in the repository as they were there.
func (p *restoredPart) files(ctx context.Context) (err error) {
	as := storage.OSFS()
	keys := p.part.keys()
	if err := p.keysOf(ctx, keys); err != nil {
		return err
	}
	if p.store, err = storage.Unlock(as, p.dir, p.o.Master); err != nil {
		return err
	}
	if len(keys) == 0 {
		as = p.store
	}
	for _, f := range p.part.Files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if storage.MarksUnfinished(f.Name) || storage.HasKeys(f.Name) {
			continue
		}
		if err := p.r.file(ctx, as, f, filepath.Join(p.dir, f.Name)); err != nil {
			return err
		}
		p.done += f.Size
		p.o.Progress("bytes", p.done, p.total)
	}
	return nil
}

// keysOf writes the keys of an encrypted server, or makes new ones where it was none and the data are
// to be encrypted. Error: *DamageError where all of them are damaged.
func (p *restoredPart) keysOf(ctx context.Context, files []File) error {
	as := storage.OSFS()
	if len(files) == 0 && p.o.Master != nil {
		return storage.Encrypt(as, p.dir, p.o.Master)
	}
	var failed error
	whole := 0
	for _, f := range files {
		to := filepath.Join(p.dir, f.Name)
		err := p.r.file(ctx, as, f, to)
		var damage *DamageError
		if errors.As(err, &damage) {
			failed = err
			err = os.Remove(to)
		} else if err == nil {
			whole++
		}
		if err != nil {
			return err
		}
	}
	if whole > 0 {
		return nil
	}
	return failed
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

// openOnce opens the data of a standalone, has adopt change them, unless it is nil, and closes
// them: they are whole.
func openOnce(ctx context.Context, store storage.FS, dir string, adopt func(context.Context, *catalog.Catalog) error) (err error) {
	e, err := openStore(store, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if adopt == nil {
		return nil
	}
	c, err := catalog.Open(e, catalog.Options{Committer: repl.Local{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(), e.Sync(ctx)) }()
	return adopt(ctx, c)
}

// replay applies the log to the data of a member, and makes them those of a standalone.
func (p *restoredPart) replay(ctx context.Context) error {
	open := func(dir string) (*storage.Engine, error) { return openStore(p.store, dir) }
	x, err := repl.OpenRestoration(p.store, p.dir, open, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := p.apply(ctx, x); err != nil {
		return errors.Join(err, x.Close())
	}
	return x.Finish(ctx, p.adopt)
}

func (p *restoredPart) apply(ctx context.Context, x *repl.Restoration) error {
	begun := p.part.Index
	if at := x.Applied().Index; at != begun {
		return fmt.Errorf("the files of %s have the log up to entry %d, not %d: the backup is damaged", p.m.Name(), at, begun)
	}
	for p.at != 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next := behind(p.log, x.Applied().Index)
		if next == nil {
			if p.at == Latest {
				break
			}
			return p.unproven()
		}
		more := false
		if err := p.entriesOf(ctx, next, func(b []byte) (err error) {
			more, err = x.Apply(b, repl.Timestamp(p.at))
			return err
		}); err != nil {
			return err
		}
		p.o.Progress("entries of the log", int64(x.Applied().Index-begun), int64(p.log[len(p.log)-1].last-begun))
		if !more {
			break
		}
	}
	if at := x.Applied(); at.Index > begun {
		p.entries = at.Index - begun
		p.reached = max(p.reached, Time(at.Time))
	}
	return p.decide(ctx, x)
}

// unproven returns the error where the log has ended and no entry in it was of a later time.
func (p *restoredPart) unproven() error {
	if err := p.m.reaches(p.log, p.part, p.at); err != nil {
		return err
	}
	// Names were believed so far, which are not sealed. The files are of no later time.
	last := slices.MaxFunc(p.log, func(a, b logObject) int { return cmp.Compare(a.time, b.time) })
	return &DamageError{last.name, fmt.Errorf("by its name it has an entry of %s, and it has none from behind %s", last.time.Said(), p.at.Said())}
}

// decide decides what is prepared at the time by the log behind it.
func (p *restoredPart) decide(ctx context.Context, x *repl.Restoration) error {
	for {
		at, since, err := x.Undecided()
		if err != nil || since == 0 {
			return err
		}
		next := behind(p.log, at)
		if next == nil {
			return fmt.Errorf("%w: what was before %s can be restored", repl.ErrPrepared, Time(since).Said())
		}
		until := p.at
		if p.at == Latest {
			until = p.reached
		}
		if err := p.entriesOf(ctx, next, func(b []byte) error {
			_, err := x.Decide(b, repl.Timestamp(until))
			return err
		}); err != nil {
			return err
		}
	}
}

// entriesOf reads an object of the log.
func (p *restoredPart) entriesOf(ctx context.Context, o *logObject, f func(b []byte) error) error {
	var b bytes.Buffer
	if err := p.r.get(ctx, o.name, &b); err != nil {
		return err
	}
	if err := f(b.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	return nil
}
