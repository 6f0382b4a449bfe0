package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// controlFile records what the files of a store must at least contain, so that
	// a start can distinguish damage from a torn end.
	controlFile = "mayfly.control"
	// controlSlot is the size of each of its two slots, which are written in turn:
	// when one is torn, the other is intact.
	controlSlot = 4 << 10
	// maxControlFiles bounds the logs and manifests that it names. Pebble keeps two
	// manifests, and a log for each memtable and recycled file.
	maxControlFiles = 64

	controlMagic   = "MFCONTRL"
	controlVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// control is the control file of an open store.
//
// It is written after the sync that it records, and is not synced itself: what is
// on disk may be old, but is true. Only before a file is removed is it made durable
// that the file is no longer needed (invariant control-true).
type control struct {
	mu   sync.Mutex
	file vfs.File
	slot [controlSlot]byte // the last that was written, and zeros
	controlRecord
}

// controlRecord is what a slot holds.
type controlRecord struct {
	seq    uint64
	opened bool   // Pebble had created its files
	format uint64 // of Pebble's files, as formatFile has it
	files  []controlledFile
}

// controlledFile is a log or a manifest, by its number, and how far it was synced.
type controlledFile struct {
	manifest bool
	num      uint64
	synced   int64
}

func (f controlledFile) name() string {
	if f.manifest {
		return fmt.Sprintf("MANIFEST-%06d", f.num)
	}
	return fmt.Sprintf("%06d.log", f.num)
}

// parseControlled parses the name of a log or a manifest.
func parseControlled(name string) (f controlledFile, ok bool) {
	if n, err := fmt.Sscanf(name, "MANIFEST-%d", &f.num); err == nil && n == 1 {
		f.manifest = true
	} else if n, err := fmt.Sscanf(name, "%d.log", &f.num); err != nil || n != 1 {
		return f, false
	}
	return f, f.name() == name
}

// appendTo appends a slot to b: magic, version, seq, flags, format, count, files, and the
// checksum of all before. Integers are little-endian.
func (r *controlRecord) appendTo(b []byte) []byte {
	from := len(b)
	b = append(b, controlMagic...)
	b = binary.LittleEndian.AppendUint32(b, controlVersion)
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = append(b, boolByte(r.opened))
	b = binary.LittleEndian.AppendUint64(b, r.format)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.files)))
	for _, f := range r.files {
		b = append(b, boolByte(f.manifest))
		b = binary.LittleEndian.AppendUint64(b, f.num)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.synced))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// decodeControl reads a slot; false if it is damaged or was never written.
func decodeControl(b []byte) (r controlRecord, ok bool) {
	const head = len(controlMagic) + 4 + 8 + 1 + 8 + 4
	const each = 1 + 8 + 8
	if len(b) < head+4 || string(b[:len(controlMagic)]) != controlMagic {
		return r, false
	}
	n := int(binary.LittleEndian.Uint32(b[head-4:]))
	if n > maxControlFiles || len(b) < head+n*each+4 {
		return r, false
	}
	end := head + n*each
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) || binary.LittleEndian.Uint32(b[8:]) != controlVersion {
		return r, false
	}
	r.seq, r.opened, r.format = binary.LittleEndian.Uint64(b[12:]), b[20] == 1, binary.LittleEndian.Uint64(b[21:])
	for at := head; at < end; at += each {
		r.files = append(r.files, controlledFile{b[at] == 1, binary.LittleEndian.Uint64(b[at+1:]), int64(binary.LittleEndian.Uint64(b[at+9:]))})
	}
	return r, true
}

// readControl reads the newer slot; found is false if there is no file, and the
// error is ErrCorruption where both slots are damaged.
func readControl(fs vfs.FS, dir string) (r controlRecord, found bool, err error) {
	path := fs.PathJoin(dir, controlFile)
	f, err := fs.Open(path)
	if oserror.IsNotExist(err) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	defer f.Close()
	b := make([]byte, 2*controlSlot)
	if n, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return r, true, err
	} else {
		b = b[:n]
	}
	for at := 0; at < len(b); at += controlSlot {
		if s, ok := decodeControl(b[at:min(at+controlSlot, len(b))]); ok && s.seq >= r.seq {
			r, found = s, true
		}
	}
	if !found {
		return r, true, fmt.Errorf("%w: %s has no readable slot", ErrCorruption, path)
	}
	return r, true, nil
}

// openControl opens the control file, or creates it, with what r holds.
func openControl(fs vfs.FS, dir string, r controlRecord) (*control, error) {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, controlFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	c := &control{file: f, controlRecord: r}
	for range 2 { // both slots, so that a full disk cannot prevent writes later
		if err = c.writeLocked(); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func (c *control) writeLocked() error {
	c.seq++
	n := len(c.appendTo(c.slot[:0]))
	clear(c.slot[n:])
	_, err := c.file.WriteAt(c.slot[:], int64(c.seq%2)*controlSlot)
	return err
}

// noteSynced records how far the caller has synced a file.
func (c *control) noteSynced(f controlledFile, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.files, func(g controlledFile) bool { return g.manifest == f.manifest && g.num == f.num })
	switch {
	case i >= 0 && c.files[i].synced >= size:
		return nil
	case i >= 0:
		c.files[i].synced = size
	default:
		if len(c.files) == maxControlFiles { // the oldest log is missed least
			i := max(0, slices.IndexFunc(c.files, func(g controlledFile) bool { return !g.manifest }))
			c.files = slices.Delete(c.files, i, i+1)
		}
		f.synced = size
		c.files = append(c.files, f)
	}
	return c.writeLocked()
}

// forget makes durable that a file is no longer needed. It is called before the
// file is removed.
func (c *control) forget(f controlledFile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.files)
	c.files = slices.DeleteFunc(c.files, func(g controlledFile) bool { return g.manifest == f.manifest && g.num == f.num })
	if len(c.files) == n {
		return nil
	}
	return errors.Join(c.writeLocked(), c.file.SyncData())
}

// noteOpened records that the store exists: from now on it is never created
// again.
func (c *control) noteOpened(format uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened && c.format == format {
		return nil
	}
	c.opened, c.format = true, format
	return errors.Join(c.writeLocked(), c.file.SyncData())
}

// close makes the last record durable.
func (c *control) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.file.SyncData(), c.file.Close())
}
