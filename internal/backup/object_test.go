package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// failing is a store that reads some bytes and fails.
type failing struct {
	objectstore.Store
	after int64
	err   error
}

func (f *failing) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := f.Store.Get(ctx, name)
	if err != nil || f.err == nil || name == repositoryFile {
		return in, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(in, f.after), iotest.ErrReader(f.err)), in}, nil
}

// TestFailingStore reads objects from a store that fails: that says nothing of the objects.
func TestFailingStore(t *testing.T) {
	for _, key := range []Key{nil, bytes.Repeat([]byte("k"), keyBytes)} {
		store := &failing{Store: objectstore.NewDirectory(t.TempDir())}
		r, err := Open(t.Context(), store, key, true)
		if err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte("some content "), 1000)
		name, grown, err := r.put(t.Context(), func(sum string) string { return path.Join(filesDirectory, sum) }, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		store.err = errors.New("no way to the store")
		var damage *DamageError
		for store.after = 0; store.after < grown; store.after++ {
			var b bytes.Buffer
			if err := r.get(t.Context(), name, &b); !errors.Is(err, store.err) || errors.As(err, &damage) {
				t.Fatalf("after %d of %d bytes: %v", store.after, grown, err)
			}
		}
		store.after = grown / 2
		if _, err := r.Verify(t.Context(), func(string, int64, int64) {}); !errors.Is(err, store.err) {
			t.Errorf("it was verified: %v", err)
		}
		store.err = nil
		var b bytes.Buffer
		if err := r.get(t.Context(), name, &b); err != nil || !bytes.Equal(b.Bytes(), content) {
			t.Errorf("the object was harmed: %v", err)
		}
	}
}

// TestFlippedBits flips each bit of an object: it is damaged. A few bits of the header of a zstd
// frame say nothing of the content, which is whole then.
func TestFlippedBits(t *testing.T) {
	for _, content := range [][]byte{[]byte("short"), bytes.Repeat([]byte("some content "), 100)} {
		dir := t.TempDir()
		r, err := Open(t.Context(), objectstore.NewDirectory(dir), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		name, _, err := r.put(t.Context(), func(sum string) string { return path.Join(filesDirectory, sum) }, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.FromSlash(name))
		whole, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(whole) {
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(at, b, 0o600); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			var damage *DamageError
			switch err := r.get(t.Context(), name, &got); {
			case err == nil && bytes.Equal(got.Bytes(), content):
				if at := bit/8 - len(objectMagic) - 1; at < 4 || at > 5 { // behind the magic number of zstd
					t.Errorf("bit %d is not missed", bit)
				}
			case !errors.As(err, &damage):
				t.Errorf("bit %d: %v, %q", bit, err, got.Bytes())
			}
		}
	}
}
