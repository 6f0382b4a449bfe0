package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A backup cursor is a copy of the server's files, by hard links where the file system can,
// for as long as a cursor is open (docs/rfcs/0030-backup.md).

// BackupDirectory is where, in a server's directory, the copies are.
const BackupDirectory = "_backup"

// maxBackupRead bounds what one _readBackupFile reads, in bytes.
const maxBackupRead = 8 << 20

// backups are the backup cursors of a node: one at a time. The zero value has none.
type backups struct {
	mu      sync.Mutex
	current *backupCopy    // nil for none
	work    sync.WaitGroup // removals of copies
}

// backupCopy is a copy of the server's files.
type backupCopy struct {
	owner  string // what the client said; ""
	id     [16]byte
	dir    string
	copied repl.Copied
	files  []backupFile
	// server is the id of a standalone; "" of a member, whose set has one.
	server string

	// Guarded by backups.mu.
	ready, ended bool
}

// backupFile is a file of a copy.
type backupFile struct {
	path string
	size int64
	// identity is the same for another copy's file only if that is the same file: a table,
	// which never changes. "" for all others.
	identity string
}

func (b *backups) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current != nil && b.current.ready
}

// begin begins a copy. One that is open ends if it has the same owner: then its client was
// killed. Error 50886.
func (b *backups) begin(owner string) (*backupCopy, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.current; c != nil {
		if !c.ready || owner == "" || c.owner != owner {
			return nil, mongoerr.New(mongoerr.Code(50886), "The existing backup cursor must be closed before $backupCursor can succeed.")
		}
		b.endLocked(c)
	}
	b.current = &backupCopy{owner: owner}
	return b.current, nil
}

// end removes a copy, and lets another be made.
func (b *backups) end(c *backupCopy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(c)
}

func (b *backups) endLocked(c *backupCopy) {
	if c.ended {
		return
	}
	c.ended, b.current = true, nil
	if c.dir != "" {
		b.work.Go(func() { _ = os.RemoveAll(c.dir) }) // what stays is removed at the next start
	}
}

// get returns the open copy with an id. Error 43.
func (b *backups) get(id [16]byte) (*backupCopy, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.current; c != nil && c.ready && c.id == id {
		return c, nil
	}
	return nil, mongoerr.New(mongoerr.CursorNotFound, "the backup is not open: its cursor was closed, or has not been used for too long")
}

// EndBackups waits until the copies of closed cursors are removed.
func (n *Node) EndBackups() { n.backups.work.Wait() }

func isBackupCursor(list []bson.Value) bool {
	if len(list) == 0 || list[0].Type != bson.TypeDocument {
		return false
	}
	name, _ := list[0].Doc().First()
	return name == "$backupCursor"
}

var backupCursorFields = command.NewFields("$backupCursor", command.String("owner"))

// runBackupCursor answers {aggregate: 1, pipeline: [{$backupCursor: {}}]}: a document
// {metadata}, and one for each file, {filename, fileSize}. At its end the cursor stays open.
// owner is what mayfly backup says so that it can begin again where it was killed.
// (As Percona Server for MongoDB documents it; MongoDB has it without a manual.)
func (n *Node) runBackupCursor(ctx context.Context, op *command.Op, list []bson.Value) error {
	_, arg := list[0].Doc().First()
	switch {
	case op.DB != "admin" || op.Collection != "":
		return mongoerr.New(mongoerr.InvalidNamespace, "$backupCursor must be run against the 'admin' database with {aggregate: 1}")
	case len(list) > 1:
		return mongoerr.New(mongoerr.InvalidPipelineOperator, "$backupCursor must be the only stage of its pipeline")
	case arg.Type != bson.TypeDocument:
		return mongoerr.New(mongoerr.FailedToParse, "The $backupCursor stage specification must be an object, found %s", arg.Type)
	case n.InMemory:
		return mongoerr.New(mongoerr.IllegalOperation, "The server's data are in memory, and cannot be backed up")
	}
	a, err := command.ParseDoc(backupCursorFields, arg.Doc())
	if err != nil {
		return err
	}
	c, err := n.openBackup(ctx, a.Str("owner"))
	if err != nil {
		return err
	}
	cursor, _ := op.Args.Struct("cursor")
	id, part, err := n.partOfCluster()
	if err != nil {
		n.backups.end(c)
		return err
	}
	return command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: "admin.$cmd.aggregate", BatchSize: cursor.Int64Or("batchSize", command.DefaultBatch), Tailable: true,
		Cursor: &backupCursor{Cursor: command.Documents(c.documents(id, part)), n: n, copied: c},
	})
}

// configPart is how the config servers are called among the parts of a cluster: as a shard that
// they may be, too.
const configPart = "config"

var configVersion = schema.Namespace{DB: "config", Coll: "version"}

// partOfCluster returns the id of the cluster that the server is part of, missing for none, and
// which part it is: a shard's name, or configPart.
func (n *Node) partOfCluster() (id bson.Value, part string, err error) {
	c := n.Catalog.Lookup(configVersion)
	if !n.ConfigServer || c == nil {
		doc, err := n.Stored(identityNamespace, ShardIdentity)
		if err != nil || doc == nil {
			return bson.Value{}, "", err
		}
		return doc.Lookup("clusterId"), n.ShardName(), nil
	}
	_, doc, closer, err := c.FindID(nil, n.Catalog.Engine(), bson.Int32(1))
	if err != nil || doc == nil {
		return bson.Value{}, "", err
	}
	return doc.Lookup("clusterId").Clone(), configPart, closer.Close()
}

// backupCursor is the cursor over the files of a copy, which ends with it.
type backupCursor struct {
	command.Cursor
	n      *Node
	copied *backupCopy
}

