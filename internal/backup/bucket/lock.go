package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/backup"
)

const (
	// lockLife is how old a lock gets that is not renewed, by the clock of the store.
	lockLife = 2 * time.Minute
	// renewEvery is how often a lock is renewed.
	renewEvery = 20 * time.Second
)

// lock is a lock that is held: an object, whose name says of whom and whether it is exclusive.
// Whoever takes one stores it first and looks for others then, so of two at least one sees the
// other: the store's lists have what was stored before. It is renewed by a new object before the
// old one is removed. A store has the time of each, and so the age of the others by one clock.
type lock struct {
	b         *Bucket
	directory string // of the lock's objects
	end       context.CancelCauseFunc
	renewing  sync.WaitGroup

	mu struct {
		sync.Mutex
		mine    string // the object
		renewed time.Time
		lost    error
	}
	exclusive bool
}

const (
	shared    = "shared-"
	exclusive = "exclusive-"
)

// Lock implements backup.Store.
func (b *Bucket) Lock(ctx context.Context, name string, alone bool) (context.Context, backup.Lock, error) {
	l := &lock{b: b, directory: path.Join(backup.LocksDirectory, name), exclusive: alone}
	if err := l.renew(ctx); err != nil {
		return nil, nil, err
	}
	held, end := context.WithCancelCause(ctx)
	l.end = end
	l.renewing.Go(func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			if err := l.Check(held); err != nil {
				end(err)
				return
			}
		}
	})
	return held, l, nil
}

// Check implements backup.Lock. It renews the lock in time. A request that fails is tried again
// later, while the lock is young enough.
func (l *lock) Check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lost != nil {
		return l.mu.lost
	}
	age := age(l.mu.renewed)
	if age < renewEvery/2 {
		return nil
	}
	err := l.renewLocked(ctx)
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var lost *lostError
	if errors.As(err, &lost) || age > lockLife/2 {
		l.mu.lost = fmt.Errorf("the lock of %s was lost: %w", l.b, err)
	}
	return l.mu.lost
}

// age is how long ago a time was, by whichever clock says longer: one stands still while the
// machine sleeps, the other may be set back.
func age(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// lostError says that somebody else holds the lock.
type lostError struct{ says string }

func (e *lostError) Error() string { return e.says }

func (l *lock) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewLocked(ctx)
}

func (l *lock) renewLocked(ctx context.Context) (err error) {
	began := time.Now()
	kind := shared
	if l.exclusive {
		kind = exclusive
	}
	next := path.Join(l.directory, kind+rand.Text())
	defer func() {
		if err != nil {
			l.remove(ctx, next)
		}
	}()
	if err := l.b.putWhole(ctx, next, io.NewSectionReader(bytes.NewReader(nil), 0, 0)); err != nil && !isExisting(err) { // it was sent twice
		return l.b.told("lock", next, err)
	}
	all, err := l.b.list(ctx, l.directory)
	if err != nil {
		return err
	}
	var now, last time.Time
	for _, o := range all {
		switch o.Name {
		case next:
			now = o.modified
		case l.mu.mine:
			last = o.modified
		}
	}
	if now.IsZero() {
		return &lostError{fmt.Sprintf("%s does not list what it has just stored", l.b)}
	}
	if l.mu.mine != "" {
		if now.Sub(last) > lockLife/2 {
			return &lostError{"it was not renewed in time"}
		}
		l.remove(ctx, l.mu.mine) // whoever comes meanwhile sees one of the two, and goes
		l.mu.mine, l.mu.renewed = next, began
		return nil
	}
	for _, o := range all {
		switch {
		case o.Name == next:
		case now.Sub(o.modified) > lockLife:
			l.remove(ctx, o.Name) // of one that died
		case l.exclusive, strings.HasPrefix(path.Base(o.Name), exclusive):
			return &lostError{fmt.Sprintf("%s is in use by another mayfly backup, or was less than %v ago by one that died", l.b, lockLife)}
		}
	}
	l.mu.mine, l.mu.renewed = next, began
	return nil
}

// remove removes an object of the lock. What is left gets too old.
func (l *lock) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	_ = l.b.Remove(ctx, name)
}

// Unlock implements backup.Lock.
func (l *lock) Unlock() error {
	l.end(nil)
	l.renewing.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(context.Background(), l.mu.mine)
	return l.mu.lost
}
