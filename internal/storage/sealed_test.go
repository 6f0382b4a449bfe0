package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/seal"
)

// encrypted has all file systems in memory encrypted until the test ends.
func encrypted(t *testing.T) {
	t.Helper()
	memKeys = &sealedFS{key: seal.NewKey(), id: seal.NewStoreID()}
	t.Cleanup(func() { memKeys = nil })
}

// TestEncrypted runs the tests of crashes, full disks and damage on encrypted stores: what tears,
// is cut or flipped is what the disk has.
func TestEncrypted(t *testing.T) {
	encrypted(t)
	for name, f := range map[string]func(*testing.T){
		"Crash": TestCrash, "CrashAtEveryOperation": TestCrashAtEveryOperation, "CreationCut": TestCreationCut, "TornLog": TestTornLog,
		"DiskFull": TestDiskFull, "FailedSync": TestFailedSyncIsFatal, "Buffered": TestBufferedIsDurableWithinInterval,
		"FlippedBits": TestFlippedBits, "MissingFiles": TestMissingFiles, "ReadOnly": TestReadOnlyDirectory,
		"Switch": TestSwitchIsOneStep, "SwitchAgain": TestSwitchAgain, "Apart": TestApart, "ApartOnFullDisk": TestApartOnFullDisk, "ApartIsSalvaged": TestApartIsSalvaged,
		"Checkpoint": TestCheckpointAndSizes, "CheckpointWithout": TestCheckpointWithout, "Salvage": TestSalvageWhole, "SalvageDamaged": TestSalvageDamaged,
	} {
		t.Run(name, f)
	}
}

// marks are what must not be seen on a disk.
func marks() (all [][]byte) {
	for i := range 20 {
		all = append(all, fmt.Appendf(nil, "MARK-%02d-key-%s", i, strings.Repeat(string(rune('a'+i)), 8)), fmt.Appendf(nil, "MARK-%02d-value", i))
	}
	return all
}

