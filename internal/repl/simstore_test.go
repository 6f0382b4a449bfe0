package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
	"google.golang.org/protobuf/proto"
)

// twin is a real store on a file system in memory, which does what the model of a
// disk does. After each crash and at the end both must hold the same.
type twin struct {
	fs    *storage.MemFS
	store *Store
}

func openTwin(fs *storage.MemFS) (*twin, error) {
	s, err := OpenStore(StoreOptions{FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		// The journal syncs when it is asked to, never by itself: as the model.
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 4 << 20, JournalInterval: time.Hour})
	}, Effects: func(e *storage.Engine) (Effects, error) { return writes{e}, nil }})
	return &twin{fs, s}, err
}

// crash is the machine's: nothing is left that was not synced.
func (t *twin) crash() (*twin, error) {
	fs := t.fs.Crash(0, nil)
	if err := t.store.Close(); err != nil {
		return nil, err
	}
	return openTwin(fs)
}

// same says whether the store holds what the model does: nil, or what differs.
func (t *twin) same(c *content) error {
	index, state, err := t.store.Applied()
	if err != nil {
		return err
	}
	if index != c.at.Index || !bytes.Equal(state, c.state) {
		return fmt.Errorf("the store has applied %d, the model %d", index, c.at.Index)
	}
	if !proto.Equal(t.store.HardState(), c.hard) {
		return fmt.Errorf("the store has the hard state %v, the model %v", t.store.HardState(), c.hard)
	}
	last := c.base.Index + uint64(len(c.entries))
	if t.store.Base().Index != c.base.Index || t.store.Base().Term != c.base.Term || t.store.Last() != last {
		return fmt.Errorf("the store's log is after %v up to %d, the model's after %v up to %d", t.store.Base(), t.store.Last(), c.base, last)
	}
	if len(c.entries) > 0 {
		entries, err := t.store.Entries(c.base.Index+1, last+1, 1<<40)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if m := c.entries[i]; e.GetIndex() != m.GetIndex() || e.GetTerm() != m.GetTerm() || e.GetType() != m.GetType() || !bytes.Equal(e.GetData(), m.GetData()) {
				return fmt.Errorf("the store has the entry %v, the model %v", e, c.entries[i])
			}
		}
	}
	for k, v := range c.data {
		got, closer, err := t.store.engine.Get(storage.FirstIdent, binary.BigEndian.AppendUint64(nil, uint64(k)))
		if err != nil || !bytes.Equal(got, v) {
			return fmt.Errorf("key %d of the store is %x, not %x: %v", k, got, v, err)
		}
		closer.Close()
	}
	return nil
}

// snapshot copies a checkpoint into another file system's incomingDir.
func (t *twin) snapshot(n int) (copyTo func(*twin) error, err error) {
	dir := fmt.Sprintf("db/%s%d", outgoingPrefix, n)
	if err := t.store.engine.Checkpoint(dir); err != nil {
		return nil, err
	}
	from := t.fs
	return func(to *twin) error {
		incoming := to.fs.PathJoin("db", incomingDir)
		if err := errors.Join(to.fs.RemoveAll(incoming), to.fs.MkdirAll(incoming, 0o755)); err != nil {
			return err
		}
		names, err := from.List(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := copyFile(to.fs, incoming+"/"+name, from, dir+"/"+name); err != nil {
				return err
			}
		}
		for _, path := range []string{incoming, "db"} {
			d, err := to.fs.OpenDir(path)
			if err != nil {
				return err
			}
			if err := errors.Join(d.Sync(), d.Close()); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func copyFile(toFS storage.FS, to string, fromFS storage.FS, from string) error {
	in, err := fromFS.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := toFS.Create(to, "")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, struct{ io.Reader }{in})
	return errors.Join(err, out.Sync(), out.Close())
}

// A part of the seeds runs on real stores beside the model: log, machine, snapshots and the
// switch, through crashes at every step.
func TestSimulationOnStores(t *testing.T) {
	for seed := uint64(*simFirst); seed < uint64(*simFirst+max(8, *simSeeds/10)); seed++ {
		w := simulateOn(seed, nil, true)
		for _, h := range w.hosts {
			if err := h.disk.twin.same(h.disk.live); err != nil && w.failure == nil {
				w.fail("host %d: %v", h.n, err)
			}
			if err := h.disk.twin.store.Close(); err != nil {
				t.Error(err)
			}
		}
		if w.failure != nil {
			t.Fatalf("seed %d: %v", seed, w.failure)
		}
	}
}
