package backup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// readBytes is what is asked of a file at once.
	readBytes = 4 << 20
	// keepEvery is how often the cursor is used, so that the server does not close it.
	keepEvery = time.Minute
	// busyPatience is how long a backup waits for the end of the cursor of one that was killed.
	busyPatience = 30 * time.Second
	// busyCode is the server's error while another backup cursor is open.
	busyCode = mongoerr.Code(50886)
)

// connection is a connection to the member that is backed up.
type connection struct {
	*client.Conn
	host string
}

// connect connects to a member.
func connect(ctx context.Context, uri *client.URI) (*connection, error) {
	c, host, err := uri.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{c, host}, nil
}

// isRouter reports whether the server is a router.
func (c *connection) isRouter() bool {
	msg := c.Hello().Lookup("msg")
	return msg.Type == bson.TypeString && msg.Str() == "isdbgrid"
}

// documents reads a small collection.
func (c *connection) documents(ctx context.Context, db, coll string) (all []bson.Doc, err error) {
	b := new(bson.Builder).String("find", coll).Int32("batchSize", maxShards).Bool("singleBatch", true)
	if !c.isRouter() { // which reads what is newest
		toSecondary.Append(b)
	}
	reply, err := c.Run(ctx, db, b.Finish())
	if err != nil {
		return nil, err
	}
	batch := reply.Lookup("cursor").Doc().Lookup("firstBatch")
	if batch.Type != bson.TypeArray {
		return nil, errors.New("the reply of the server has no cursor")
	}
	for v := range batch.Doc().Values() {
		if v.Type != bson.TypeDocument {
			return nil, errors.New("the server lists no documents")
		}
		all = append(all, v.Doc())
	}
	return all, nil
}

var toSecondary = client.ReadPreference{Mode: client.Nearest}

// remoteFile is a file as the server lists it.
type remoteFile struct {
	path, name, identity string
	size                 int64
}

// remoteCopy is an open backup cursor.
type remoteCopy struct {
	c      *connection
	cursor int64
	id     [16]byte
	used   time.Time // when the cursor was
	head   bson.Doc  // metadata
	files  []remoteFile
}

// openCopy opens a backup cursor, and lists its files. It ends an earlier one of the same
// owner and, with wait, waits for the end of one that is still being opened.
func (c *connection) openCopy(ctx context.Context, owner string, wait bool) (r *remoteCopy, err error) {
	b := new(bson.Builder).Int32("aggregate", 1).OpenArray("pipeline").OpenDoc("0").OpenDoc("$backupCursor").String("owner", owner).Close().Close().Close().OpenDoc("cursor").Close()
	toSecondary.Append(b)
	body := b.Finish()
	var reply bson.Doc
	for until := time.Now().Add(busyPatience); ; {
		reply, err = c.Run(ctx, "admin", body)
		if !mongoerr.Is(err, busyCode) || !wait || time.Now().After(until) {
			break
		}
		if err := client.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	r = &remoteCopy{c: c, used: time.Now(), cursor: bson.ClampToInt64(reply.Lookup("cursor").Doc().Lookup("id"))}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
		}
	}()
	for name := "firstBatch"; ; name = "nextBatch" {
		done, err := r.take(reply.Lookup("cursor").Doc().Lookup(name))
		if err != nil || done {
			return r, err
		}
		if reply, err = r.more(ctx); err != nil {
			return nil, err
		}
	}
}

// take reads a batch, and reports whether it was the last.
func (r *remoteCopy) take(batch bson.Value) (done bool, err error) {
	if batch.Type != bson.TypeArray {
		return false, errors.New("the reply of the server has no cursor")
	}
	n := 0
	for v := range batch.Doc().Values() {
		n++
		if v.Type != bson.TypeDocument {
			return false, errors.New("the server lists no documents")
		}
		d := v.Doc()
		if r.head == nil {
			if m := d.Lookup("metadata"); m.Type == bson.TypeDocument {
				r.head = m.Doc().Clone()
				_, id := r.head.Lookup("backupId").Binary()
				copy(r.id[:], id)
				continue
			}
			return false, errors.New("the server does not say what the backup is")
		}
		path := d.Lookup("filename")
		if path.Type != bson.TypeString {
			return false, errors.New("the server lists a file without a name")
		}
		f := remoteFile{path: strings.Clone(path.Str()), size: bson.ClampToInt64(d.Lookup("fileSize"))}
		f.name = filepath.Base(f.path)
		if v := d.Lookup("identity"); v.Type == bson.TypeString {
			f.identity = strings.Clone(v.Str())
		}
		r.files = append(r.files, f)
	}
	if r.head == nil || n == 0 && int64(len(r.files)) < bson.ClampToInt64(r.head.Lookup("files")) {
		return false, errors.New("the server lists too few files")
	}
	return int64(len(r.files)) >= bson.ClampToInt64(r.head.Lookup("files")), nil
}

// more uses the cursor.
func (r *remoteCopy) more(ctx context.Context) (bson.Doc, error) {
	r.used = time.Now()
	return r.c.Run(ctx, "admin", new(bson.Builder).Int64("getMore", r.cursor).String("collection", "$cmd.aggregate").Finish())
}

// read reads a piece of a file.
func (r *remoteCopy) read(ctx context.Context, f *remoteFile, offset int64) ([]byte, error) {
	if time.Since(r.used) > keepEvery {
		if _, err := r.more(ctx); err != nil {
			return nil, err
		}
	}
	want := min(readBytes, f.size-offset)
	reply, err := r.c.Run(ctx, "admin", new(bson.Builder).Int32("_readBackupFile", 1).Binary("backupId", 4, r.id[:]).String("filename", f.path).
		Int64("offset", offset).Int64("length", want).Finish())
	if err != nil {
		return nil, err
	}
	v := reply.Lookup("data")
	if v.Type != bson.TypeBinary {
		return nil, errors.New("the reply of the server has no data")
	}
	_, data := v.Binary()
	if int64(len(data)) != want {
		return nil, fmt.Errorf("%s is shorter than the server said", f.path)
	}
	return data, nil
}

// close ends the cursor.
func (r *remoteCopy) close(ctx context.Context) error {
	_, err := r.c.Run(ctx, "admin", new(bson.Builder).String("killCursors", "$cmd.aggregate").OpenArray("cursors").Int64("0", r.cursor).Close().Finish())
	return err
}
