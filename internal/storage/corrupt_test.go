package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestDamageWhileOpen flips a bit in a table that an open store has not read yet, and in the
// footer of another: reads of it are errors that name it, compactions leave it, and nothing
// is served less.
func TestDamageWhileOpen(t *testing.T) {
	fs := NewMemFS()
	var found []error
	told := make(chan error, 100)
	var log bytes.Buffer
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, JournalInterval: time.Hour,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})), OnCorruption: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("x"), 200)
	fill := func(prefix string) {
		t.Helper()
		u := e.Begin()
		for i := range 500 {
			if err := u.Set(FirstIdent, fmt.Appendf(nil, "%s-%04d", prefix, i), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(u.Commit(t.Context(), Buffered), e.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{}
	newest := func() (string, string) {
		t.Helper()
		for name, b := range content(t, fs) {
			if isTable(name) && !known[name] {
				known[name] = true
				return name, b
			}
		}
		t.Fatal("there is no new table")
		return "", ""
	}
	fill("a")
	whole, _ := newest()
	fill("b")
	block, b := newest()
	flip(t, fs, "db/"+block, 500, b[500]^4)
	fill("c")
	foot, b := newest()
	flip(t, fs, "db/"+foot, int64(len(b)-footerBytes+footerVersion), b[len(b)-footerBytes+footerVersion]^1)

	for _, prefix := range []string{"a", "b", "c"} {
		_, closer, err := e.Get(FirstIdent, []byte(prefix+"-0001"))
		switch prefix {
		case "a":
			if err != nil {
				t.Errorf("%s: %v", whole, err)
			} else {
				closer.Close()
			}
			continue
		case "b":
			b = block
		case "c":
			b = foot
		}
		m := mongoerr.From(err)
		if !errors.Is(err, ErrCorruption) || m.Code != mongoerr.DataCorruptionDetected || !strings.Contains(m.Message, b+" is damaged at offset ") {
			t.Errorf("%s: got %v, %v", b, err, m)
		}
	}
	it, err := e.NewIter(FirstIdent, nil, nil)
	if err == nil {
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if err = it.Close(); err == nil {
			t.Errorf("%d keys of 1500 are served, and no error", n)
		}
	}
	if !errors.Is(err, ErrCorruption) {
		t.Errorf("got %v", err)
	}
	fill("b") // so that compactions have to read the table
	if _, err := e.Compact(t.Context(), FirstIdent); !errors.Is(err, ErrCorruption) {
		t.Errorf("compacting: got %v", err)
	}
	names := content(t, fs)
	if names[block] == "" || names[foot] == "" {
		t.Error("a damaged table is gone")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	close(told)
	for err := range told {
		found = append(found, err)
	}
	if s := fmt.Sprint(found); !strings.Contains(s, block) || !strings.Contains(s, foot) {
		t.Errorf("told of %v", found)
	}
	if s := log.String(); !strings.Contains(s, "level=ERROR msg=\"storage: corruption\" file="+block+" offset=0") || !strings.Contains(s, "file="+foot) {
		t.Errorf("the log has %s", s)
	}
}
