package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxLogObject is about the size of an object with entries: a reply more, at most.
	maxLogObject = 16 << 20
	// retryAfter is how long Follow waits after a backup has failed.
	retryAfter = time.Minute
	// lastShip bounds what Follow does when it is asked to end.
	lastShip = 10 * time.Second
)

// FollowOptions say how a set is followed.
type FollowOptions struct {
	TakeOptions
	Every    time.Duration // between backups
	LogEvery time.Duration // between objects of the log
	// Taken is told of each backup, and Note of what goes wrong and is tried again.
	Taken func(*Taken)
	Note  func(error)
}

// follower ships the log of a set, and takes backups meanwhile.
type follower struct {
	r    *Repository
	o    FollowOptions
	wake chan struct{} // capacity 1: a backup is to be taken at once

	mu struct {
		sync.Mutex
		set   string // id
		at    position
		known bool // at is where the log of the set goes on
	}
}

// position is that of an entry.
type position struct{ index, term uint64 }

// Follow takes backups of a set and ships its log until ctx ends. What fails is tried again.
// Errors: those of the beginning.
func (r *Repository) Follow(ctx context.Context, o FollowOptions) error {
	f := &follower{r: r, o: o, wake: make(chan struct{}, 1)}
	c, err := connect(ctx, o.URI)
	if err != nil {
		return err
	}
	name := c.Hello().Lookup("setName")
	status, err := c.Run(ctx, "admin", new(bson.Builder).Int32("serverStatus", 1).Finish())
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	if r.key == nil && status.Lookup("encryptionAtRest").Type == bson.TypeDocument {
		return fmt.Errorf("the data of %s are encrypted, and its log would not be: --follow needs an encrypted repository (--encryptionKeyFile)", c.host)
	}
	if name.Type != bson.TypeString {
		return fmt.Errorf("%s is a standalone, which has no log: --follow needs a replica set (serve --replSet NAME --initiate makes one of a single server)", c.host)
	}
	newest, err := f.resume(ctx, name.Str())
	if err != nil {
		return err
	}
	f.o.Began = f.began
	var work sync.WaitGroup
	work.Go(func() { f.ships(ctx) })
	f.takes(ctx, newest)
	work.Wait()
	return nil
}

// resume finds the newest backup of a set of that name, and where its log goes on. It returns
// when the backup was taken.
func (f *follower) resume(ctx context.Context, name string) (newest time.Time, err error) {
	all, err := f.r.Backups(ctx)
	if err != nil {
		return newest, err
	}
	for _, m := range all {
		if m.Set != name {
			continue
		}
		log, err := f.r.logOf(ctx, m.SetID)
		if err != nil {
			return newest, err
		}
		end := chain(log, m)
		newest = m.Taken
		f.mu.set, f.mu.at, f.mu.known = m.SetID, position{end.last, end.term}, true
	}
	return newest, nil
}

// began notes where the log of a backup that has begun goes on, unless the log is shipped
// already.
func (f *follower) began(m *Manifest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.known || f.mu.set != m.SetID {
		f.mu.set, f.mu.at, f.mu.known = m.SetID, position{m.Index, m.Term}, true
	}
}

// lost notes that the log does not go on where it should: a backup is needed.
func (f *follower) lost(at position) {
	f.mu.Lock()
	if f.mu.at == at {
		f.mu.known = false
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// takes takes backups.
func (f *follower) takes(ctx context.Context, newest time.Time) {
	wait := time.Until(newest.Add(f.o.Every))
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-f.wake:
			timer.Stop()
		}
		wait = f.o.Every
		t, err := f.r.Take(ctx, f.o.TakeOptions)
		switch {
		case err == nil:
			f.o.Taken(t)
		case ctx.Err() == nil:
			f.o.Note(fmt.Errorf("a backup failed, and is tried again: %w", err))
			wait = min(f.o.Every, retryAfter)
		}
	}
}

