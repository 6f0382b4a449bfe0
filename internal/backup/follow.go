package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

// FollowOptions say how a set, or a cluster, is followed.
type FollowOptions struct {
	TakeOptions
	Every    time.Duration // between backups
	LogEvery time.Duration // between objects of the log
	// Taken is told of each backup, and Note of what goes wrong and is tried again.
	Taken func(*Taken)
	Note  func(error)
}

// following takes backups, and has a follower for the log of each part.
type following struct {
	r    *Repository
	o    FollowOptions
	wake chan struct{} // capacity 1: a backup is to be taken at once
	work sync.WaitGroup

	mu        sync.Mutex
	followers map[string]*follower // by the names of parts, "" for that of a set
}

// follower ships the log of a set.
type follower struct {
	f    *following
	part string
	stop context.CancelFunc

	mu struct {
		sync.Mutex
		uri   *client.URI
		set   string // id
		at    position
		known bool // at is where the log of the set goes on
	}
}

// position is that of an entry.
type position struct{ index, term uint64 }

// Follow takes backups of a set or a cluster and ships the log until ctx ends. What fails is
// tried again. Errors: those of the beginning.
func (r *Repository) Follow(ctx context.Context, o FollowOptions) error {
	f := &following{r: r, o: o, wake: make(chan struct{}, 1), followers: map[string]*follower{}}
	newest, err := f.resume(ctx)
	if err != nil {
		return err
	}
	f.o.Began = func(m *Manifest) { f.began(ctx, m) }
	f.takes(ctx, newest)
	f.work.Wait()
	return nil
}

