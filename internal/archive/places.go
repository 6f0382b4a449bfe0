package archive

import (
	"bytes"
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
	"sync/atomic"
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
	// grace is how much longer is waited for a request whose time is over: those to a bucket end by then.
	grace = time.Second
	// maxAsked bounds the requests to a place that are under way, those of which nobody expects an
	// answer any more included: a file system that hangs ends none of them.
	maxAsked = 8
)

// Places are where the operator allows rules to archive: without one, no rule does. Else whoever
// may make an index would have the server write where he likes, with the server's credentials.
type Places struct {
	list func() string
	mu   sync.Mutex
	open map[string]objectstore.Store
	// asked has room for what is asked of a place, by what the operator says of it.
	asked map[string]chan struct{}
	// Around, if it is set, is called with each store that is opened, and returns what is used
	// instead: tests have stores that fail.
	Around func(objectstore.Store) objectstore.Store
}

// NewPlaces returns the places of a list with commas between them, which is asked for each time.
func NewPlaces(list func() string) *Places {
	return &Places{list: list, open: map[string]objectstore.Store{}, asked: map[string]chan struct{}{}}
}

// ValidPlaces checks a list of places. Errors: 2.
func ValidPlaces(list string) error {
	for _, place := range split(list) {
		at, _, _ := strings.Cut(place, "?")
		if !schema.IsArchivePlace(at) || at != place && !bucket.Is(place) {
			return mongoerr.New(mongoerr.BadValue, "archivePlaces: %q is not a directory, as file:///DIRECTORY, or in a bucket, as s3://BUCKET/PREFIX?endpoint=URL", place)
		}
		if bucket.Is(place) {
			if err := bucket.Valid(place); err != nil {
				return mongoerr.New(mongoerr.BadValue, "archivePlaces: %s: %v", at, err)
			}
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
	_, _, err := p.within(to)
	return err
}

// Within returns the place of the operator's that has a place, "" for none.
func (p *Places) Within(to string) string {
	_, place, _ := p.within(to) // "" with an error
	return place
}

// within returns the place as it is opened, with what the operator says of its bucket, and the
// operator's that has it: the longest, so that their order does not count.
func (p *Places) within(to string) (open, in string, err error) {
	if p != nil && schema.IsArchivePlace(to) {
		longest := -1
		for _, place := range split(p.list()) {
			at, options, said := strings.Cut(place, "?")
			if to != at && !strings.HasPrefix(to, at+"/") || len(at) <= longest {
				continue
			}
			longest, open, in = len(at), to, place
			if said {
				open += "?" + options
			}
		}
		if longest >= 0 {
			return open, in, nil
		}
	}
	return "", "", mongoerr.New(mongoerr.InvalidOptions, "documents may not be archived to %q: the server's parameter archivePlaces does not have a place that contains it", to)
}

// Open returns the store of a place. Errors: 72.
func (p *Places) Open(ctx context.Context, to string) (objectstore.Store, error) {
	place, in, err := p.within(to)
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
	if p.asked[in] == nil {
		p.asked[in] = make(chan struct{}, maxAsked)
	}
	s = &store{s, p.asked[in]}
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

// store is a store of a place.
type store struct {
	objectstore.Store
	asked chan struct{}
}

// Ask has f ask a store, which moves so many bytes, and waits no longer than that may take, whether or not
// the store minds the end of ctx: a directory does not. late is called behind an f for which nobody
// waits any more. Errors: those of f; that the store does not answer; the cause of ctx's end.
func Ask(ctx context.Context, s objectstore.Store, bytes int64, f func(context.Context) error, late func()) error {
	ctx, cancel := deadline(ctx, bytes)
	of, ok := s.(*store)
	if !ok {
		defer cancel()
		return f(ctx)
	}
	select {
	case of.asked <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	}
	var settled atomic.Bool // by who is first
	answer := make(chan error, 1)
	go func() {
		defer func() { <-of.asked }()
		defer cancel()
		err := f(ctx)
		if settled.CompareAndSwap(false, true) {
			answer <- err
			return
		}
		late()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case err := <-answer:
		return err
	case <-t.C:
	}
	if settled.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	return <-answer
}

// Put stores an object that was written to a file of the store's, reads it back, and compares it
// (invariant nothing-guessed). What is stored when nobody waits for it any more is removed: with an
// error, the object is nobody's.
func Put(ctx context.Context, s objectstore.Store, path string, file *os.File, w Written) error {
	put := func(ctx context.Context) error {
		if err := s.Put(ctx, path, file); err != nil {
			return fmt.Errorf("%s could not be stored in %s: %w", path, s, ended(ctx, err))
		}
		return fetch(ctx, s, path, w, io.Discard)
	}
	return Ask(ctx, s, 2*w.Bytes, put, func() {
		ctx, cancel := deadline(context.WithoutCancel(ctx), 0)
		defer cancel()
		_ = s.Remove(ctx, path) // else the collector does, unless it has been there
	})
}

// Fetch returns the content of an object, and checks that it is what its row says.
func Fetch(ctx context.Context, s objectstore.Store, r *Row) ([]byte, error) {
	return read(ctx, s, r.Path, r.Bytes, func(ctx context.Context) ([]byte, error) {
		content := bytes.NewBuffer(make([]byte, 0, r.Bytes))
		err := fetch(ctx, s, r.Path, r.Written, content)
		return content.Bytes(), err
	})
}

// read asks a store for so many bytes of an object, which f returns. What it returns late is dropped.
func read(ctx context.Context, s objectstore.Store, path string, bytes int64, f func(context.Context) ([]byte, error)) ([]byte, error) {
	var content []byte // that of a call that is late is its own
	err := Ask(ctx, s, bytes, func(ctx context.Context) (err error) {
		content, err = f(ctx)
		return err
	}, func() {})
	switch {
	case err == errSlow:
		return nil, fmt.Errorf("%s could not be read in %s: %w", path, s, err)
	case err != nil:
		return nil, err
	}
	return content, nil
}

// Remove removes an object. It may be gone already.
func Remove(ctx context.Context, s objectstore.Store, path string) error {
	return Ask(ctx, s, 0, func(ctx context.Context) error {
		if err := s.Remove(ctx, path); err != nil {
			return fmt.Errorf("%s could not be removed in %s: %w", path, s, ended(ctx, err))
		}
		return nil
	}, func() {})
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