// ships ships the log now and then.
func (f *follower) ships(ctx context.Context) {
	var c *connection
	for ended := false; !ended; {
		ended = client.Sleep(ctx, f.o.LogEvery) != nil
		within, cancel := context.WithCancel(ctx)
		if ended { // what was written until now
			cancel()
			within, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastShip)
		}
		var err error
		if c, err = f.ship(within, c); err != nil && ctx.Err() == nil {
			f.o.Note(fmt.Errorf("the log was not shipped, and is tried again: %w", err))
		}
		cancel()
	}
	if c != nil {
		_ = c.Close() // nothing was asked for
	}
}

// ship ships what there is, by a connection, nil for a new one. It returns the connection
// while it can be used.
func (f *follower) ship(ctx context.Context, c *connection) (_ *connection, err error) {
	f.mu.Lock()
	set, at, known := f.mu.set, f.mu.at, f.mu.known
	f.mu.Unlock()
	if !known {
		return c, nil
	}
	if c == nil {
		if c, err = connect(ctx, f.o.URI); err != nil {
			return nil, err
		}
	}
	ctx, lock, err := f.r.lock(ctx, false)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for more := true; more; {
		var o logObject
		var b []byte
		o, b, more, err = c.readLog(ctx, set, at)
		if mongoerr.Is(err, mongoerr.CappedPositionLost) || mongoerr.Is(err, mongoerr.OplogStartMissing) {
			f.lost(at)
			return c, fmt.Errorf("the log has a gap: %w", err)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if len(b) == 0 {
			break
		}
		if _, _, err := f.r.put(ctx, func(sum string) string { return o.nameOf(set, sum) }, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		}); err != nil {
			return c, err
		}
		at = position{o.last, o.term}
		f.mu.Lock()
		if f.mu.set == set {
			f.mu.at = at
		}
		f.mu.Unlock()
	}
	return c, nil
}

// errOtherSet says that the member is one of another set.
var errOtherSet = mongoerr.New(mongoerr.OplogStartMissing, "it is the log of another replica set")

// readLog reads entries behind one until they are enough for an object. more says that there
// may be others.
func (c *connection) readLog(ctx context.Context, set string, after position) (o logObject, b []byte, more bool, err error) {
	for len(b) < maxLogObject {
		reply, err := c.Run(ctx, "admin", readLogCommand(after, 0))
		if err != nil {
			return o, nil, false, err
		}
		if id := reply.Lookup("replicaSetId"); id.Type != bson.TypeObjectID || hexOf(id) != set {
			return o, nil, false, errOtherSet
		}
		number := func(name string) uint64 { return uint64(bson.ClampToInt64(reply.Lookup(name))) }
		first, last, term, rest := number("first"), number("last"), number("term"), number("rest")
		if last == after.index {
			return o, b, false, nil
		}
		data := reply.Lookup("data")
		if data.Type != bson.TypeBinary || first != after.index+1 || last < first {
			return o, nil, false, errors.New("the server has sent something that is no log")
		}
		_, piece := data.Binary()
		if o.first == 0 {
			o.first = first
		}
		o.last, o.term = last, term
		if t := reply.Lookup("time"); t.Type == bson.TypeTimestamp && t.Timestamp() != 0 {
			o.time = Time(t.Timestamp())
		}
		b = append(b, piece...)
		for offset := uint64(len(piece)); rest > 0; offset += uint64(len(piece)) { // of one large entry
			if reply, err = c.Run(ctx, "admin", readLogCommand(after, offset)); err != nil {
				return o, nil, false, err
			}
			if data = reply.Lookup("data"); data.Type != bson.TypeBinary {
				return o, nil, false, errors.New("the server has sent something that is no log")
			}
			if _, piece = data.Binary(); len(piece) == 0 {
				return o, nil, false, errors.New("the server has sent something that is no log")
			}
			rest = uint64(bson.ClampToInt64(reply.Lookup("rest")))
			b = append(b, piece...)
		}
		after = position{last, term}
	}
	return o, b, true, nil
}

func readLogCommand(after position, offset uint64) bson.Doc {
	b := new(bson.Builder).Int32("_readLog", 1).Int64("after", int64(after.index)).Int64("term", int64(after.term))
	if offset > 0 {
		b.Int64("offset", int64(offset))
	}
	return b.Finish()
}

func hexOf(id bson.Value) string {
	b := id.ObjectID()
	return hex.EncodeToString(b[:])
}