// writeMarks fills a store with marks, in logs, in tables, in one stored apart and in a checkpoint.
func writeMarks(t *testing.T, fs FS, dir string) {
	t.Helper()
	e, err := Open(Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20, Compression: CompressionNone})
	if err != nil {
		t.Fatal(err)
	}
	all := marks()
	for i := 0; i < len(all); i += 2 {
		writeKey(t, e, FirstIdent, string(all[i]), string(all[i+1]))
		if i == len(all)/2 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	u := e.Begin()
	for i := range 2000 {
		if err := u.Set(FirstIdent+1, fmt.Appendf(nil, "%s-%05d", all[0], i), bytes.Repeat(all[1], 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(u.Seal(), u.ApplyApart(1, FirstIdent+1, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Checkpoint(fs.PathJoin(dir, "copy")), e.Close()); err != nil {
		t.Fatal(err)
	}
}

// everything is each file below a directory.
func everything(t *testing.T, fs FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		p := fs.PathJoin(dir, n)
		info, err := fs.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			maps.Copy(out, everything(t, fs, p))
			continue
		}
		f, err := fs.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size())
		if _, err := f.ReadAt(b, 0); err != nil && info.Size() > 0 {
			t.Fatal(p, err)
		}
		f.Close()
		out[p] = string(b)
	}
	return out
}

// seen is which of the marks are in files.
func seen(t *testing.T, fs FS, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, b := range everything(t, fs, dir) {
		for _, m := range marks() {
			if strings.Contains(b, string(m)) {
				found[string(m)] = name
			}
		}
	}
	return found
}

// TestNothingIsSeen writes marked keys and values, and looks for them in every file: all are
// found where the store is not encrypted, and none where it is.
func TestNothingIsSeen(t *testing.T) {
	plain := vfs.NewMem()
	writeMarks(t, plain, "db")
	if found := seen(t, plain, "db"); len(found) != len(marks()) {
		t.Fatalf("only %d of %d marks are found where nothing is encrypted", len(found), len(marks()))
	}
	below := vfs.NewMem()
	m := seal.KeyMaster(seal.NewKey())
	if err := errors.Join(below.MkdirAll("db", 0o700), Encrypt(below, "db", m)); err != nil {
		t.Fatal(err)
	}
	fs, err := Unlock(below, "db", m)
	if err != nil {
		t.Fatal(err)
	}
	writeMarks(t, fs, "db")
	if found := seen(t, below, "db"); len(found) > 0 {
		t.Errorf("found on the disk: %v", found)
	}
	// (Keys in tables have their common prefixes once.)
	if found, as := seen(t, fs, "db/copy"), seen(t, plain, "db/copy"); len(found) != len(as) || len(as) < 10 {
		t.Errorf("a checkpoint has %d marks of %d", len(found), len(as))
	}
	for name, b := range everything(t, below, "db") {
		if base := fs.PathBase(name); len(b) > 0 && !HasKeys(base) && !seal.IsSealed([]byte(b)) {
			t.Errorf("%s is not sealed", name)
		}
	}
}

// encryptedStore is a directory with an encrypted store.
func encryptedStore(t *testing.T, fs FS, m seal.Master) {
	t.Helper()
	if err := errors.Join(fs.MkdirAll("db", 0o700), Encrypt(fs, "db", m)); err != nil {
		t.Fatal(err)
	}
	store, err := Unlock(fs, "db", m)
	if err != nil {
		t.Fatal(err)
	}
	e := openAt(t, store, "db")
	writeKey(t, e, FirstIdent, "a", "b")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// readsWith reads an encrypted store.
func readsWith(t *testing.T, fs FS, m seal.Master) error {
	t.Helper()
	store, err := Unlock(fs, "db", m)
	if err != nil {
		return err
	}
	e, err := Open(Options{Dir: "db", FS: store, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		return err
	}
	defer e.Close()
	if got := readKey(t, e, FirstIdent, "a"); got != "b" {
		return fmt.Errorf("the key is %q", got)
	}
	return nil
}

// TestKeysThatDoNotFit opens encrypted and plain directories with wrong keys, with none, and
// without what has the keys: each is a clear error, after which nothing has changed.
func TestKeysThatDoNotFit(t *testing.T) {
	right, wrong := seal.KeyMaster(seal.NewKey()), seal.KeyMaster(seal.NewKey())
	plain := func(fs FS) {
		e := openAt(t, fs, "db")
		writeKey(t, e, FirstIdent, "a", "b")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	whole := func(fs FS) { encryptedStore(t, fs, right) }
	begin := func(fs FS, m seal.Master) error {
		if m != nil {
			if err := Encrypt(fs, "db", m); err != nil {
				return err
			}
		}
		return readsWith(t, fs, m)
	}
	none := seal.Master(nil)
	for _, c := range []struct {
		what   string
		make   func(fs FS)
		change func(fs FS)
		m      seal.Master
		want   string
	}{
		{"no key", whole, nil, none, "the data in db are encrypted, under the master key " + right.ID() + ": that key is needed"},
		{"wrong key", whole, nil, wrong, "under a master key that was not given: another master key is needed: " + right.ID() + ", and " + wrong.ID() + " was given"},
		{"plain data, key", plain, nil, right, "the data in db are not encrypted ("},
		{"keys lost, key", whole, func(fs FS) { removeKeys(t, fs) }, right, "the data in db are encrypted (mayfly.format), and the file mayfly.sealed is missing"},
		{"keys lost, no key", whole, func(fs FS) { removeKeys(t, fs) }, none, "the data in db are encrypted (mayfly.format), and the file mayfly.sealed is missing"},
		{"keys cut", whole, func(fs FS) { spoilKeys(t, fs, filesOfKeys[:], func(b []byte) []byte { return b[:50] }) }, right, "mayfly.sealed: it cannot be read: it is damaged"},
		{"keys changed", whole, func(fs FS) {
			spoilKeys(t, fs, filesOfKeys[:], changeStoreKey)
		}, right, "mayfly.sealed: it cannot be read: it is damaged"},
		{"keys of another directory", whole, func(fs FS) {
			l, err := seal.NewLock(seal.NewKey(), seal.NewStoreID(), right)
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, fs, "db/"+lockOfKeys, func([]byte) []byte { return l.Encode(false) })
		}, right, "its header does not open"},
		{"keys of plain data", plain, func(fs FS) {
			l, err := seal.NewLock(seal.NewKey(), seal.NewStoreID(), right)
			if err != nil {
				t.Fatal(err)
			}
			f, err := fs.Create("db/"+lockOfKeys, "")
			if err == nil {
				_, err = f.Write(l.Encode(false))
			}
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
		}, right, "its header does not open"},
	} {
		t.Run(c.what, func(t *testing.T) {
			fs := vfs.NewMem()
			c.make(fs)
			if c.change != nil {
				c.change(fs)
			}
			before := everything(t, fs, "db")
			err := begin(fs, c.m)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if !maps.Equal(before, everything(t, fs, "db")) {
				t.Error("a file has changed")
			}
		})
	}
	fs := vfs.NewMem()
	whole(fs)
	if err := begin(fs, right); err != nil {
		t.Error(err)
	}
}

func removeKeys(t *testing.T, fs FS) {
	t.Helper()
	for _, name := range filesOfKeys {
		if err := fs.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
	}
}

func spoilKeys(t *testing.T, fs FS, names []string, change func([]byte) []byte) {
	t.Helper()
	for _, name := range names {
		rewrite(t, fs, "db/"+name, change)
	}
}

func changeStoreKey(b []byte) []byte { return changeField(b, `"storeKey": "`) }

func changeField(b []byte, field string) []byte {
	at := bytes.Index(b, []byte(field)) + len(field) + 7
	b[at] = map[bool]byte{true: 'b', false: 'a'}[b[at] == 'a']
	return b
}

// TestCopyOfKeys damages and loses one of the two files with keys: the other opens the data, and
// is what both are once the store is open.
func TestCopyOfKeys(t *testing.T) {
	m := seal.KeyMaster(seal.NewKey())
	for _, name := range filesOfKeys {
		for what, change := range map[string]func([]byte) []byte{
			"lost": nil, "cut": func(b []byte) []byte { return b[:50] }, "empty": func([]byte) []byte { return nil }, "changed": changeStoreKey,
			"other id": func(b []byte) []byte { return changeField(b, `"masterKey": "`) },
		} {
			fs := NewMemFS()
			encryptedStore(t, fs, m)
			before := everything(t, fs, "db")
			if change == nil {
				if err := fs.Remove("db/" + name); err != nil {
					t.Fatal(err)
				}
			} else {
				spoilKeys(t, fs, []string{name}, change)
			}
			if err := Encrypt(fs, "db", m); err != nil {
				t.Errorf("%s is %s: %v", name, what, err)
			}
			store, err := Unlock(fs, "db", m)
			if err != nil {
				t.Fatalf("%s is %s: %v", name, what, err)
			}
			e := openAt(t, store, "db")
			if err := errors.Join(KeepKeys(store, "db"), CopyKeys(store, "copy"), e.Close()); err != nil {
				t.Fatal(err)
			}
			after, copied := everything(t, fs, "db"), everything(t, fs, "copy")
			for _, name := range filesOfKeys {
				if was := before["db/"+name]; after["db/"+name] != was || copied["copy/"+name] != was || was == "" {
					t.Errorf("%s is %s, and then not what it was", name, what)
				}
			}
			if after["db/"+lockOfKeys] == after["db/"+copyOfKeys] {
				t.Error("the copy does not say that it is one, and a backup has one object of both")
			}
		}
	}
	// What was rotated after it was read stays.
	fs, to := NewMemFS(), seal.KeyMaster(seal.NewKey())
	encryptedStore(t, fs, m)
	store, err := Unlock(fs, "db", m)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(RotateMasterKey(fs, "db", m, to), KeepKeys(store, "db")); err != nil {
		t.Fatal(err)
	}
	removeOne := fs.Remove("db/" + lockOfKeys)
	if _, err := Unlock(fs, "db", m); removeOne != nil || !errors.Is(err, seal.ErrOtherMaster) {
		t.Errorf("the master key of before: %v", err)
	}
}

func rewrite(t *testing.T, fs FS, name string, change func([]byte) []byte) {
	t.Helper()
	b := []byte(everything(t, fs, fs.PathDir(name))[name])
	f, err := fs.Create(name, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(change(b)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRotateMasterKey rotates, and fails or crashes at each operation of the file system: then
// one of the two keys opens the data, or either, and after success the new one alone.
func TestRotateMasterKey(t *testing.T) {
	from, to := seal.KeyMaster(seal.NewKey()), seal.KeyMaster(seal.NewKey())
	for failAt := 0; ; failAt++ {
		fs := NewMemFS()
		encryptedStore(t, fs, from)
		n := 0
		fs.SetFault(func(op, name string) error {
			if n++; n > failAt {
				return fmt.Errorf("%s of %s fails", op, name)
			}
			return nil
		})
		err := RotateMasterKey(fs, "db", from, to)
		fs.SetFault(nil)
		for _, percent := range []int{0, 100} {
			after := fs.Crash(percent, nil)
			old, now := readsWith(t, after, from), readsWith(t, after, to)
			switch {
			case err == nil && (now != nil || !errors.Is(old, seal.ErrOtherMaster)):
				t.Errorf("rotated: the old key: %v, the new one: %v", old, now)
			case old != nil && now != nil:
				t.Errorf("failed at %d, %d%%: the old key: %v, the new one: %v", failAt, percent, old, now)
			}
		}
		if err == nil {
			break
		}
	}
	fs := NewMemFS()
	encryptedStore(t, fs, from)
	store, err := Unlock(fs, "db", from)
	if err != nil {
		t.Fatal(err)
	}
	e := openAt(t, store, "db")
	if err := RotateMasterKey(fs, "db", from, to); err == nil || !strings.Contains(err.Error(), "Another mayfly instance") {
		t.Errorf("while it is open: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RotateMasterKey(fs, "db", to, from); !errors.Is(err, seal.ErrOtherMaster) {
		t.Errorf("from a wrong key: %v", err)
	}
}

// TestEncryptIsOneStep fails and crashes while a directory becomes encrypted: then it is, or it
// is empty and becomes it later.
func TestEncryptIsOneStep(t *testing.T) {
	m := seal.KeyMaster(seal.NewKey())
	for failAt := 0; ; failAt++ {
		fs := NewMemFS()
		if err := fs.MkdirAll("db", 0o700); err != nil {
			t.Fatal(err)
		}
		n := 0
		fs.SetFault(func(op, name string) error {
			if n++; n > failAt {
				return fmt.Errorf("%s of %s fails", op, name)
			}
			return nil
		})
		err := Encrypt(fs, "db", m)
		fs.SetFault(nil)
		if after := fs.Crash(100, nil); Encrypt(after, "db", m) != nil {
			t.Errorf("failed at %d: %v", failAt, Encrypt(after, "db", m))
		} else if _, err := Unlock(after, "db", m); err != nil {
			t.Errorf("failed at %d: %v", failAt, err)
		}
		if err == nil {
			return
		}
	}
}

// TestSealedFiles holds what a sealed file refuses, and that nothing goes on in a file of before.
func TestSealedFiles(t *testing.T) {
	fs := &sealedFS{FS: vfs.NewMem(), key: seal.NewKey(), id: seal.NewStoreID()}
	write := func(name, text string) {
		t.Helper()
		f, err := fs.Create(name, "")
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write("000001.sst", "one")
	write("000002.sst", "two")
	write("000003.log", "three")
	write("apart.tmp", "apart")
	for _, c := range [][2]string{{"000001.sst", "000009.sst"}, {"000001.sst", "other"}, {"000003.log", "000004.log"}, {"apart.tmp", "000005.log"}} {
		if fs.Rename(c[0], c[1]) == nil || fs.Link(c[0], c[1]) == nil {
			t.Errorf("%s was renamed to %s", c[0], c[1])
		}
	}
	if err := fs.Link("apart.tmp", "000005.sst"); err != nil {
		t.Error(err)
	}
	if err := fs.FS.Rename("000001.sst", "000006.sst"); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Open("000006.sst"); !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "000006.sst is damaged at offset 0: its header does not open") {
		t.Errorf("a file with another's name: %v", err)
	}
	f, err := fs.ReuseForWrite("000003.log", "000007.log", "")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Error("a log that is used again has bytes of before", err)
	}
	f.Close()
	if f, err = fs.OpenReadWrite("000007.log", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 5); err == nil {
		t.Error("a gap was written")
	}
	f.Close()
	info, err := fs.Stat("000002.sst")
	if err != nil || info.Size() != 3 || time.Since(info.ModTime()) > time.Hour {
		t.Error(info, err)
	}
}

// TestReuseOnFullDisk holds that a log takes the space of the one that it is made of, and that
// this is tried again where others took that space.
func TestReuseOnFullDisk(t *testing.T) {
	disk := NewMemFS()
	fs := &sealedFS{FS: disk, key: seal.NewKey(), id: seal.NewStoreID()}
	old, err := fs.Create("000003.log", categoryWAL)
	if err == nil {
		err = old.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	attempts := 0
	disk.SetFault(func(op, name string) error {
		if op != "write" {
			return nil
		}
		attempts++
		if _, err := disk.Stat("000003.log"); err == nil || attempts == 1 {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := fs.ReuseForWrite("000003.log", "000007.log", categoryWAL); !vfs.IsNoSpaceError(err) {
		t.Fatal(err)
	}
	f, err := fs.ReuseForWrite("000003.log", "000007.log", categoryWAL)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
