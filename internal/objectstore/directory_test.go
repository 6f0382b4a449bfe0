package objectstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweepsOwn holds that a directory's store removes what writers that died have left, and no old file
// that is somebody else's.
func TestSweepsOwn(t *testing.T) {
	dir := t.TempDir()
	temp, err := NewDirectory(dir).Temp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer temp.Close()
	theirs := filepath.Join(dir, TempDirectory, "their file")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * staleTemp)
	for _, name := range []string{theirs, temp.Name()} {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	next, err := NewDirectory(dir).Temp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(temp.Name()); err == nil {
		t.Error("what a writer has left is still there")
	}
}
