package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/objectstore/bucket"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// maxOpenPlaces bounds the stores that are kept open.
	maxOpenPlaces = 64
	// patience is how long a request may take that moves few bytes, and slowest how many bytes a
	// second others move at least. S3's are repeated within it.
	patience = time.Minute
	slowest  = 256 << 10
)

// Places are where the operator allows rules to archive: without one, no rule does. Else whoever
// may make an index would have the server write where he likes, with the server's credentials.
type Places struct {
	list func() string
	mu   sync.Mutex
	open map[string]objectstore.Store
	// Around, if it is set, is called with each store that is opened, and returns what is used
	// instead: tests have stores that fail.
	Around func(objectstore.Store) objectstore.Store
}

// NewPlaces returns the places of a list with commas between them, which is asked for each time.
func NewPlaces(list func() string) *Places {
	return &Places{list: list, open: map[string]objectstore.Store{}}
}

// ValidPlaces checks a list of places. Errors: 2.
func ValidPlaces(list string) error {
	for _, place := range split(list) {
		at, _, _ := strings.Cut(place, "?")
		if !schema.IsArchivePlace(at) || at != place && !bucket.Is(place) {
			return mongoerr.New(mongoerr.BadValue, "archivePlaces: %q is not a directory, as file:///DIRECTORY, or in a bucket, as s3://BUCKET/PREFIX?endpoint=URL", place)
		}
	}
	return nil
}

func split(list string) (all []string) {
	for place := range strings.SplitSeq(list, ",") {
		if place = strings.TrimSpace(place); place != "" {
			all = append(all, place)
		}
	}
	return all
}

// Allow checks that a place is in one that the operator allows. Errors: 72.
func (p *Places) Allow(to string) error {
	_, err := p.within(to)
	return err
}

// within returns the place as it is opened: with what the operator says of its bucket.
func (p *Places) within(to string) (string, error) {
	if p != nil && schema.IsArchivePlace(to) {
		for _, place := range split(p.list()) {
			at, options, said := strings.Cut(place, "?")
			if to != at && !strings.HasPrefix(to, at+"/") {
				continue
			}
			if said {
				return to + "?" + options, nil
			}
			return to, nil
		}
	}
	return "", mongoerr.New(mongoerr.InvalidOptions, "documents may not be archived to %q: the server's parameter archivePlaces does not have a place that contains it", to)
}

// Open returns the store of a place. Errors: 72.
func (p *Places) Open(ctx context.Context, to string) (objectstore.Store, error) {
	place, err := p.within(to)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.open[place]; s != nil {
		return s, nil
	}
	var s objectstore.Store
	if bucket.Is(place) {
		b, err := bucket.New(ctx, place)
		if err != nil {
			return nil, err
		}
		b.Owns = func(name string) bool { return strings.HasSuffix(name, ".parquet") && strings.Contains(name, "/dt=") }
		s = b
	} else {
		s = objectstore.NewDirectory(strings.TrimPrefix(place, "file://"))
	}
	if p.Around != nil {
		s = p.Around(s)
	}
	if len(p.open) >= maxOpenPlaces {
		clear(p.open)
	}
	p.open[place] = s
	return s, nil
}

// deadline bounds what is asked of a store by its size.
func deadline(ctx context.Context, bytes int64) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience+time.Duration(bytes/slowest)*time.Second, errSlow)
}

var errSlow = errors.New("the store does not answer")

// Put stores an object that was written to a file of the store's, reads it back, and compares it
// (invariant nothing-guessed).
func Put(ctx context.Context, s objectstore.Store, path string, file *os.File, w Written) error {
	ctx, cancel := deadline(ctx, 2*w.Bytes)
	defer cancel()
	if err := s.Put(ctx, path, file); err != nil {
		return fmt.Errorf("%s could not be stored in %s: %w", path, s, ended(ctx, err))
	}
	if err := fetch(ctx, s, path, w, io.Discard); err != nil {
		return err
	}
	return nil
}

// Fetch copies an object to out, and checks that it is what its row says.
func Fetch(ctx context.Context, s objectstore.Store, r *Row, out io.Writer) error {
	ctx, cancel := deadline(ctx, r.Bytes)
	defer cancel()
	return fetch(ctx, s, r.Path, r.Written, out)
}

// Remove removes an object. It may be gone already.
func Remove(ctx context.Context, s objectstore.Store, path string) error {
	ctx, cancel := deadline(ctx, 0)
	defer cancel()
	if err := s.Remove(ctx, path); err != nil {
		return fmt.Errorf("%s could not be removed in %s: %w", path, s, ended(ctx, err))
	}
	return nil
}

func fetch(ctx context.Context, s objectstore.Store, path string, w Written, out io.Writer) error {
	in, err := s.Get(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamageError{s.String(), path, "it is not there"}
	}
	if err != nil {
		return fmt.Errorf("%s could not be read in %s: %w", path, s, ended(ctx, err))
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, w.Bytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s could not be read in %s: %w", path, s, ended(ctx, err))
	case n != w.Bytes:
		return &DamageError{s.String(), path, "it has another size"}
	case hex.EncodeToString(sum.Sum(nil)) != w.SHA256:
		return &DamageError{s.String(), path, "it has another SHA-256"}
	}
	return nil
}

// ended returns why a request has ended, if it was because of its time.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// DamageError says that an object is not what was written.
type DamageError struct{ Place, Path, Says string }

func (e *DamageError) Error() string {
	return fmt.Sprintf("the archived object %s in %s is not what was written: %s", e.Path, e.Place, e.Says)
}
