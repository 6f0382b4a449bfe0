package repl

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestRestoration restores copies that were made between and within chains to the time of each
// of many entries, by pieces of the log that end anywhere: what is there is what was committed
// until then.
func TestRestoration(t *testing.T) {
	ms := newMachines(t)
	a := ms.chained("a:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(0); err != nil {
		t.Fatal(err)
	}
	type commit struct {
		at   Position
		docs int64
	}
	commits := []commit{{at: a.Applied(), docs: 1}}
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range int32(60) {
			n := int32(1)
			if i%3 == 0 {
				n = 100 // a chain
			}
			o, err := a.insertMany(1+i*100, n)
			if err != nil {
				t.Error(err)
				return
			}
			commits = append(commits, commit{o.Last(), commits[len(commits)-1].docs + int64(n)})
		}
	})
	type made struct {
		dir string
		Copied
	}
	var copies []made
	cut := 0 // within chains
	for i := range 20 {
		m := made{dir: fmt.Sprintf("copy%d", i)}
		var err error
		if m.Copied, err = a.Copy(t.Context(), m.dir); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, m)
	}
	writing.Wait()
	open := func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: a.fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}
	for _, m := range copies {
		r, err := OpenRestoration(a.fs, m.dir, open, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if r.Applied().Index != m.At.Index {
			t.Errorf("the copy has entry %d, and says %d", r.Applied().Index, m.At.Index)
		}
		if r.store.partsTerm != 0 {
			cut++
		}
		until := commits[rand.IntN(len(commits))]
		if until.at.Index < m.At.Index {
			until = commits[len(commits)-1]
		}
		for more, at := true, m.At; more; {
			p, err := a.ReadLog(at.Index, at.Term, 1+rand.IntN(5000))
			if err != nil {
				t.Fatal(err)
			}
			if p.First == 0 {
				break
			}
			if more, err = r.Apply(p.Bytes, until.at.Time); err != nil {
				t.Fatal(err)
			}
			at = Position{Index: p.Last, Term: p.Term}
		}
		if r.Applied().Time > until.at.Time {
			t.Errorf("an entry of %s was applied, up to %s", r.Applied().Time, until.at.Time)
		}
		if err := r.Finish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		e, err := open(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := catalog.Open(e, catalog.Options{Committer: Local{}})
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Lookup(testNamespace).Count(); n != until.docs {
			t.Errorf("from %d to %d: %d documents, not %d", m.At.Index, until.at.Index, n, until.docs)
		}
		config, err := Stored(e)
		if err != nil || config != nil || e.Applied() != 0 {
			t.Errorf("what was restored belongs to %v, applied is %d: %v", config, e.Applied(), err)
		}
		if err := errors.Join(c.Close(), e.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d copies were made within a chain", cut, len(copies))
	a.stopAll(t)
}

// stopAll ends a process.
func (p *process) stopAll(t *testing.T) {
	t.Helper()
	p.replica.Stop()
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestRestorationRefuses gives a restoration entries that do not follow, or are cut off, and
// reads the log behind an entry of another term.
func TestRestorationRefuses(t *testing.T) {
	ms := newMachines(t)
	a := ms.chained("a:1", storage.NewMemFS())
	defer a.stopAll(t)
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(0); err != nil {
		t.Fatal(err)
	}
	copied, err := a.Copy(t.Context(), "copy")
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(5) {
		if _, err := a.insert(1 + i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.ReadLog(copied.At.Index, copied.At.Term+1, 1<<20); !errors.Is(err, ErrOtherLog) {
		t.Errorf("another term: %v", err)
	}
	if p, err := a.ReadLog(a.Applied().Index, a.Applied().Term, 1<<20); err != nil || p.First != 0 {
		t.Errorf("at the end: %v, %v", p, err)
	}
	if _, err := a.ReadLog(0, 0, 1<<20); !errors.Is(err, ErrHistoryLost) {
		t.Errorf("before the beginning: %v", err)
	}
	p, err := a.ReadLog(copied.At.Index, copied.At.Term, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRestoration(a.fs, "copy", func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: a.fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, first, rest, err := cutEntry(p.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{"a missing entry": rest, "a piece of an entry": p.Bytes[:len(first)/2]} {
		if _, err := r.Apply(b, 1<<64-1); !errors.Is(err, storage.ErrCorruption) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
