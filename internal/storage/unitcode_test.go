package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// encodedUnit is a unit with a write of each kind, and its encoding.
func encodedUnit(t testing.TB, e *Engine) ([]byte, *Counter) {
	t.Helper()
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		t.Fatal(err)
	}
	u := e.Begin()
	defer u.Abort()
	id := u.NewIdent(CommonIdents)
	u.Set(id, []byte("a"), []byte("one"))
	u.Delete(testRecords, []byte("b"), -1)
	u.Delete(testRecords, []byte("c"), 5)
	u.DeleteRange(testRecords, []byte("d"), []byte("e"))
	u.DeleteRange(testMirror, nil, nil)
	u.OrBits(IdentMultikey, AppendIdent(nil, id), []byte{5})
	u.AddSums(IdentWindows, AppendIdent(nil, id), []int64{1, -2, 3})
	u.Set(IdentCatalog, AppendIdent(nil, id), []byte("descriptor"))
	u.Add(c, 0, 7)
	u.Add(c, 1, -300)
	if err := u.Seal(); err != nil {
		t.Fatal(err)
	}
	return u.AppendEncoded(nil), c
}

// TestUnitEncoding holds the bytes of an encoded unit, and that another engine has
// the same keys after it.
func TestUnitEncoding(t *testing.T) {
	e := openMem(t, NewMemFS())
	b, _ := encodedUnit(t, e)
	want, err := os.ReadFile("testdata/unit.hex")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
		t.Fatalf("the encoding is\n%s\nwant\n%s", got, want)
	}
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		t.Fatal(err)
	}
	for at := uint64(3); at < 5; at++ {
		u, rest, err := e.Decode(append(bytes.Clone(b), "rest"...))
		if err != nil || string(rest) != "rest" {
			t.Fatalf("%q, %v", rest, err)
		}
		if err := u.Bind(func(Ident) *Counter { return nil }); !errors.Is(err, ErrCorruption) {
			t.Errorf("no counter: %v", err)
		}
		if err := u.Bind(func(Ident) *Counter { return c }); err != nil {
			t.Fatal(err)
		}
		if again := u.AppendEncoded(nil); !bytes.Equal(again, b) {
			t.Error("it is not encoded again as it was")
		}
		if err := u.Apply(at); err != nil {
			t.Fatal(err)
		}
		u.Abort()
	}
	if c.Load(0) != 14 || c.Load(1) != -600 || e.Applied() != 4 || e.idents.next[CommonIdents] != FirstIdent+1 {
		t.Errorf("counted %d, %d; applied %d, next ident %d", c.Load(0), c.Load(1), e.Applied(), e.idents.next[CommonIdents])
	}
	var keys strings.Builder
	if err := e.EachKey(func(id Ident, key, v []byte) error {
		fmt.Fprintf(&keys, "%d %q=%x own=%t\n", id, key, v, OwnKey(id, key))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if keys.String() != `0 "applied"=0000000000000004 own=true
0 "next-ident"=0000000000000011 own=false
1 "\x14"=731caf09 own=false
2 "\x10"=64657363726970746f72 own=false
3 "\x10"=6f05 own=false
6 "\x10"=7304070c own=false
16 "a"=6f6e65 own=false
` {
		t.Errorf("the keys are\n%s", keys.String())
	}
}

// TestUnitDecodeRefuses: writes that no unit of a member for all others makes.
func TestUnitDecodeRefuses(t *testing.T) {
	e := openMem(t, NewMemFS())
	for name, f := range map[string]func(u *Unit){
		"own keyspace": func(u *Unit) { u.Set(FirstOwnIdent+3, []byte("a"), nil) },
		"own range": func(u *Unit) {
			u.DeleteRange(FirstOwnIdent-1, nil, []byte("a"))
			u.DeleteRange(FirstOwnIdent, nil, nil)
		},
		"own descriptor":  func(u *Unit) { u.Set(IdentCatalog, AppendIdent(nil, FirstOwnIdent), nil) },
		"own windows":     func(u *Unit) { u.AddSums(IdentWindows, AppendIdent(nil, FirstOwnIdent), []int64{1}) },
		"all descriptors": func(u *Unit) { u.DeleteRange(IdentCatalog, nil, nil) },
		"raft":            func(u *Unit) { u.Set(IdentRaft, []byte("a"), nil) },
		"applied":         func(u *Unit) { u.batch.Set(keyApplied, nil, nil) },
		"single delete":   func(u *Unit) { u.batch.SingleDelete([]byte{20}, nil) },
		"operand":         func(u *Unit) { u.batch.Merge([]byte{20}, []byte("x"), nil) },
		"no ident":        func(u *Unit) { u.batch.Set([]byte{0xf9, 1}, nil, nil) },
	} {
		u := e.Begin()
		f(u)
		if err := u.Seal(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Decode(u.AppendEncoded(nil)); !errors.Is(err, ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
		u.Abort()
	}
	whole, _ := encodedUnit(t, e)
	for n := range whole {
		if _, _, err := e.Decode(whole[:n]); !errors.Is(err, ErrCorruption) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
}

// TestDecodedStaysAsItIs applies decoded units alone, together, and with writes behind
// them: what they were decoded from is not written to, then or by units that follow.
func TestDecodedStaysAsItIs(t *testing.T) {
	e := openMem(t, NewMemFS())
	b, _ := encodedUnit(t, e)
	was := bytes.Clone(b)
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(0)
	for _, n := range []int{1, 2, 20} {
		var units []*Unit
		for i := range n {
			u, _, err := e.Decode(b)
			if err == nil {
				err = u.Bind(func(Ident) *Counter { return c })
			}
			if err == nil && i%2 == 0 {
				err = u.Set(testRecords, []byte("behind"), []byte{byte(n)})
			}
			if err == nil && i == 4 {
				v, closer, getErr := u.Get(FirstIdent, []byte("a")) // it is read, too
				if err = getErr; err == nil && string(v) != "one" {
					t.Errorf("a is %q", v)
				}
				if err == nil {
					err = closer.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			units = append(units, u)
		}
		at += uint64(n)
		if err := e.ApplyAll(units, at); err != nil {
			t.Fatal(err)
		}
		for _, u := range units {
			u.Abort()
		}
		if v, closer, err := e.Get(testRecords, []byte("behind")); err != nil || !bytes.Equal(v, []byte{byte(n)}) {
			t.Fatalf("%x: %v", v, err)
		} else if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			u := e.Begin()
			if err := errors.Join(u.Set(testRecords, []byte("other"), bytes.Repeat([]byte("x"), 2*len(b))), u.Commit(t.Context(), Buffered)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(b, was) {
			t.Fatalf("after %d units the encoding is\n%x\nand was\n%x", n, b, was)
		}
	}
	if got := c.Load(0); got != 7*23 {
		t.Errorf("counted %d", got)
	}
}

func FuzzDecodeUnit(f *testing.F) {
	e, err := Open(Options{Dir: "db", FS: NewMemFS(), CacheBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	b, _ := encodedUnit(f, e)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		u, rest, err := e.Decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorruption) {
				t.Fatal(err)
			}
			return
		}
		defer u.Abort()
		if again, _, err := e.Decode(u.AppendEncoded(nil)); err != nil || len(rest) > len(b) {
			t.Fatal(err)
		} else {
			again.Abort()
		}
	})
}
