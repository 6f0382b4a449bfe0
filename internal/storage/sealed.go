package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/seal"
)

// lockOfKeys has the keys of a server's directory that is encrypted: whoever has the master key
// reads the others in it. copyOfKeys has the same, for when that is damaged or lost; it says that it
// is the copy, so a backup has two objects of them.
const (
	lockOfKeys = "mayfly.sealed"
	copyOfKeys = "mayfly.sealed.copy"
)

var filesOfKeys = [...]string{copyOfKeys, lockOfKeys} // in the order in which they are written

// Unlock is fs for a server's directory that is encrypted under a master key, and fs itself for
// one that is not, where m is nil. It changes nothing. Errors: a directory that is encrypted
// and m is nil, or is not and m is given; another master key; ErrCorruption where both files with
// the keys are damaged.
func Unlock(fs FS, dir string, m seal.Master) (FS, error) {
	locks, err := readLocks(fs, dir)
	switch {
	case err != nil:
		return nil, err
	case len(locks) == 0 && m == nil:
		return fs, isPlain(fs, dir)
	case m == nil:
		return nil, fmt.Errorf("the data in %s are encrypted, under the master key %s: that key is needed (security.enableEncryption, --encryptionKeyFile)", dir, locks[0].MasterKey)
	case len(locks) == 0:
		return nil, errors.Join(isPlain(fs, dir), fmt.Errorf("the data in %s are not encrypted, and a master key was given", dir))
	}
	var failed error
	for _, l := range locks {
		key, id, err := l.Open(m)
		if err == nil {
			return &sealedFS{FS: fs, key: key, id: id, lock: l}, nil
		}
		if failed == nil {
			failed = err
		}
		if !errors.Is(err, seal.ErrLockDamaged) && !errors.Is(err, seal.ErrOtherMaster) && !errors.Is(err, seal.ErrUnopened) {
			break // it is not about the file
		}
	}
	return nil, lockOpenError(fs, dir, failed)
}