// Next implements command.Cursor.
func (c *backupCursor) Next(ctx context.Context) (bson.Doc, error) {
	if _, err := c.n.backups.get(c.copied.id); err != nil {
		return nil, err
	}
	return c.Cursor.Next(ctx)
}

// Close implements command.Cursor.
func (c *backupCursor) Close() { c.n.backups.end(c.copied) }

// openBackup makes a copy.
func (n *Node) openBackup(ctx context.Context, owner string) (_ *backupCopy, err error) {
	b := &n.backups
	c, err := b.begin(strings.Clone(owner))
	if err != nil {
		return nil, err
	}
	_, _ = rand.Read(c.id[:]) // it never fails
	c.id[6], c.id[8] = c.id[6]&0x0f|0x40, c.id[8]&0x3f|0x80
	c.dir = filepath.Join(n.Process.DBPath, BackupDirectory, hex.EncodeToString(c.id[:]))
	defer func() {
		if err != nil {
			b.end(c)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o700); err != nil {
		return nil, err
	}
	if m := n.Dispatcher.Member; m != nil {
		c.copied, err = m.Copy(ctx, c.dir)
	} else {
		c.copied, err = repl.CopyStandalone(ctx, n.Catalog.Engine(), c.dir)
		if err == nil {
			c.server, err = serverID(n.Process.DBPath)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := storage.CopyKeys(n.FS, c.dir); err != nil {
		return nil, err
	}
	if err := c.list(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.ready = true
	return c, nil
}

// serverFile has the id of a standalone, 32 hex digits. It is in no copy: a server that is
// restored is another one, which goes on beside the one it came from.
const serverFile = "mayfly.server"

// serverID returns the id that tells the backups of a standalone from those of others, and makes it
// if there is none.
func serverID(dir string) (string, error) {
	name := filepath.Join(dir, serverFile)
	b, err := os.ReadFile(name)
	if err == nil {
		id := strings.TrimSpace(string(b))
		if n, err := hex.DecodeString(id); err != nil || len(n) != 16 {
			return "", mongoerr.New(mongoerr.InternalError, "%s has no id of a server: remove it, and the server gets a new one, for which its earlier backups are those of another server", name)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var n [16]byte
	_, _ = rand.Read(n[:]) // it never fails
	id := hex.EncodeToString(n[:])
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(id + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return "", err
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	return id, errors.Join(d.Sync(), d.Close())
}

// list lists the files of a copy.
func (c *backupCopy) list() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	store := storage.OSFS()
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		f := backupFile{path: filepath.Join(c.dir, e.Name())}
		info, err := store.Stat(f.path)
		if err != nil {
			return err
		}
		f.size = info.Size()
		if inode := inodeOf(info); inode != 0 && strings.HasSuffix(f.path, ".sst") {
			sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %v %d %d %d", host, e.Name(), info.DeviceID(), inode, info.ModTime().UnixNano(), f.size))
			f.identity = hex.EncodeToString(sum[:])
		}
		c.files = append(c.files, f)
	}
	return nil
}

// documents are what the cursor returns. cluster is the id of the cluster of which the server is
// a part; missing for none.
func (c *backupCopy) documents(cluster bson.Value, part string) []bson.Doc {
	b := new(bson.Builder)
	b.OpenDoc("metadata").Binary("backupId", 4, c.id[:]).String("dbpath", c.dir).Bool("disableIncrementalBackup", true).Int("files", int64(len(c.files)))
	at := c.copied.At
	if c.copied.Set != "" {
		for _, name := range []string{"oplogStart", "oplogEnd"} {
			b.OpenDoc(name).Timestamp("ts", uint64(at.Time)).Int64("t", int64(at.Term)).Close()
		}
		b.String("set", c.copied.Set).ObjectID("replicaSetId", c.copied.SetID).Int64("index", int64(at.Index))
	}
	if c.server != "" {
		b.String("serverId", c.server)
	}
	if !cluster.IsMissing() {
		b.Value("clusterId", cluster).String("shard", part)
	}
	docs := []bson.Doc{b.Timestamp("checkpointTimestamp", uint64(at.Time)).Close().Finish()}
	for _, f := range c.files {
		b := new(bson.Builder).String("filename", f.path).Int64("fileSize", f.size)
		if f.identity != "" {
			b.String("identity", f.identity)
		}
		docs = append(docs, b.Finish())
	}
	return docs
}

var readBackupFileFields = command.NewFields("_readBackupFile", command.UUID("backupId").Required(), command.String("filename").Required(),
	command.SafeInt64("offset").Min(0).Required(), command.SafeInt64("length").Min(1).Max(maxBackupRead).Required())

// readBackupFile answers {_readBackupFile: 1, backupId, filename, offset, length} with {data}, a
// piece of a file that an open backup cursor has listed; less than length at its end.
func (n *Node) readBackupFile() *command.Command {
	return &command.Command{
		Name: "_readBackupFile", Flags: command.AdminOnly, Fields: readBackupFileFields, Run: n.runReadBackupFile,
		Help: "read a piece of a file that $backupCursor has listed",
	}
}

func (n *Node) runReadBackupFile(_ context.Context, op *command.Op) error {
	id, _ := op.Args.UUID("backupId")
	c, err := n.backups.get(id)
	if err != nil {
		return err
	}
	name := op.Args.Str("filename")
	i := slices.IndexFunc(c.files, func(f backupFile) bool { return f.path == name })
	if i < 0 {
		return mongoerr.New(mongoerr.BadValue, "the backup has no file %q", name)
	}
	offset := op.Args.Int64("offset")
	size := min(op.Args.Int64("length"), max(0, c.files[i].size-offset))
	if err := op.GrowReply(int(size)); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := f.ReadAt(data, offset); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	op.Reply.Binary("data", 0, data)
	return nil
}
