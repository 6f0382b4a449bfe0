package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	store, id := NewKey(), NewStoreID()
	right, wrong := KeyMaster(NewKey()), KeyMaster(NewKey())
	l, err := NewLock(store, id, right)
	if err != nil {
		t.Fatal(err)
	}
	text := l.Encode(false)
	open := func(b []byte, m Master) (Key, error) {
		l, err := DecodeLock(b)
		if err != nil {
			return nil, err
		}
		key, got, err := l.Open(m)
		if err == nil && got != id {
			t.Error("the id of the store is another one")
		}
		return key, err
	}
	if key, err := open(text, right); err != nil || !bytes.Equal(key, store) {
		t.Fatal(err)
	}
	if _, err := open(text, wrong); !errors.Is(err, ErrOtherMaster) || !strings.Contains(err.Error(), wrong.ID()) || !strings.Contains(err.Error(), right.ID()) {
		t.Errorf("another master key: %v", err)
	}
	for i := range text {
		b := bytes.Clone(text)
		b[i] ^= 1
		if key, err := open(b, right); err == nil {
			// Space between words, and bits of base64 that say nothing.
			if got, err := DecodeLock(b); err != nil || !bytes.Equal(key, store) || !reflect.DeepEqual(got, l) {
				t.Errorf("byte %d, %q as %q, is not missed", i, text[i], b[i])
			}
		} else if !errors.Is(err, ErrLockDamaged) && !errors.Is(err, ErrOtherMaster) && !strings.Contains(err.Error(), "format") {
			t.Errorf("byte %d: %v", i, err)
		}
		if _, err := open(text[:i], right); !errors.Is(err, ErrLockDamaged) && i < len(text)-1 {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	if bytes.Contains(text, store) || bytes.Contains(text, right) {
		t.Error("a key is in the lock")
	}
}

func TestParseKey(t *testing.T) {
	for _, text := range []string{"", "abc", "AAAA", strings.Repeat("A", 44), "!" + strings.Repeat("A", 42) + "="} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
	if k, err := ParseKey(strings.Repeat("A", 43) + "=\n"); err != nil || len(k) != KeyBytes {
		t.Error(err)
	}
}

// TestCommandMaster wraps by a program, which may fail, say nothing, or say what is no key.
func TestCommandMaster(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) CommandMaster {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return CommandMaster(p)
	}
	m := script("good", `case $1 in wrap) base64 -w0 ;; unwrap) base64 -d ;; *) exit 1 ;; esac`)
	store, id := NewKey(), NewStoreID()
	l, err := NewLock(store, id, m)
	if err != nil {
		t.Fatal(err)
	}
	if key, _, err := l.Open(m); err != nil || !bytes.Equal(key, store) {
		t.Fatal(err)
	}
	if _, _, err := l.Open(KeyMaster(NewKey())); !errors.Is(err, ErrOtherMaster) {
		t.Errorf("a key in place of the command: %v", err)
	}
	if _, _, err := l.Open(script("other", "cat")); !errors.Is(err, ErrUnopened) || errors.Is(err, ErrLockDamaged) {
		t.Errorf("another command: %v", err)
	}
	for text, want := range map[string]string{
		"echo no such key >&2; exit 3": "exit status 3: no such key",
		"echo '!'":                     "answered with no key",
		"true":                         "answered with no key",
	} {
		if _, _, err := l.Open(script("bad", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := CommandMaster(filepath.Join(dir, "none")).Wrap(store, id); err == nil {
		t.Error("a program that is missing has wrapped a key")
	}
}

// TestHeader opens headers under wrong names, kinds, stores, keys, and with each byte changed.
func TestHeader(t *testing.T) {
	store, id := NewKey(), NewStoreID()
	key, h, err := NewHeader(store, id, KindBlocks, "000012.sst")
	if err != nil || len(h) != HeaderBytes {
		t.Fatal(len(h), err)
	}
	if got, err := OpenHeader(store, id, KindBlocks, "000012.sst", h); err != nil || !bytes.Equal(got, key) {
		t.Fatal(err)
	}
	for what, open := range map[string]func() (Key, error){
		"name":  func() (Key, error) { return OpenHeader(store, id, KindBlocks, "000013.sst", h) },
		"kind":  func() (Key, error) { return OpenHeader(store, id, KindRecords, "000012.sst", h) },
		"store": func() (Key, error) { return OpenHeader(store, NewStoreID(), KindBlocks, "000012.sst", h) },
		"key":   func() (Key, error) { return OpenHeader(NewKey(), id, KindBlocks, "000012.sst", h) },
		"cut":   func() (Key, error) { return OpenHeader(store, id, KindBlocks, "000012.sst", h[:40]) },
	} {
		if _, err := open(); !errors.Is(err, ErrHeader) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range h {
		b := bytes.Clone(h)
		b[i] ^= 1
		if _, err := OpenHeader(store, id, KindBlocks, "000012.sst", b); !errors.Is(err, ErrHeader) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if _, h, _ = NewHeader(store, id, KindBlocks, ""); h != nil {
		if _, err := OpenHeader(store, id, KindBlocks, "000012.sst", h); err != nil {
			t.Errorf("a file that may have any name: %v", err)
		}
	}
}
