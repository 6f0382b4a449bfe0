package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A backup has a copy of a member's data, and the entries of the log behind it
// (docs/rfcs/0030-backup.md).

// copyCacheBytes is the cache of a copy that is opened to see what it has.
const copyCacheBytes = 8 << 20

// Copied says what a copy of data is.
type Copied struct {
	// Set and SetID are of the replica set; "" of a standalone.
	Set   string
	SetID [12]byte
	// At is the last entry that the copy has. Of a standalone it has the time when the copy
	// began, and nothing else.
	At Position
}

// Copy makes a copy of the member's data in a directory that does not exist. It is
// unfinished: it has neither the log nor what may be a server of its own. Restoration makes
// one of it.
func (m *Member) Copy(ctx context.Context, dir string) (c Copied, err error) {
	if err := m.store.copyTo(ctx, dir, m.lastApplied()); err != nil {
		return c, err
	}
	fs := m.store.opts.FS
	e, err := storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: copyCacheBytes, ReadOnly: true})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	config, err := Stored(e)
	if err != nil {
		return c, err
	}
	if config == nil {
		return c, errors.New("the data belong to no replica set yet")
	}
	c.Set, c.SetID = config.Set, config.ID
	l, err := OpenLog(e, m.store.opts.Group)
	if err != nil {
		return c, err
	}
	if c.At, err = position(l, e.Applied()); err != nil {
		return c, err
	}
	return c, storage.SetUnfinished(fs, dir)
}

// CopyStandalone makes a copy of the data of a standalone in a directory that does not
// exist: a whole data directory. Data of a set's member are not copied so: what the member has
// promised the set would be in two places.
func CopyStandalone(ctx context.Context, e *storage.Engine, dir string) (Copied, error) {
	c := Copied{At: Position{Time: Timestamp(time.Now().Unix()) << 32}}
	switch config, err := Stored(e); {
	case err != nil:
		return c, err
	case config != nil:
		return c, mongoerr.New(mongoerr.IllegalOperation, "The data of this server belong to a member of the replica set %s, but it was started without --replSet: back up a member", config.Set)
	}
	flushed, err := e.StartFlush()
	if err != nil {
		return c, err
	}
	select {
	case <-flushed:
	case <-time.After(flushPatience):
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	return c, e.Checkpoint(dir)
}

// LogPart is a piece of the log: entries that follow each other. In Bytes each is its index
// and its length as varints, and the entry as it is stored.
type LogPart struct {
	First, Last uint64    // indexes
	Term        uint64    // of the last one
	Time        Timestamp // of the last one, or of one before it; 0 if none has a time
	Bytes       []byte
}

// ErrOtherLog says that an entry of the log is not the one that a reader knows.
var ErrOtherLog = errors.New("replication: the log has another entry there")

// ReadLog returns the applied entries behind one, which has an index and a term, as many as
// fit maxBytes but at least one; none (First is 0) if no other is applied yet. Errors:
// ErrHistoryLost, ErrOtherLog.
func (m *Member) ReadLog(after, term uint64, maxBytes int) (p LogPart, err error) {
	from, last := after+1, m.lastApplied()
	if from > last {
		return p, nil
	}
	group := m.store.opts.Group
	snap := m.catalog.Engine().NewSnapshot()
	defer snap.Close()
	it, err := snap.NewIter(storage.IdentRaft, entryKey(group, from), entryKey(group, last+1))
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if err := checkTerm(snap, group, after, term); err != nil {
		return p, err
	}
	next := from
	for ok := it.First(); ok; ok = it.Next() {
		if indexOf(it.Key()) != next {
			break
		}
		v, err := it.Value()
		if err != nil {
			return p, err
		}
		if len(p.Bytes) > 0 && len(p.Bytes)+len(v)+2*binary.MaxVarintLen64 > maxBytes {
			return p, nil
		}
		e, _, timed, err := timed(v)
		if err != nil {
			return p, err
		}
		if timed {
			p.Time = e.time
		}
		if p.First == 0 {
			p.First = next
		}
		p.Bytes = append(binary.AppendUvarint(binary.AppendUvarint(p.Bytes, next), uint64(len(v))), v...)
		p.Last, p.Term = next, binary.BigEndian.Uint64(v[1:])
		next++
	}
	if err := it.Err(); err != nil {
		return p, err
	}
	if p.First == 0 {
		return p, ErrHistoryLost
	}
	return p, nil
}

// checkTerm checks the term of an entry, if the log still has it.
func checkTerm(r storage.Reader, group Number, index, term uint64) error {
	v, closer, err := r.Get(storage.IdentRaft, entryKey(group, index))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	if len(v) < storedHead || binary.BigEndian.Uint64(v[1:]) != term {
		return ErrOtherLog
	}
	return nil
}

// cutEntry cuts the first entry off the bytes of a LogPart.
func cutEntry(b []byte) (index uint64, stored, rest []byte, err error) {
	index, n := binary.Uvarint(b)
	if n > 0 {
		size, k := binary.Uvarint(b[n:])
		if b = b[n:]; k > 0 && size <= uint64(len(b)-k) && size >= storedHead {
			return index, b[k : k+int(size)], b[k+int(size):], nil
		}
	}
	return 0, nil, nil, fmt.Errorf("%w: entries of a log are cut off", storage.ErrCorruption)
}
