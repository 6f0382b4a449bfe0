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

	"github.com/mayflydb/mayfly/internal/objectstore"
)

const (
	// lockLife is how old a lock gets that is not renewed, by the clock of the store.
	lockLife = 2 * time.Minute
	// heldFor is how long its holder counts on a lock that is not renewed. What is left of its life
	// is for what was sent and has not arrived.
	heldFor = lockLife * 3 / 4
	// renewEvery is how often a lock is renewed, and how long that may take: the next attempt has
	// another connection.
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
	late      *time.Timer // ends what the lock protects, heldFor after it was renewed
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

// Lock implements objectstore.Store.
func (b *Bucket) Lock(ctx context.Context, name string, alone bool) (context.Context, objectstore.Lock, error) {
	l := &lock{b: b, directory: path.Join(objectstore.LocksDirectory, name), exclusive: alone}
	held, end := context.WithCancelCause(ctx)
	l.end = end
	l.late = time.AfterFunc(heldFor, func() { end(l.lost(errLate)) })
	if err := l.renew(held); err != nil {
		end(nil)
		l.late.Stop()
		return nil, nil, err
	}
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

// Check implements objectstore.Lock. It renews the lock in time. A request that fails is tried again
// later, while the lock is young enough.
func (l *lock) Check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lost != nil {
		return l.mu.lost
	}
	old := age(l.mu.renewed)
	if old < renewEvery/2 {
		return nil
	}
	left := min(renewEvery, heldFor-old)
	if left <= 0 { // the machine was asleep, or its clock was set: the store knows
		left = renewEvery
	}
	within, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err := l.renewLocked(within)
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var lost *lostError
	if errors.As(err, &lost) || age(l.mu.renewed) >= heldFor {
		l.mu.lost = l.lost(err)
	}
	return l.mu.lost
}

func (l *lock) lost(err error) error { return fmt.Errorf("the lock of %s was lost: %w", l.b, err) }

// age is how long ago a time was, by whichever clock says longer: one stands still while the
// machine sleeps, the other may be set back.
func age(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// lostError says that somebody else holds the lock, or may.
type lostError struct{ says string }

func (e *lostError) Error() string { return e.says }

var errLate = &lostError{"it was not renewed in time"}

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
		if now.Sub(last) > heldFor {
			return errLate
		}
		old := l.mu.mine
		if err := l.hold(next, began); err != nil {
			return err
		}
		l.remove(ctx, old) // whoever comes meanwhile sees one of the two, and goes
		return nil
	}
	for _, o := range all {
		switch {
		case o.Name == next:
		case now.Sub(o.modified) > lockLife:
			l.remove(ctx, o.Name) // of one that died
		case l.exclusive, strings.HasPrefix(path.Base(o.Name), exclusive):
			return &lostError{fmt.Sprintf("%s is in use by another process, or was less than %v ago by one that died", l.b, lockLife)}
		}
	}
	return l.hold(next, began)
}

// hold counts the lock's life from began on, unless what it protects was ended already.
func (l *lock) hold(object string, began time.Time) error {
	if !l.late.Stop() {
		return errLate
	}
	l.mu.mine, l.mu.renewed = object, began
	l.late.Reset(heldFor - age(began))
	return nil
}

// remove removes an object of the lock. What is left gets too old.
func (l *lock) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	_ = l.b.Remove(ctx, name)
}

// Unlock implements objectstore.Lock.
func (l *lock) Unlock() error {
	l.end(nil)
	l.renewing.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late.Stop() && l.mu.lost == nil {
		l.mu.lost = l.lost(errLate)
	}
	l.remove(context.Background(), l.mu.mine)
	return l.mu.lost
}
