package backup

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// forgetful is a store that lists files which it does not give.
type forgetful struct{ objectstore.Store }

func (f forgetful) Get(context.Context, string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// TestVerifyListed holds that what is listed and not given is told, and stays where it is.
func TestVerifyListed(t *testing.T) {
	r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := r.put(t.Context(), func(sum string) string { return filesDirectory + "/" + sum }, func(w io.Writer) error {
		_, err := w.Write([]byte("content"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := r.store
	r.store = forgetful{whole}
	v, err := r.Verify(t.Context(), func(string, int64, int64) {})
	if err != nil || fmt.Sprint(v.Problems) != "["+missing(name).Error()+"]" {
		t.Errorf("%+v: %v", v, err)
	}
	r.store = whole
	if there, err := r.has(t.Context(), name); !there || err != nil {
		t.Errorf("it was set aside: %v", err)
	}
}
