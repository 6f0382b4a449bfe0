package repl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// Restoration makes the data of a standalone of a copy of a member's data and entries of the
// log. One goroutine uses it.
type Restoration struct {
	dir     string
	open    func(dir string) (*storage.Engine, error)
	log     *slog.Logger
	store   *Store
	catalog *catalog.Catalog
	applied Position
	// looked is the index of the last entry that Apply or Decide has looked at.
	looked uint64
	// prepared are the transactions that are prepared and not decided, once Decide is under
	// way, and never those that were committed later than that.
	prepared map[catalog.PreparedKey]bool
	never    []catalog.PreparedKey
}

// OpenRestoration opens a copy. open opens the store in a directory.
func OpenRestoration(fs storage.FS, dir string, open func(dir string) (*storage.Engine, error), log *slog.Logger) (*Restoration, error) {
	r := &Restoration{dir: dir, open: open, log: log}
	r.store = &Store{opts: StoreOptions{FS: fs, Dir: dir, Open: open, Effects: func(e *storage.Engine) (Effects, error) {
		c, err := catalog.Open(e, catalog.Options{Committer: restoring{}, Operations: true, Log: log})
		r.catalog = c
		return restoredEffects{c}, err
	}}}
	if err := r.store.open(dir); err != nil {
		return nil, err
	}
	r.applied.Index = r.store.engine.Applied()
	r.looked = r.applied.Index
	return r, nil
}

// Applied is the last entry that the data have. Its time is 0 until Apply has seen one.
func (r *Restoration) Applied() Position { return r.applied }

// Apply applies the entries of a LogPart that follow what the data have, up to the last whose
// time is not after until. more says that none was after it. Errors: storage.ErrCorruption
// where an entry is missing or cannot be read; those of the disk.
func (r *Restoration) Apply(part []byte, until Timestamp) (more bool, err error) {
	var run []Change
	bytes := 0
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		err := r.store.Apply(run)
		run, bytes = nil, 0
		return err
	}
	for len(part) > 0 {
		index, stored, rest, err := cutEntry(part)
		if err != nil {
			return false, err
		}
		part = rest
		if index <= r.applied.Index {
			continue
		}
		if index != r.applied.Index+1 {
			return false, fmt.Errorf("%w: entry %d of the log follows entry %d", storage.ErrCorruption, index, r.applied.Index)
		}
		c, alone, err := r.change(storedEntry(index, stored), until)
		if err != nil {
			return false, err
		}
		if c == nil {
			return false, flush()
		}
		if alone || bytes+len(stored) > maxRunBytes {
			if err := flush(); err != nil {
				return false, err
			}
		}
		run, bytes = append(run, *c), bytes+len(stored)
		r.applied, r.looked = c.At, c.At.Index
		if alone {
			if err := flush(); err != nil {
				return false, err
			}
		}
	}
	return true, flush()
}

// change is what an entry does, nil for one that is after a time. What raft or the set would
// do with it does not concern what is restored.
func (r *Restoration) change(e *raftpb.Entry, until Timestamp) (c *Change, alone bool, err error) {
	d, err := readEntry(e)
	if err != nil {
		return nil, false, err
	}
	if d.kind != 0 && d.time > until {
		return nil, false, nil
	}
	c = &Change{At: Position{Index: e.GetIndex(), Term: e.GetTerm(), Time: r.applied.Time}}
	if c.At.Term < r.applied.Term {
		return nil, false, fmt.Errorf("%w: entry %d of the log has term %d, the one before it %d", storage.ErrCorruption, c.At.Index, c.At.Term, r.applied.Term)
	}
	if d.kind == 0 {
		return c, false, nil
	}
	c.At.Time = d.time
	if d.term != c.At.Term { // it changes nothing (invariant own-term)
		return c, false, nil
	}
	switch d.kind {
	case kindEffect:
		c.Payload = d.payload
	case kindPart:
		c.Part, alone = d.payload, true
	case kindLast:
		c.Chain, alone = d.payload, true
	}
	return c, alone, nil
}

// ErrPrepared says that transactions over shards are prepared in the data and not decided.
var ErrPrepared = errors.New("transactions over shards were prepared at that time, and it is not known whether they were committed")

