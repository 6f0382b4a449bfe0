package seal

import (
	"bytes"
	"os"
	"testing"
)

// TestTemporary writes to a temporary file: it has no name, and the disk has nothing of the bytes.
func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	f, err := NewTemporary(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	text := bytes.Repeat([]byte("MARK"), 100_000)
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, text) {
		t.Fatal(err)
	}
	disk := make([]byte, len(text))
	if n, _ := f.f.ReadAt(disk, 0); n < 100_000 || bytes.Contains(disk[:n], []byte("MARK")) {
		t.Errorf("%d bytes on the disk, and the text among them: %t", n, bytes.Contains(disk[:n], []byte("MARK")))
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
