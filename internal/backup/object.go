package backup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// An object is objectMagic, whether it is sealed, one byte, and its content compressed by
// zstd.

const (
	objectMagic = "MAYFLYB1"
	sumBytes    = 64 // of the sum in a name, in hexadecimal
	// staleTemp is the age of a file in tempDirectory that nobody writes any more.
	staleTemp = 24 * time.Hour
	// decoderMemory bounds the memory for what a damaged object claims to need.
	decoderMemory = 256 << 20
)

// The directories of a repository.
const (
	filesDirectory   = "files"
	backupsDirectory = "backups"
	logDirectory     = "log"
	tempDirectory    = "tmp"
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
)

// missing is the error of an object that is named and not there.
func missing(name string) error { return &DamageError{name, errors.New("it is missing")} }

func (r *Repository) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// put stores what fill writes as an object, under the name that name makes of its sum. It
// returns the name, and how many bytes the repository has grown by: 0 if the object was there.
// The object gets its name last (invariant whole-object).
func (r *Repository) put(name func(sum string) string, fill func(w io.Writer) error) (stored string, grown int64, err error) {
	if err := r.sweep(); err != nil {
		return "", 0, err
	}
	temp := r.path(path.Join(tempDirectory, rand.Text()))
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil || grown == 0 {
			_ = f.Close()
			_ = os.Remove(temp) // else sweepTemp does
		}
	}()
	sum, err := r.write(f, fill)
	if err != nil {
		return "", 0, err
	}
	stored = name(sum)
	if r.has(stored) {
		return stored, 0, nil
	}
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return "", 0, err
	}
	if err := os.MkdirAll(filepath.Dir(r.path(stored)), 0o700); err != nil {
		return "", 0, err
	}
	if err := os.Rename(temp, r.path(stored)); err != nil {
		return "", 0, err
	}
	return stored, info.Size(), syncDirectory(filepath.Dir(r.path(stored)))
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
// Errors: *DamageError, also where w has got something already; those of w.
func (r *Repository) get(name string, w io.Writer) error {
	f, err := os.Open(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	out := &failing{w: w}
	if err := r.read(f, name, out); err != nil {
		if out.err != nil {
			return out.err
		}
		return &DamageError{name, err}
	}
	return nil
}

// failing remembers the error of a writer, to tell it from one of reading.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	f.err = err
	return n, err
}

func (r *Repository) read(f io.Reader, name string, w io.Writer) error {
	var head [len(objectMagic) + 1]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:len(objectMagic)]) != objectMagic {
		return errNoMagic
	}
	switch sealed := head[len(objectMagic)] == 1; {
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
func (r *Repository) has(name string) bool {
	_, err := os.Stat(r.path(name))
	return err == nil
}

// list lists the objects in a directory, those of its directories too, in order. A file that
// is no object is left out.
func (r *Repository) list(directory string) (names []string, err error) {
	err = filepath.WalkDir(r.path(directory), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.dir, p)
		if err == nil && isSum(rel[max(0, len(rel)-sumBytes):]) {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

func isSum(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == sumBytes
}

// setAside moves a damaged object away, so that the next backup stores it anew.
func (r *Repository) setAside(name string) error {
	if !r.has(name) {
		return nil
	}
	to := r.path(path.Join(damagedDirectory, strings.ReplaceAll(name, "/", "_")))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(r.path(name), to)
}

// sweepTemp removes what writers that died have left.
func (r *Repository) sweepTemp() error {
	dir := r.path(tempDirectory)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleTemp {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
	return nil
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
