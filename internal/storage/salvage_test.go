package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// churned makes a store whose tables and logs hold keys that were set, set again, deleted
// one by one and by ranges, merged, moved and cut into parts, and takes the process away.
// It returns its keys.
func churned(t *testing.T, seed uint64) (*MemFS, map[string]string) {
	t.Helper()
	fs := NewMemFS()
	e := openMem(t, fs)
	rng := rand.New(rand.NewPCG(seed, 0))
	c, _ := e.OpenCounter(testRecords)
	text := strings.Repeat("some text to fill blocks with; ", 20)
	for step := range 40 {
		for range 20 {
			u := e.Begin()
			id := FirstIdent + Ident(rng.IntN(4))*100
			for range 10 {
				key := fmt.Appendf(nil, "%04d", rng.IntN(2000))
				switch rng.IntN(8) {
				case 0:
					u.Delete(id, key, 10)
				case 1:
					if rng.IntN(20) == 0 {
						u.DeleteRange(id, key, fmt.Appendf(nil, "%04d", rng.IntN(2000)))
					}
				default:
					u.Set(id, key, fmt.Appendf(nil, "%d %s", rng.Int(), text))
				}
			}
			u.Add(c, 0, 1)
			u.AddSums(IdentWindows, []byte{byte(rng.IntN(8))}, []int64{1, 2, 3})
			if err := u.Commit(context.Background(), Journaled); err != nil {
				t.Fatal(err)
			}
		}
		if step%5 == 4 && step < 38 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if step%12 == 11 {
			if _, err := e.Compact(context.Background(), FirstIdent+Ident(rng.IntN(4))*100); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys := map[string]string{}
	it, err := e.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		keys[string(it.Key())] = string(it.Value())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return fs.Crash(100, nil), keys
}

// salvaged is what can be read of a store, and what was found.
func salvaged(t *testing.T, fs FS) (*Examination, map[string]string) {
	t.Helper()
	x, err := Examine(context.Background(), fs, "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	keys := map[string]string{}
	last := []byte(nil)
	err = x.Each(context.Background(), func(id Ident, key, value []byte) error {
		if x.Unlisted && (id == IdentCounters || id == IdentWindows) {
			return nil // may be counted twice
		}
		k := appendKey(nil, id, key)
		if bytes.Compare(k, last) <= 0 && last != nil {
			return fmt.Errorf("%x comes behind %x", k, last)
		}
		last = k
		keys[string(k)] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return x, keys
}

// TestSalvageWhole reads a store that is whole file by file: it holds what the engine
// says, also where the manifest is gone.
func TestSalvageWhole(t *testing.T) {
	for seed := range uint64(3) {
		fs, keys := churned(t, seed)
		before := content(t, fs)
		x, got := salvaged(t, fs)
		if len(x.Damages) > 0 || len(x.Losses) > 0 || x.Unlisted {
			t.Errorf("found %v, %v", x.Damages, x.Losses)
		}
		compareSalvaged(t, "whole", got, keys)
		if after := content(t, fs); !maps.Equal(before, after) {
			t.Error("the store has changed")
		}
		for name := range before {
			if kindOf(name) == "MANIFEST" || kindOf(name) == "marker" {
				fs.Remove("db/" + name)
			}
		}
		if x, got = salvaged(t, fs); !x.Unlisted || len(x.Damages) == 0 {
			t.Errorf("without manifest: found %v", x.Damages)
		}
		maps.DeleteFunc(keys, func(k, _ string) bool { return k[0] == byte(IdentCounters) || k[0] == byte(IdentWindows) })
		// A table that a compaction has replaced, and that was still there, brings back what was removed.
		maps.DeleteFunc(got, func(k, _ string) bool { _, there := keys[k]; return !there })
		compareSalvaged(t, "without manifest", got, keys)
	}
}

func compareSalvaged(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	missing, extra, other := 0, 0, 0
	for k, v := range want {
		if g, ok := got[k]; !ok {
			missing++
		} else if g != v {
			other++
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			extra++
		}
	}
	t.Errorf("%s: of %d keys %d are missing, %d differ, and there are %d more", what, len(want), missing, other, extra)
}

// TestSalvageDamaged flips bits in tables and in logs: what is lost is told, keys that are not
// among that are right, and a part of it is little.
func TestSalvageDamaged(t *testing.T) {
	image, keys := churned(t, 7)
	files := content(t, image)
	rng := rand.New(rand.NewPCG(15, 0))
	for _, kind := range []string{"sst", "log", "MANIFEST"} {
		names := slices.Sorted(maps.Keys(files))
		names = slices.DeleteFunc(names, func(n string) bool { return kindOf(n) != kind || len(files[n]) == 0 })
		lost := 0
		for range 60 {
			name := names[rng.IntN(len(names))]
			at, bit := rng.IntN(len(files[name])), rng.IntN(8)
			what := fmt.Sprintf("bit %d of byte %d of %s", bit, at, name)
			fs := image.Crash(100, nil)
			flip(t, fs, "db/"+name, int64(at), files[name][at]^1<<bit)
			x, got := salvaged(t, fs)
			for k, v := range keys {
				if got[k] == v || x.mayLose([]byte(k)) || x.Unlisted && (k[0] == byte(IdentCounters) || k[0] == byte(IdentWindows)) {
					continue
				}
				t.Errorf("%s: key %x is not right, and is not among %v", what, k, x.Losses)
				break
			}
			for k := range got {
				if _, ok := keys[k]; !ok && !x.mayLose([]byte(k)) && !x.Unlisted {
					t.Errorf("%s: key %x has come back, and is not among %v", what, k, x.Losses)
					break
				}
			}
			if len(got) < len(keys) {
				lost += len(keys) - len(got)
			}
			e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, JournalInterval: time.Hour, ReadOnly: true})
			if err == nil {
				err = e.Close()
			}
			if err != nil && len(x.Damages) == 0 {
				t.Errorf("%s: refused with %v, but nothing was found", what, err)
			}
			if err != nil && !errors.Is(err, ErrCorruption) {
				t.Errorf("%s: %v", what, err)
			}
		}
		t.Logf("%s: %d keys of %d lost in 60 times", kind, lost, 60*len(keys))
	}
}

// mayLose says whether a key is among what is said to be lost.
func (x *Examination) mayLose(key []byte) bool {
	return slices.ContainsFunc(x.Losses, func(l Loss) bool {
		if l.Writes != nil {
			return true
		}
		lower, upper := appendKey(nil, l.First, l.Lower), appendKey(nil, l.Last, l.Upper)
		return bytes.Compare(lower, key) <= 0 && bytes.Compare(key, upper) <= 0
	})
}
