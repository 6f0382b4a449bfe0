package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/objectstore"
)

// Progress is told how far something is, now and then.
type Progress func(stage string, done, total int64)

// TakeOptions say how a backup is taken.
type TakeOptions struct {
	URI      *client.URI
	Rate     int64 // bytes a second that are read at most; 0: no bound
	Progress Progress
	// Began is called when it is known of which position the backup is; nil for nothing.
	Began func(*Manifest)
}

// Taken is what Take has done.
type Taken struct {
	*Manifest
	Bytes int64 // of the files
	Read  int64 // of them, what was read from the server
	Grown int64 // what the repository has grown by
}

// Take takes a backup: of a server, a set, or by a router of a cluster. Killed, it leaves objects
// that the next one uses. Errors: code 50886 where another backup of the server is being taken.
func (r *Repository) Take(ctx context.Context, o TakeOptions) (taken *Taken, err error) {
	ctx, lock, err := r.lock(ctx, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	c, err := connect(ctx, o.URI)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Format: manifestFormat, Taken: time.Now().UTC()}
	t := &taking{r: r, o: o, taken: &Taken{Manifest: m}, pace: time.Now(), places: make(chan struct{}, partsAtOnce)}
	defer func() {
		if e := t.close(ctx); err == nil {
			err = e
		}
	}()
	open := t.openServer
	if c.isRouter() {
		open = t.openCluster
	}
	within, err := open(ctx, c) // which ends when a lock is lost
	if err != nil {
		return nil, err
	}
	ctx = within
	if o.Began != nil {
		o.Began(m)
	}
	if m.Cluster != "" {
		if err := t.cut(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.files(ctx); err != nil {
		return nil, err
	}
	if m.Cluster != "" {
		if err := t.sameShards(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.publish(ctx, lock, m); err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		if err := p.notes.end(ctx); err != nil {
			return nil, err
		}
	}
	return t.taken, nil
}

// removeWithin bounds the removal of a manifest whose lock was lost.
const removeWithin = 30 * time.Second

// publish stores the manifest. If the lock was lost meanwhile, files that it names may have been
// removed: then there is no backup.
func (r *Repository) publish(ctx context.Context, lock objectstore.Lock, m *Manifest) error {
	if err := lock.Check(ctx); err != nil {
		return err
	}
	err := r.putManifest(ctx, m)
	lost := lock.Check(ctx)
	if lost == nil || m.name == "" {
		return errors.Join(err, lost)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
	defer cancel()
	return errors.Join(lost, r.store.Remove(ctx, m.name)) // also what has failed may be there
}

// describe takes over what the server says of a copy.
func (p *Part) describe(head bson.Doc) error {
	at := head.Lookup("checkpointTimestamp")
	if at.Type != bson.TypeTimestamp {
		return errors.New("the server does not say of which time the backup is")
	}
	p.Time = Time(at.Timestamp())
	set, id, end := head.Lookup("set"), head.Lookup("replicaSetId"), head.Lookup("oplogEnd")
	if set.Type != bson.TypeString {
		if server := head.Lookup("serverId"); server.Type == bson.TypeString {
			p.ServerID = strings.Clone(server.Str())
		}
		return nil
	}
	if id.Type != bson.TypeObjectID || end.Type != bson.TypeDocument {
		return errors.New("the server does not say of which set the backup is")
	}
	p.Set, p.SetID = strings.Clone(set.Str()), hexOf(id)
	p.Index, p.Term = uint64(bson.ClampToInt64(head.Lookup("index"))), uint64(bson.ClampToInt64(end.Doc().Lookup("t")))
	return nil
}

// partsAtOnce bounds of how many parts files are read at once.
const partsAtOnce = 4

// taking is a backup that is being taken.
type taking struct {
	r     *Repository
	o     TakeOptions
	taken *Taken
	parts []*takenPart
	// places has a value for each part whose files are being read.
	places chan struct{}

	mu   sync.Mutex // guards what follows, and the numbers of taken
	done int64
	pace time.Time // when what was read would have been read at the rate
}

// takenPart is a part of which a backup is being taken.
type takenPart struct {
	t      *taking
	part   *Part
	c      *connection // nil when all is stored
	notes  *notes
	remote *remoteCopy // nil while it is not open
}

// openServer opens the copy of a server, to which c is a connection that it closes.
func (t *taking) openServer(ctx context.Context, c *connection) (context.Context, error) {
	ctx, p, err := t.add(ctx, &t.taken.Part, t.o.URI, c)
	if err != nil {
		return nil, err
	}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	if p.remote.head.Has("clusterId") {
		return nil, fmt.Errorf("%s is part of a cluster, of which the backup of one part alone could not be restored: back up by a router", c.host)
	}
	return ctx, nil
}

// add adds a part, by a connection that it closes.
func (t *taking) add(ctx context.Context, part *Part, uri *client.URI, c *connection) (context.Context, *takenPart, error) {
	p := &takenPart{t: t, part: part, c: c}
	part.Server, part.uri = c.host, uri
	ctx, n, err := t.r.openNotes(ctx, c.host)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	p.notes = n
	t.parts = append(t.parts, p)
	return ctx, p, nil
}

// open opens the copy.
func (p *takenPart) open(ctx context.Context) (err error) {
	if p.remote, err = p.c.openCopy(ctx, p.notes.owner, p.notes.again); err != nil {
		return err
	}
	return p.part.describe(p.remote.head)
}

// close ends all that is open.
func (t *taking) close(ctx context.Context) (err error) {
	for _, p := range t.parts {
		err = errors.Join(err, p.close(ctx), p.notes.lock.Unlock())
	}
	return err
}

// closeWithin bounds how long a server is asked to end a copy.
const closeWithin = 30 * time.Second

// close ends the copy, and closes the connection.
func (p *takenPart) close(ctx context.Context) (err error) {
	if p.c == nil {
		return nil
	}
	if p.remote != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		err = p.remote.close(ctx)
	}
	err = errors.Join(err, p.c.Close())
	p.c, p.remote = nil, nil
	return err
}

// files stores the files of all parts, those that were stored before by their identity.
func (t *taking) files(ctx context.Context) error {
	known := map[string]string{}
	all, err := t.r.Backups(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		for _, f := range m.files() {
			if f.Identity != "" {
				known[f.Identity] = f.Object
			}
		}
	}
	stored, err := t.r.stored(ctx)
	if err != nil {
		return err
	}
	for _, p := range t.parts {
		for i := range p.remote.files {
			t.taken.Bytes += p.remote.files[i].size
		}
	}
	return t.each(ctx, func(ctx context.Context, p *takenPart) error { return p.files(ctx, known, stored) })
}

// each calls f for all parts at once. The first error ends the others.
func (t *taking) each(ctx context.Context, f func(ctx context.Context, p *takenPart) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var work sync.WaitGroup
	for _, p := range t.parts {
		work.Go(func() {
			if err := f(ctx, p); err != nil {
				if p.part.Shard != "" {
					err = fmt.Errorf("%s: %w", p.part.Shard, err)
				}
				end(err)
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// turn waits until the files of the part may be read. The copy stays open meanwhile.
func (p *takenPart) turn(ctx context.Context) error {
	return p.keep(ctx, p.t.places, nil)
}

// keep keeps the copy open until it has a place or ended is closed, of which either may be nil.
func (p *takenPart) keep(ctx context.Context, place chan<- struct{}, ended <-chan struct{}) error {
	keep := time.NewTicker(keepEvery)
	defer keep.Stop()
	for {
		select {
		case place <- struct{}{}:
			return nil
		case <-ended:
			return nil
		case <-keep.C:
			if _, err := p.remote.more(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// files stores the files of a part.
func (p *takenPart) files(ctx context.Context, known map[string]string, stored map[string]int64) error {
	if err := p.turn(ctx); err != nil {
		return err
	}
	defer func() { <-p.t.places }()
	for i := range p.remote.files {
		f := &p.remote.files[i]
		object, ok := known[f.identity]
		if !ok {
			object = p.notes.known[f.identity]
		}
		file := File{Name: f.name, Size: f.size, Identity: f.identity, Object: object}
		if _, ok := stored[file.Object]; f.identity == "" || !ok {
			var err error
			if file.Object, err = p.file(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if err := p.notes.stored(ctx, f, file.Object); err != nil {
				return err
			}
		} else {
			p.t.read(f.size, 0)
		}
		p.part.Files = append(p.part.Files, file)
	}
	// The server need not keep its tables until other parts are stored. Whether it hears of that
	// is nothing to the backup: it ends what is not used.
	_ = p.close(ctx)
	return nil
}

// read notes that n bytes are stored, of which some were read.
func (t *taking) read(n, read int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	if t.taken.Read += read; read > 0 {
		t.o.Progress("bytes", t.done, t.taken.Bytes)
	}
}

// file reads a file of the server, and stores it.
func (p *takenPart) file(ctx context.Context, f *remoteFile) (object string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type piece struct {
		data []byte
		err  error
	}
	pieces := make(chan piece, 1) // one is read while another is compressed
	stored, ended := make(chan struct{}), make(chan struct{})
	read := func() {
		defer close(pieces)
		for at := int64(0); at < f.size; {
			data, err := p.remote.read(ctx, f, at)
			select {
			case pieces <- piece{data, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			at += int64(len(data))
		}
	}
	go func() {
		defer close(ended)
		read()
		if err := p.keep(ctx, nil, stored); err != nil { // while what was read is stored
			cancel(err)
		}
	}()
	defer func() { // the connection is the goroutine's until it has ended
		if err != nil {
			cancel(err)
		}
		close(stored)
		<-ended
	}()
	t := p.t
	object, grown, err := t.r.put(ctx, func(sum string) string { return path.Join(filesDirectory, sum) }, func(w io.Writer) error {
		for p := range pieces {
			if p.err != nil {
				return p.err
			}
			if _, err := w.Write(p.data); err != nil {
				return err
			}
			t.read(int64(len(p.data)), int64(len(p.data)))
			if err := t.wait(ctx, len(p.data)); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken.Grown += grown
	return object, err
}

// wait waits if more was read than the rate allows.
func (t *taking) wait(ctx context.Context, n int) error {
	if t.o.Rate == 0 {
		return nil
	}
	t.mu.Lock()
	if now := time.Now(); t.pace.Before(now) {
		t.pace = now
	}
	t.pace = t.pace.Add(time.Duration(float64(n) / float64(t.o.Rate) * float64(time.Second)))
	until := t.pace
	t.mu.Unlock()
	return client.Sleep(ctx, time.Until(until))
}
