package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
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

// Take takes a backup. Killed, it leaves objects that the next one uses. Errors: code 50886
// where another backup of the server is being taken.
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
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, u, err := r.openNotes(ctx, c.host)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, u.lock.Unlock()) }()
	m := &Manifest{Format: repositoryFormat, Taken: time.Now().UTC(), Server: c.host}
	remote, err := c.openCopy(ctx, u.owner, u.again)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := remote.close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	if err := m.describe(remote.head); err != nil {
		return nil, err
	}
	if o.Began != nil {
		o.Began(m)
	}
	t := &taking{r: r, o: o, remote: remote, notes: u, taken: &Taken{Manifest: m}, pace: time.Now()}
	if err := t.files(ctx); err != nil {
		return nil, err
	}
	if err := r.publish(ctx, lock, m); err != nil {
		return nil, err
	}
	return t.taken, u.end(ctx)
}

// removeWithin bounds the removal of a manifest whose lock was lost.
const removeWithin = 30 * time.Second

// publish stores the manifest. If the lock was lost meanwhile, files that it names may have been
// removed: then there is no backup.
func (r *Repository) publish(ctx context.Context, lock Lock, m *Manifest) error {
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
func (m *Manifest) describe(head bson.Doc) error {
	at := head.Lookup("checkpointTimestamp")
	if at.Type != bson.TypeTimestamp {
		return errors.New("the server does not say of which time the backup is")
	}
	m.Time = Time(at.Timestamp())
	set, id, end := head.Lookup("set"), head.Lookup("replicaSetId"), head.Lookup("oplogEnd")
	if set.Type != bson.TypeString {
		return nil
	}
	if id.Type != bson.TypeObjectID || end.Type != bson.TypeDocument {
		return errors.New("the server does not say of which set the backup is")
	}
	m.Set, m.SetID = strings.Clone(set.Str()), hexOf(id)
	m.Index, m.Term = uint64(bson.ClampToInt64(head.Lookup("index"))), uint64(bson.ClampToInt64(end.Doc().Lookup("t")))
	return nil
}

// taking is a backup that is being taken.
type taking struct {
	r      *Repository
	o      TakeOptions
	remote *remoteCopy
	notes  *notes
	taken  *Taken
	done   int64
	pace   time.Time // when what was read would have been read at the rate
}

// files stores the files, those that were stored before by their identity.
func (t *taking) files(ctx context.Context) error {
	known := t.notes.known
	all, err := t.r.Backups(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		for _, f := range m.Files {
			if f.Identity != "" {
				known[f.Identity] = f.Object
			}
		}
	}
	stored, err := t.r.stored(ctx)
	if err != nil {
		return err
	}
	for i := range t.remote.files {
		t.taken.Bytes += t.remote.files[i].size
	}
	for i := range t.remote.files {
		f := &t.remote.files[i]
		file := File{Name: f.name, Size: f.size, Identity: f.identity, Object: known[f.identity]}
		if _, ok := stored[file.Object]; f.identity == "" || !ok {
			if file.Object, err = t.file(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if err := t.notes.stored(ctx, f.identity, file.Object); err != nil {
				return err
			}
		} else {
			t.done += f.size
		}
		t.taken.Files = append(t.taken.Files, file)
	}
	return nil
}

// file reads a file of the server, and stores it.
func (t *taking) file(ctx context.Context, f *remoteFile) (object string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type piece struct {
		data []byte
		err  error
	}
	pieces := make(chan piece, 1) // one is read while another is compressed
	go func() {
		defer close(pieces)
		for at := int64(0); at < f.size; {
			data, err := t.remote.read(ctx, f, at)
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
	}()
	defer func() { // the connection is the goroutine's until it has ended
		cancel(err)
		for range pieces {
		}
	}()
	object, grown, err := t.r.put(ctx, func(sum string) string { return path.Join(filesDirectory, sum) }, func(w io.Writer) error {
		for p := range pieces {
			if p.err != nil {
				return p.err
			}
			if _, err := w.Write(p.data); err != nil {
				return err
			}
			t.done += int64(len(p.data))
			t.taken.Read += int64(len(p.data))
			t.o.Progress("bytes", t.done, t.taken.Bytes)
			if err := t.wait(ctx, len(p.data)); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
	t.taken.Grown += grown
	return object, err
}

// wait waits if more was read than the rate allows.
func (t *taking) wait(ctx context.Context, n int) error {
	if t.o.Rate == 0 {
		return nil
	}
	if now := time.Now(); t.pace.Before(now) {
		t.pace = now
	}
	t.pace = t.pace.Add(time.Duration(float64(n) / float64(t.o.Rate) * float64(time.Second)))
	return client.Sleep(ctx, time.Until(t.pace))
}