// Undecided reports whether transactions are prepared in the data and not decided, from when the
// first one is, and behind which entry Decide is to go on.
func (r *Restoration) Undecided() (behind uint64, since Timestamp, err error) {
	if r.prepared == nil {
		r.prepared = map[catalog.PreparedKey]bool{}
		all, err := r.catalog.PreparedIn(r.store.engine)
		if err != nil {
			return 0, 0, err
		}
		for _, key := range all {
			r.prepared[key] = true
		}
	}
	if len(r.prepared) == 0 {
		return r.looked, 0, nil
	}
	return r.looked, Timestamp(r.catalog.OldestPrepared()), nil
}

// Decide decides what is prepared in the data by entries that follow those that were looked at:
// of these it applies only the commits of such transactions at or before a time, which is where
// Apply has ended. What they have written was locked until then, so nothing between the two has
// changed it. more says that some are not decided yet. REQUIRES: Undecided was called.
// Errors: as of Apply.
func (r *Restoration) Decide(part []byte, at Timestamp) (more bool, err error) {
	invariant.Check(r.prepared != nil, "repl: it is known what is prepared before it is decided")
	for len(part) > 0 && len(r.prepared) > 0 {
		index, stored, rest, err := cutEntry(part)
		if err != nil {
			return false, err
		}
		part = rest
		if index <= r.looked {
			continue
		}
		if index != r.looked+1 {
			return false, fmt.Errorf("%w: entry %d of the log follows entry %d", storage.ErrCorruption, index, r.looked)
		}
		c, _, err := r.change(storedEntry(index, stored), 1<<64-1)
		if err != nil {
			return false, err
		}
		r.looked = index
		if err := r.decideBy(c, at); err != nil {
			return false, err
		}
	}
	return len(r.prepared) > 0, nil
}

// decideBy is Decide for one entry.
func (r *Restoration) decideBy(c *Change, at Timestamp) (err error) {
	payload := c.Payload
	switch {
	case c.Part != nil:
		return r.store.applyPart(c.At, c.Part)
	case c.Chain != nil:
		if payload, err = r.store.assemble(c.At, c.Chain); err != nil {
			return err
		}
	}
	if payload == nil {
		return nil
	}
	key, commit, ok, err := catalog.DecodeDecision(payload)
	if err != nil || !ok || !r.prepared[key] {
		return err
	}
	delete(r.prepared, key)
	if commit > uint64(at) {
		r.never = append(r.never, key)
		return nil
	}
	return r.store.effects.Apply([]Change{{At: c.At, Payload: payload}})
}

// Finish makes the data those of a standalone, has adopt change them, unless it is nil, and
// closes them. Errors: ErrPrepared, those of adopt and of the disk.
func (r *Restoration) Finish(ctx context.Context, adopt func(context.Context, *catalog.Catalog) error) (err error) {
	e := r.store.engine
	if _, since, err := r.Undecided(); err != nil || since != 0 {
		if err == nil {
			err = ErrPrepared
		}
		return errors.Join(err, r.Close())
	}
	if err = r.store.effects.Close(); err != nil {
		return errors.Join(err, e.Close())
	}
	if err := errors.Join(e.LeaveGroup(), e.Close()); err != nil {
		return err
	}
	if e, err = r.open(r.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	c, err := catalog.Open(e, catalog.Options{Committer: Local{}, Log: r.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(), e.Sync(ctx)) }()
	for _, key := range r.never {
		if err := c.NoteAborted(ctx, new(catalog.Newest), key.Session, key.Txn, nil); err != nil {
			return err
		}
	}
	for _, coll := range c.Collections("local") {
		if name := coll.Namespace.Coll; name == "system.replset" || strings.HasPrefix(name, "replset.") {
			if _, err := c.Drop(ctx, schema.Namespace{DB: "local", Coll: name}); err != nil {
				return fmt.Errorf("local.%s: %w", name, err)
			}
		}
	}
	if adopt == nil {
		return nil
	}
	return adopt(ctx, c)
}

// Close closes the data as they are.
func (r *Restoration) Close() error { return r.store.Close() }

// restoring is the Committer of data that are being restored: only Apply writes.
type restoring struct{}

// Commit implements Committer.
func (restoring) Commit(context.Context, *catalog.Effect, storage.Durability) error {
	return ErrNotPrimary
}

// Writable implements Committer.
func (restoring) Writable() error { return ErrNotPrimary }

// restoredEffects is a catalog as the Effects of a store that is being restored.
type restoredEffects struct{ c *catalog.Catalog }

// Apply implements Effects.
func (f restoredEffects) Apply(run []Change) error {
	_, err := applyTo(f.c, run)
	return err
}

// Close implements Effects.
func (f restoredEffects) Close() error { return f.c.Close() }
