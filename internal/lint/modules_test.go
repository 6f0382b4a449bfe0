package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModules holds that modules are not older than what their users rely on.
func TestModules(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ path, least, why string }{
		{"github.com/cockroachdb/pebble/v2", "v2.1.7", "a checkpoint syncs its tables before its marker names them"},
		{"go.etcd.io/raft/v3", "v3.7.0", "a ReadIndex is not answered by the attempt before it"},
	} {
		version := ""
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(f) >= 2 && f[0] == m.path {
				version = f[1]
			}
		}
		if olderThan(version, m.least) {
			t.Errorf("%s is %q: before %s it is not so that %s", m.path, version, m.least, m.why)
		}
	}
}

// olderThan compares versions without a suffix, and says that any other is older.
func olderThan(v, least string) bool {
	numbers := func(s string) (n [3]int, ok bool) {
		rest := strings.TrimPrefix(s, "v")
		for i := range n {
			part, after, _ := strings.Cut(rest, ".")
			rest = after
			for _, r := range part {
				if r < '0' || r > '9' {
					return n, false
				}
				n[i] = 10*n[i] + int(r-'0')
			}
			ok = part != ""
		}
		return n, ok && rest == ""
	}
	a, ok := numbers(v)
	b, _ := numbers(least)
	for i := range a {
		if ok && a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return !ok
}
