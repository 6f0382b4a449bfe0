package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// writeKey sets a key of a keyspace, durably.
func writeKey(t *testing.T, e *Engine, id Ident, key, value string) {
	t.Helper()
	u := e.Begin()
	if err := errors.Join(u.Set(id, []byte(key), []byte(value)), u.Commit(t.Context(), Journaled)); err != nil {
		t.Fatal(err)
	}
}

func readKey(t *testing.T, e *Engine, id Ident, key string) string {
	t.Helper()
	v, closer, err := e.Get(id, []byte(key))
	if errors.Is(err, ErrNotFound) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	return string(v)
}

func openAt(t *testing.T, fs FS, dir string) *Engine {
	t.Helper()
	e, err := Open(Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A switch fails or crashes at each operation of the file system in turn: then the
// server has the old store or the new one, whole.
func TestSwitchIsOneStep(t *testing.T) {
	for failAt := 0; ; failAt++ {
		fs := NewMemFS()
		for _, dir := range []string{"db", "db/incoming"} {
			e := openAt(t, fs, dir)
			writeKey(t, e, FirstIdent, "where", dir)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		fs.SetFault(func(op, name string) error {
			if n++; n > failAt {
				return fmt.Errorf("%s of %s fails", op, name)
			}
			return nil
		})
		_, err := Switch(fs, "db", "db/incoming")
		fs.SetFault(nil)
		for _, percent := range []int{0, 100} {
			disk := fs.Crash(percent, nil)
			place, placeErr := Place(disk, "db")
			if placeErr != nil {
				t.Fatal(placeErr)
			}
			e := openAt(t, disk, place)
			got := readKey(t, e, FirstIdent, "where")
			if place == "db" && got != "db" || place == "db/store-1" && got != "db/incoming" || err == nil && place != "db/store-1" {
				t.Errorf("failure %d (%v): %s has the store of %s", failAt, err, place, got)
			}
			if e := e.Close(); e != nil {
				t.Fatal(e)
			}
		}
		if err == nil {
			if failAt == 0 {
				t.Error("nothing was made to fail")
			}
			break
		}
	}
}

func TestSwitchAgain(t *testing.T) {
	fs := NewMemFS()
	first := openAt(t, fs, "db")
	writeKey(t, first, FirstIdent, "n", "first")
	if err := errors.Join(first.Flush(), first.Close()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "db/server.log", "not of the store")
	for i := range 3 {
		e := openAt(t, fs, "db/incoming")
		writeKey(t, e, FirstIdent, "n", fmt.Sprint(i))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		place, err := Switch(fs, "db", "db/incoming")
		if err != nil || place != fmt.Sprintf("db/store-%d", i+1) {
			t.Fatalf("%s, %v", place, err)
		}
	}
	if err := RemoveOldPlaces(fs, "db"); err != nil {
		t.Fatal(err)
	}
	place, err := Place(fs, "db")
	list, _ := fs.List("db")
	slices.Sort(list)
	if err != nil || !slices.Equal(list, []string{"LOCK", "mayfly.place", "server.log", "store-3"}) {
		t.Errorf("%v is left: %v", list, err)
	}
	e := openAt(t, fs, place)
	defer e.Close()
	if got := readKey(t, e, FirstIdent, "n"); got != "2" {
		t.Errorf("the store of switch %s", got)
	}
	writeFile(t, fs, "db/mayfly.place", "elsewhere\n")
	if _, err := Place(fs, "db"); !errors.Is(err, ErrCorruption) {
		t.Errorf("a damaged place: %v", err)
	}
}

func writeFile(t *testing.T, fs *MemFS, name, text string) {
	t.Helper()
	f, err := fs.Create(name, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A store of another member keeps what all have, and gets this member's own.
func TestTakeOwn(t *testing.T) {
	fs := NewMemFS()
	mine, theirs := openAt(t, fs, "mine"), openAt(t, fs, "theirs")
	defer mine.Close()
	own := string(AppendIdent(nil, FirstOwnIdent+3))
	common := string(AppendIdent(nil, FirstIdent+3))
	for _, k := range []struct {
		id  Ident
		key string
	}{{IdentCatalog, own}, {IdentCatalog, common}, {IdentWindows, own}, {FirstOwnIdent + 3, "doc"}, {FirstIdent + 3, "doc"}, {IdentParams, "p"}, {IdentRaft, "r"}} {
		writeKey(t, mine, k.id, k.key, "mine")
		writeKey(t, theirs, k.id, k.key, "theirs")
	}
	writeKey(t, theirs, FirstOwnIdent+4, "doc", "theirs")
	u := mine.Begin()
	u.NewIdent(OwnIdents)
	taken := u.NewIdent(OwnIdents)
	if err := u.Commit(t.Context(), Journaled); err != nil {
		t.Fatal(err)
	}
	if err := theirs.TakeOwn(mine); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	e := openAt(t, fs.Crash(0, nil), "theirs")
	defer e.Close()
	for _, k := range []struct {
		id        Ident
		key, want string
	}{{IdentCatalog, own, "mine"}, {IdentCatalog, common, "theirs"}, {IdentWindows, own, "mine"}, {FirstOwnIdent + 3, "doc", "mine"},
		{FirstOwnIdent + 4, "doc", "(none)"}, {FirstIdent + 3, "doc", "theirs"}, {IdentParams, "p", "theirs"}, {IdentRaft, "r", "theirs"}} {
		if got := readKey(t, e, k.id, k.key); got != k.want {
			t.Errorf("keyspace %d, key %x is %s, not %s", k.id, k.key, got, k.want)
		}
	}
	u = e.Begin()
	defer u.Abort()
	if next := u.NewIdent(OwnIdents); next <= taken {
		t.Errorf("the own ident %d is given out again after %d", next, taken)
	}
}
