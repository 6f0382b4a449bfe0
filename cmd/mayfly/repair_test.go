package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/config"
)

// tool runs mayfly, wants it to end with code, and returns what it said on stdout.
func tool(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := mayfly(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the code below says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("mayfly %s: exit code %d, want %d:\n%s%s", strings.Join(args, " "), got, code, &stdout, &stderr)
	}
	return stdout.String()
}

// listing is names, sizes, times and bytes of a directory's files.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !e.IsDir() {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime(), string(content))
	}
	return b.String()
}

// TestVerifyRepair damages a table and a log of a server that was killed: verify finds it,
// repair makes a directory that a server starts on, and neither changes the damaged one.
func TestVerifyRepair(t *testing.T) {
	dir, into := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "new")
	r := startServer(t, dir)
	insert := func(from, to int) {
		t.Helper()
		var docs []string
		for i := from; i < to; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, a: %d, text: "%s"}`, i, i, strings.Repeat("x", 200)))
		}
		if d := r.command(t, fmt.Sprintf(`{insert: "c", documents: [%s], writeConcern: {j: true}, $db: "shop"}`, strings.Join(docs, ", "))); d.Lookup("n").Int32() != int32(to-from) {
			t.Fatal(d)
		}
	}
	insert(0, 2000)
	r.command(t, `{createIndexes: "c", indexes: [{key: {a: 1}, name: "a_1"}], $db: "shop"}`)
	r.stop(t, syscall.SIGTERM, config.ExitClean)
	r = startServer(t, dir)
	insert(2000, 2100)
	tool(t, config.ExitUncaught, "verify", "--dbpath", dir)
	tool(t, config.ExitUncaught, "repair", "--dbpath", dir, "--into", into)
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait()

	before := listing(t, dir)
	if said := tool(t, config.ExitClean, "verify", "--dbpath", dir); !strings.Contains(said, "is intact") || !strings.Contains(said, "2100 documents, 4200 index entries") {
		t.Errorf("verify says %q", said)
	}
	if listing(t, dir) != before {
		t.Error("verify has changed the directory")
	}
	tool(t, config.ExitBadOptions, "verify")
	tool(t, config.ExitBadOptions, "repair", "--dbpath", dir)
	tool(t, config.ExitUncaught, "verify", "--dbpath", t.TempDir())
	tool(t, config.ExitUncaught, "repair", "--dbpath", dir, "--into", dir)

	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if b[len(b)/2] ^= 1; len(b) < 50_000 {
			continue
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before = listing(t, dir)
	if said := tool(t, config.ExitDamaged, "verify", "--dbpath", dir); !strings.Contains(said, ".sst is damaged at offset ") {
		t.Errorf("verify says %q", said)
	}
	said := tool(t, config.ExitDamaged, "repair", "--dbpath", dir, "--into", into)
	if !strings.Contains(said, "shop.c: ") || !strings.Contains(said, " of 2100, ") || !strings.Contains(said, " and _id ") {
		t.Errorf("repair says %q", said)
	}
	if listing(t, dir) != before {
		t.Error("verify or repair has changed the damaged directory")
	}
	tool(t, config.ExitClean, "verify", "--dbpath", into)
	r = startServer(t, into)
	d := r.command(t, `{count: "c", $db: "shop"}`)
	if n := d.Lookup("n").Int32(); n < 1800 || n >= 2100 || !strings.Contains(said, fmt.Sprintf("shop.c: %d documents of 2100, %d lost", n, 2100-n)) {
		t.Errorf("%d documents are left, and repair says %q", n, said)
	}
}