// KeepKeys writes the keys of a directory, or their copy, again where they are damaged, lost, or
// not those by which fs was unlocked. The caller has the directory's store open, so that nobody
// rotates its master key.
func KeepKeys(fs FS, dir string) error {
	s, ok := fs.(*sealedFS)
	if !ok {
		return nil
	}
	var lacking []string
	for _, name := range filesOfKeys {
		l, err := readLock(s.FS, s.PathJoin(dir, name))
		if err != nil && !errors.Is(err, ErrCorruption) {
			return err
		}
		if l == nil || !l.Equal(s.lock) {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) == len(filesOfKeys) {
		return nil // the master key was rotated before the store was opened
	}
	for _, name := range lacking {
		if err := writeKeys(s.FS, dir, name, s.lock); err != nil {
			return err
		}
	}
	return nil
}

// Encrypt makes a server's directory that has no data one that is encrypted under a master key,
// where it is none yet. Errors, after which nothing was changed: there are data; code 98 if
// another process has the directory open; ErrCorruption where the file with the keys is damaged
// or missing.
func Encrypt(fs FS, dir string, m seal.Master) error {
	if locks, err := readLocks(fs, dir); len(locks) > 0 || err != nil {
		return err
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return lockError(dir, err)
	}
	defer lock.Close()
	if locks, err := readLocks(fs, dir); len(locks) > 0 || err != nil { // another process was faster
		return err
	}
	if err := isPlain(fs, dir); err != nil {
		return err
	}
	if err := hasNoData(fs, dir); err != nil {
		return err
	}
	l, err := seal.NewLock(seal.NewKey(), seal.NewStoreID(), m)
	if err != nil {
		return fmt.Errorf("the store key of %s: %w", dir, err)
	}
	return writeLock(fs, dir, l)
}

// RotateMasterKey has another master key open an encrypted directory that no process has
// open, and the one of before no more. After a crash one of them opens it, or either does. Errors
// are those of Unlock, and code 98 if a server has the directory open.
func RotateMasterKey(fs FS, dir string, from, to seal.Master) (err error) {
	store, err := Unlock(fs, dir, from)
	if err != nil {
		return err
	}
	place, err := Place(store, dir)
	if err != nil {
		return err
	}
	lock, err := pebble.LockDirectory(place, fs)
	if err != nil {
		return lockError(place, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s := store.(*sealedFS)
	l, err := seal.NewLock(s.key, s.id, to)
	if err != nil {
		return fmt.Errorf("the store key of %s: %w", dir, err)
	}
	if _, _, err := l.Open(to); err != nil { // before nothing else opens it
		return fmt.Errorf("the new master key does not open what it has wrapped: %w", err)
	}
	return writeLock(fs, dir, l)
}

// lockOpenError says of which directory the keys do not open.
func lockOpenError(fs FS, dir string, err error) error {
	switch {
	case errors.Is(err, seal.ErrLockDamaged):
		return fmt.Errorf("%w: %s: %w", ErrCorruption, fs.PathJoin(dir, lockOfKeys), err)
	case errors.Is(err, seal.ErrOtherMaster):
		return fmt.Errorf("the data in %s are encrypted under a master key that was not given: %w", dir, err)
	}
	return fmt.Errorf("the store key of %s: %w", dir, err)
}

// readLocks reads the keys of a directory, and then their copy, where they are and are not
// damaged; none of a directory that has neither. Error: ErrCorruption where what is there is damaged.
func readLocks(fs FS, dir string) (all []*seal.Lock, err error) {
	var damaged error
	for _, name := range [...]string{lockOfKeys, copyOfKeys} {
		l, err := readLock(fs, fs.PathJoin(dir, name))
		switch {
		case errors.Is(err, ErrCorruption) && damaged == nil:
			damaged = err
		case errors.Is(err, ErrCorruption):
		case err != nil:
			return nil, err
		case l != nil:
			all = append(all, l)
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, damaged
}

// readLock reads a file with keys; nil where there is none.
func readLock(fs FS, path string) (*seal.Lock, error) {
	f, err := fs.Open(path)
	if oserror.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, err
	}
	l, err := seal.DecodeLock(b)
	if errors.Is(err, seal.ErrLockDamaged) {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorruption, path, err)
	}
	return l, err
}

// isPlain makes sure that a directory without keys has no encrypted data.
func isPlain(fs FS, dir string) error {
	for _, name := range []string{placeFile, formatFile} {
		switch sealed, err := isSealed(fs, fs.PathJoin(dir, name)); {
		case err != nil:
			return err
		case sealed:
			return fmt.Errorf("%w: the data in %s are encrypted (%s), and the file %s is missing, without which no key opens them", ErrCorruption, dir, name, lockOfKeys)
		}
	}
	return nil
}

// isSealed reports whether there is a file of a sealedFS.
func isSealed(fs FS, path string) (bool, error) {
	f, err := fs.Open(path)
	if oserror.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, seal.HeaderBytes)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return seal.IsSealed(b[:n]), err
}

// hasNoData makes sure that encryption begins in a directory without data.
func hasNoData(fs FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == placeFile || strings.HasPrefix(n, storePrefix) || storeFiles.MatchString(n) {
			return fmt.Errorf("the data in %s are not encrypted (%s), and encryption begins in an empty directory: let the member sync anew, or restore a backup", dir, n)
		}
	}
	return nil
}

// writeLock replaces the keys of a directory, and before that their copy: so the copy is never of
// an earlier master key than the keys are.
func writeLock(fs FS, dir string, l *seal.Lock) error {
	for _, name := range filesOfKeys {
		if err := writeKeys(fs, dir, name, l); err != nil {
			return err
		}
	}
	return nil
}

// writeKeys replaces one of the files with keys, in one step.
func writeKeys(fs FS, dir, name string, l *seal.Lock) error {
	temp := fs.PathJoin(dir, name+".tmp")
	f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(l.Encode(name == copyOfKeys)); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, fs.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// CopyKeys makes another directory one that is encrypted under the keys by which fs was unlocked;
// nothing where it is not encrypted.
func CopyKeys(fs FS, to string) error {
	s, ok := fs.(*sealedFS)
	if !ok {
		return nil
	}
	if err := s.FS.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return writeLock(s.FS, to, s.lock)
}

// HasKeys reports whether a file of that name has the keys of an encrypted directory, or their copy.
func HasKeys(name string) bool { return name == lockOfKeys || name == copyOfKeys }

// IsEncrypted reports whether fs is that of an encrypted directory.
func IsEncrypted(fs FS) bool {
	_, ok := fs.(*sealedFS)
	return ok
}

// sealedFS is a file system of which every file is sealed (package seal): files that are
// created are, and files that are not cannot be opened. Directories, names and locks are as
// below.
type sealedFS struct {
	vfs.FS
	key  seal.Key
	id   seal.StoreID
	lock *seal.Lock // what it was unlocked by
}

// Unwrap is vfs.FS's.
func (fs *sealedFS) Unwrap() vfs.FS { return fs.FS }

// numbered are the names that belong to a file for ever. Others are temporary, or have no data.
var numbered = regexp.MustCompile(`^(\d{6,}\.(sst|log|blob)|MANIFEST-\d+|mayfly\.control)$`)

// sealedAs is how a file of a name is sealed.
func (fs *sealedFS) sealedAs(path string) (kind seal.Kind, name string) {
	base := fs.PathBase(path)
	if _, ok := parseControlled(base); ok {
		return seal.KindRecords, base
	}
	if base == controlFile {
		return seal.KindSlots, base
	}
	if numbered.MatchString(base) {
		return seal.KindBlocks, base
	}
	return seal.KindBlocks, ""
}

// Create makes a sealed file.
func (fs *sealedFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(path, c)
	if err != nil {
		return nil, err
	}
	return fs.begin(f, path)
}

// begin makes an open, empty file a sealed one.
func (fs *sealedFS) begin(f vfs.File, path string) (vfs.File, error) {
	kind, name := fs.sealedAs(path)
	key, header, err := seal.NewHeader(fs.key, fs.id, kind, name)
	if err == nil {
		_, err = f.WriteAt(header, 0)
	}
	var content sealedContent
	if err == nil {
		switch kind {
		case seal.KindSlots:
			content.slots, err = seal.OpenSlots(f, 0, key)
		case seal.KindRecords:
			content.records, err = seal.NewRecords(f, int64(seal.HeaderBytes), key)
		default:
			content.blocks, err = seal.NewBlocks(f, int64(seal.HeaderBytes), key)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &sealedFile{File: f, name: fs.PathBase(path), sealedContent: content, writes: true}, nil
}

// Open opens a sealed file. Of a log, a manifest and a control file whose header was torn
// nothing can be read, and what that means is told by what they should have.
func (fs *sealedFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(path, opts...)
	if err != nil {
		return nil, err
	}
	g, _, err := fs.content(f, path)
	if err == nil && g != nil && g.blocks != nil {
		err = g.damage(g.blocks.Check())
	}
	switch {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case g == nil:
		return f, nil
	}
	return g, nil
}

// content reads the header of a file, and whole says that it could; nil of a directory.
func (fs *sealedFS) content(f vfs.File, path string) (g *sealedFile, whole bool, err error) {
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return nil, false, err
	}
	g = &sealedFile{File: f, name: fs.PathBase(path)}
	kind, name := fs.sealedAs(path)
	header := make([]byte, seal.HeaderBytes)
	n, err := f.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	key, err := seal.OpenHeader(fs.key, fs.id, kind, name, header[:n])
	if err != nil && kind == seal.KindBlocks {
		return nil, false, &tableError{g.name, 0, err.Error()}
	}
	base, size := int64(seal.HeaderBytes), info.Size()
	if whole = err == nil; !whole {
		key, size = seal.NewKey(), 0 // it is empty
	}
	switch kind {
	case seal.KindSlots:
		g.slots, err = seal.OpenSlots(f, size, key)
	case seal.KindRecords:
		g.records, err = seal.OpenRecords(f, base, size, key)
	default:
		g.blocks, err = seal.OpenBlocks(f, base, size, key)
	}
	return g, whole, err
}

// OpenReadWrite opens a file to go on with it behind what can be read of it; a log or a
// manifest, and what has no readable header, is made anew.
func (fs *sealedFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if kind, _ := fs.sealedAs(path); kind == seal.KindRecords {
		return fs.Create(path, c)
	}
	if _, err := fs.FS.Stat(path); oserror.IsNotExist(err) {
		return fs.Create(path, c)
	}
	f, err := fs.FS.OpenReadWrite(path, c, opts...)
	if err != nil {
		return nil, err
	}
	g, whole, err := fs.content(f, path)
	switch {
	case errors.Is(err, ErrCorruption), err == nil && !whole:
		if err := f.Close(); err != nil {
			return nil, err
		}
		return fs.Create(path, c)
	case err == nil && g.blocks != nil:
		err = g.blocks.Recover()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	g.writes = true
	return g, nil
}

// ReuseForWrite makes a new file: under the key of the old one nothing more is written. The old
// one goes first, as its space may be the last that there is; it may have gone in an attempt
// before.
func (fs *sealedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.FS.Remove(oldname); err != nil && !oserror.IsNotExist(err) {
		return nil, err
	}
	return fs.Create(newname, c)
}

// Link links a file, where it may have the other name.
func (fs *sealedFS) Link(oldname, newname string) error {
	if err := fs.keepsName(oldname, newname); err != nil {
		return err
	}
	return fs.FS.Link(oldname, newname)
}

// Rename renames a file or a directory.
func (fs *sealedFS) Rename(oldname, newname string) error {
	if err := fs.keepsName(oldname, newname); err != nil {
		return err
	}
	return fs.FS.Rename(oldname, newname)
}

// keepsName makes sure that a file is sealed under its new name as under the old one.
func (fs *sealedFS) keepsName(oldname, newname string) error {
	was, name := fs.sealedAs(oldname)
	is, other := fs.sealedAs(newname)
	if was != is || name != "" && name != other {
		return fmt.Errorf("%s is sealed under its name, and cannot be called %s", oldname, newname)
	}
	return nil
}

// Stat is vfs.FS's, with the size of the plain bytes.
func (fs *sealedFS) Stat(path string) (vfs.FileInfo, error) {
	info, err := fs.FS.Stat(path)
	if err != nil || info.IsDir() {
		return info, err
	}
	switch kind, _ := fs.sealedAs(path); kind {
	case seal.KindRecords: // their number counts
		f, err := fs.Open(path)
		if err != nil {
			return nil, err
		}
		info, err = f.Stat()
		return info, errors.Join(err, f.Close())
	case seal.KindSlots:
		return sealedInfo{info, seal.SlotsSize(info.Size())}, nil
	}
	return sealedInfo{info, seal.BlocksSize(info.Size() - int64(seal.HeaderBytes))}, nil
}

// sealedInfo is a file's with the size of its plain bytes.
type sealedInfo struct {
	vfs.FileInfo
	size int64
}

func (i sealedInfo) Size() int64 { return i.size }

// sealedContent is one of the kinds.
type sealedContent struct {
	blocks  *seal.Blocks
	slots   *seal.Slots
	records *seal.Records
}

// at is the one that there is.
func (c *sealedContent) at() interface {
	io.ReaderAt
	Size() int64
} {
	switch {
	case c.blocks != nil:
		return c.blocks
	case c.slots != nil:
		return c.slots
	}
	return c.records
}

// sealedFile is an open sealed file.
//
// A file of blocks is whole on the disk once it is synced or closed: its last block says so.
// Pebble 2.1 reads a table only then. The descriptor of the file below is shown, as hints go by
// it: Pebble reads and writes nothing by that.
type sealedFile struct {
	vfs.File
	name string
	sealedContent
	writes bool
	pos    int64 // of Read, and of Write to slots
}

// ReadAt is vfs.File's. The error is ErrCorruption where bytes were changed.
func (f *sealedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.at().ReadAt(p, at)
	return n, f.damage(err)
}

func (f *sealedFile) damage(err error) error {
	var d *seal.Damage
	if errors.As(err, &d) {
		return &tableError{f.name, d.Offset, "it is sealed, and what is there does not open: it was changed, or cut off"}
	}
	return err
}

// Read is vfs.File's.
func (f *sealedFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Write is vfs.File's.
func (f *sealedFile) Write(p []byte) (n int, err error) {
	switch {
	case !f.writes:
		return 0, os.ErrPermission
	case f.blocks != nil:
		return f.blocks.Write(p)
	case f.records != nil:
		return f.records.Write(p)
	}
	n, err = f.slots.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt is vfs.File's: at the end, or whole slots.
func (f *sealedFile) WriteAt(p []byte, at int64) (int, error) {
	switch {
	case !f.writes:
		return 0, os.ErrPermission
	case f.slots != nil:
		return f.slots.WriteAt(p, at)
	case at != f.at().Size():
		return 0, fmt.Errorf("%s is sealed, and written at its end", f.name)
	}
	return f.Write(p)
}

// Stat is vfs.File's, with the size of the plain bytes.
func (f *sealedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return sealedInfo{info, f.at().Size()}, nil
}

// Sync is vfs.File's.
func (f *sealedFile) Sync() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData is vfs.File's.
func (f *sealedFile) SyncData() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// flush gives the file below what it lacks. A log may be written to at the same time.
func (f *sealedFile) flush() error {
	if f.blocks == nil {
		return nil
	}
	return f.blocks.Flush()
}

// Close is vfs.File's.
func (f *sealedFile) Close() error { return errors.Join(f.flush(), f.File.Close()) }

// SyncTo is vfs.File's: a hint.
func (f *sealedFile) SyncTo(length int64) (bool, error) {
	if f.blocks != nil {
		length = f.blocks.At(length)
	}
	_, err := f.File.SyncTo(length)
	return false, err
}

// Prefetch is vfs.File's: a hint.
func (f *sealedFile) Prefetch(offset, length int64) error {
	if f.blocks == nil {
		return nil
	}
	from := f.blocks.At(offset)
	return f.File.Prefetch(from, f.blocks.At(offset+length+seal.BlockBytes-1)-from)
}

// Preallocate is vfs.File's: a hint. What a log has so far takes a few bytes more below.
func (f *sealedFile) Preallocate(offset, length int64) error {
	if f.records != nil {
		offset += f.records.End() - f.records.Size()
	}
	return f.File.Preallocate(offset, length)
}