// resume finds the newest backup, and follows the logs from where they go on. It returns when
// the backup was taken.
func (f *following) resume(ctx context.Context) (newest time.Time, err error) {
	c, err := connect(ctx, f.o.URI)
	if err != nil {
		return newest, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all, err := f.r.Backups(ctx)
	if err != nil {
		return newest, err
	}
	if c.isRouter() {
		return f.resumeCluster(ctx, c, all)
	}
	if err := c.mayShip(ctx, f.r); err != nil {
		return newest, err
	}
	name := c.Hello().Lookup("setName")
	if name.Type != bson.TypeString {
		return newest, fmt.Errorf("%s is a standalone, which has no log: --follow needs a replica set (serve --replSet NAME --initiate makes one of a single server)", c.host)
	}
	for _, m := range all {
		if m.Set == name.Str() {
			newest = m.Taken
			if err := f.goOn(ctx, &m.Part, f.o.URI); err != nil {
				return newest, err
			}
		}
	}
	return newest, nil
}

// resumeCluster is resume for a cluster.
func (f *following) resumeCluster(ctx context.Context, router *connection, all []*Manifest) (newest time.Time, err error) {
	id, err := router.cluster(ctx)
	if err != nil {
		return newest, err
	}
	parts, err := router.parts(ctx, f.o.URI)
	if err != nil {
		return newest, err
	}
	for _, m := range all {
		if m.Cluster != id {
			continue
		}
		newest = m.Taken
		for _, p := range m.Parts {
			i := slices.IndexFunc(parts, func(s shardAt) bool { return s.name == p.Shard })
			if i < 0 {
				continue
			}
			at, err := client.ParseSetString(parts[i].at)
			if err != nil {
				return newest, err
			}
			if err := f.goOn(ctx, p, f.o.URI.Of(at, client.SecondaryPreferred)); err != nil {
				return newest, err
			}
		}
	}
	return newest, nil
}

// goOn follows a part from where its log ends.
func (f *following) goOn(ctx context.Context, p *Part, uri *client.URI) error {
	log, err := f.r.logOf(ctx, p.SetID)
	if err != nil {
		return err
	}
	end := chain(log, p)
	l := f.follow(ctx, p.Shard, uri)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.set, l.mu.at, l.mu.known = p.SetID, position{end.last, end.term}, true
	return nil
}

// follow returns the follower of a part, which is begun unless it is there.
func (f *following) follow(ctx context.Context, part string, uri *client.URI) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.followers[part]
	if l == nil {
		l = &follower{f: f, part: part}
		ctx, l.stop = context.WithCancel(ctx)
		f.followers[part] = l
		f.work.Go(func() { l.ships(ctx) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.uri = uri
	return l
}

// began follows the parts of a backup that has begun, and no others any more.
func (f *following) began(ctx context.Context, m *Manifest) {
	there := map[string]bool{}
	for _, p := range m.parts() {
		there[p.Shard] = true
		f.follow(ctx, p.Shard, p.uri).began(p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for part, l := range f.followers {
		if !there[part] {
			l.stop()
			delete(f.followers, part)
		}
	}
}

// began notes where the log of a backup that has begun goes on, unless the log is shipped
// already.
func (l *follower) began(p *Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.known || l.mu.set != p.SetID {
		l.mu.set, l.mu.at, l.mu.known = p.SetID, position{p.Index, p.Term}, true
	}
}

// lost notes that the log does not go on where it should: a backup is needed.
func (l *follower) lost(at position) {
	l.mu.Lock()
	if l.mu.at == at {
		l.mu.known = false
	}
	l.mu.Unlock()
	select {
	case l.f.wake <- struct{}{}:
	default:
	}
}

// takes takes backups.
func (f *following) takes(ctx context.Context, newest time.Time) {
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
func (l *follower) ships(ctx context.Context) {
	var c *connection
	for ended := false; !ended; {
		ended = client.Sleep(ctx, l.f.o.LogEvery) != nil
		within, cancel := context.WithCancel(ctx)
		if ended { // what was written until now
			cancel()
			within, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastShip)
		}
		var err error
		if c, err = l.ship(within, c); err != nil && ctx.Err() == nil {
			l.f.o.Note(fmt.Errorf("%sthe log was not shipped, and is tried again: %w", l.said(), err))
		}
		cancel()
	}
	if c != nil {
		_ = c.Close() // nothing was asked for
	}
}

// ship ships what there is, by a connection, nil for a new one. It returns the connection
// while it can be used.
func (l *follower) ship(ctx context.Context, c *connection) (_ *connection, err error) {
	l.mu.Lock()
	uri, set, at, known := l.mu.uri, l.mu.set, l.mu.at, l.mu.known
	l.mu.Unlock()
	if !known {
		return c, nil
	}
	if c == nil {
		if c, err = connect(ctx, uri); err != nil {
			return nil, err
		}
		if err := c.mayShip(ctx, l.f.r); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	ctx, lock, err := l.f.r.lock(ctx, false)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for more := true; more; {
		var o logObject
		var b []byte
		o, b, more, err = c.readLog(ctx, set, at)
		if mongoerr.Is(err, mongoerr.CappedPositionLost) || mongoerr.Is(err, mongoerr.OplogStartMissing) {
			l.lost(at)
			return c, fmt.Errorf("the log has a gap: %w", err)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if len(b) == 0 {
			break
		}
		if err := l.f.r.putLog(ctx, &o, set, b); err != nil {
			return c, err
		}
		at = position{o.last, o.term}
		l.mu.Lock()
		if l.mu.set == set {
			l.mu.at = at
		}
		l.mu.Unlock()
	}
	return c, nil
}

// said begins what is noted of a part.
func (l *follower) said() string {
	if l.part == "" {
		return ""
	}
	return l.part + ": "
}

// mayShip returns an error if the data of the server are encrypted, and its log would not be.
func (c *connection) mayShip(ctx context.Context, r *Repository) error {
	status, err := c.Run(ctx, "admin", new(bson.Builder).Int32("serverStatus", 1).Finish())
	if err == nil && r.key == nil && status.Lookup("encryptionAtRest").Type == bson.TypeDocument {
		err = fmt.Errorf("the data of %s are encrypted, and its log would not be: the backup of a cluster or --follow needs an encrypted repository (--encryptionKeyFile)", c.host)
	}
	return err
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
		if v := reply.Lookup("prepared"); len(b) == 0 && v.Type == bson.TypeTimestamp { // servers of before are no parts of clusters here
			o.prepared = Time(v.Timestamp())
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
