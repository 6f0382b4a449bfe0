package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// An object is objectMagic, whether it is sealed, one byte, and its content compressed by
// zstd.

const (
	objectMagic = "MAYFLYB1"
	sumBytes    = 64 // of the sum in a name, in hexadecimal
	// decoderMemory bounds the memory for what a damaged object claims to need.
	decoderMemory = 256 << 20
)

// The directories of a repository.
const (
	filesDirectory   = "files"
	backupsDirectory = "backups"
	logDirectory     = "log"
	damagedDirectory = "damaged"
	notesDirectory   = "notes"
)

// DamageError says that an object is not what was written.
type DamageError struct {
	Object string
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s in the repository is damaged: %v", e.Object, e.Err)
}
func (e *DamageError) Unwrap() error { return e.Err }

var (
	errContent = errors.New("its content is not what its name says")
	errNoMagic = errors.New("it is no object of a backup")
	errMissing = errors.New("it is missing")
)

// missing is the error of an object that is named and not there.
func missing(name string) error { return &DamageError{name, errMissing} }

// put stores what fill writes as an object, under the name that name makes of its sum. It
// returns the name, and how many bytes the repository has grown by: 0 if the object was there.
// The object gets its name last (invariant whole-object).
func (r *Repository) put(ctx context.Context, name func(sum string) string, fill func(w io.Writer) error) (stored string, grown int64, err error) {
	f, err := r.store.Temp(ctx)
	if err != nil {
		return "", 0, err
	}
	defer discard(f)
	sum, err := r.write(f, fill)
	if err != nil {
		return "", 0, err
	}
	stored = name(sum)
	there, err := r.has(ctx, stored)
	if there || err != nil {
		return stored, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	return stored, info.Size(), r.store.Put(ctx, stored, f)
}

// discard closes a temporary file, and removes it.
func discard(temp *os.File) {
	_ = temp.Close()
	_ = os.Remove(temp.Name()) // else the store does when it is old
}

// write writes an object, and returns the sum of its content.
func (r *Repository) write(w io.Writer, fill func(w io.Writer) error) (string, error) {
	sealed := map[bool]byte{true: 1}[r.key != nil]
	if _, err := w.Write(append([]byte(objectMagic), sealed)); err != nil {
		return "", err
	}
	outer := io.WriteCloser(nopCloser{w})
	if r.key != nil {
		var err error
		if outer, err = r.key.seal(w); err != nil {
			return "", err
		}
	}
	z, err := zstd.NewWriter(outer, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return "", err
	}
	sum, err := r.key.contentHash(r.id)
	if err != nil {
		return "", err
	}
	if err := fill(io.MultiWriter(sum, z)); err != nil {
		_ = z.Close() // what was written is thrown away
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(z.Close(), outer.Close())
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// get writes the content of an object to w. The name ends with the sum of the content, which is
// checked (invariant named-by-content).
// Errors: *DamageError, also where w has got something already; those of w and of the store,
// which say nothing of the object.
func (r *Repository) get(ctx context.Context, name string, w io.Writer) error {
	f, err := r.store.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in, out := &reading{r: f}, &writing{w: w}
	err = r.read(in, name, out)
	switch {
	case err == nil:
		return nil
	case out.err != nil:
		return out.err
	case in.err != nil:
		return in.err
	}
	return &DamageError{name, err}
}

// writing remembers the error of a writer, to tell it from damage.
type writing struct {
	w   io.Writer
	err error
}

func (f *writing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	f.err = err
	return n, err
}

// reading remembers the error of a store, to tell it from damage.
type reading struct {
	r   io.Reader
	err error
}

func (f *reading) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func (r *Repository) read(f io.Reader, name string, w io.Writer) error {
	var head [len(objectMagic) + 1]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:len(objectMagic)]) != objectMagic {
		return errNoMagic
	}
	switch sealed := head[len(objectMagic)] == 1; {
	case head[len(objectMagic)] > 1:
		return errNoMagic
	case sealed && r.key == nil:
		return errors.New("it is encrypted, and the repository is not")
	case !sealed && r.key != nil:
		return errors.New("it is not encrypted, but the repository is")
	case sealed:
		var err error
		if f, err = r.key.open(f); err != nil {
			return err
		}
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(decoderMemory))
	if err != nil {
		return err
	}
	defer z.Close()
	sum, err := r.key.contentHash(r.id)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(sum, w), z); err != nil {
		return err
	}
	if !strings.HasSuffix(name, hex.EncodeToString(sum.Sum(nil))) {
		return errContent
	}
	return nil
}

// has reports whether an object is there.
func (r *Repository) has(ctx context.Context, name string) (bool, error) {
	all, err := r.list(ctx, name)
	return len(all) > 0, err
}

// list lists the objects in a directory, those of its directories too, in order. A file that
// is no object is left out.
func (r *Repository) list(ctx context.Context, directory string) (objects []objectstore.StoredFile, err error) {
	all, err := r.store.List(ctx, directory)
	for _, f := range all {
		if isSum(f.Name[max(0, len(f.Name)-sumBytes):]) {
			objects = append(objects, f)
		}
	}
	return objects, err
}

// stored returns the files of backups that are there, with the sizes of their objects.
func (r *Repository) stored(ctx context.Context) (map[string]int64, error) {
	list, err := r.list(ctx, filesDirectory)
	if err != nil {
		return nil, err
	}
	all := make(map[string]int64, len(list))
	for _, f := range list {
		all[f.Name] = f.Size
	}
	return all, nil
}

// IsObject reports whether a name is that of an object.
func IsObject(name string) bool {
	directory, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{filesDirectory, backupsDirectory, logDirectory}, directory) && isSum(name[max(0, len(name)-sumBytes):])
}

func isSum(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == sumBytes
}

// setAside moves a damaged object away, so that the next backup stores it anew.
func (r *Repository) setAside(ctx context.Context, name string) error {
	err := r.store.Move(ctx, name, path.Join(damagedDirectory, strings.ReplaceAll(name, "/", "_")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another one did
	}
	return err
}
