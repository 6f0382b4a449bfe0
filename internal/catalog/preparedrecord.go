package catalog

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A prepare record is in several keys of storage.IdentPrepared: session (retryable.AppendKey)
// ‖ number of the part. Part 0:
//
//	version, one byte ‖ prepare time, eight bytes, big-endian ‖ transaction number ‖ second of
//	the writes, signed ‖ number of the other parts ‖ the coordinator's shard, sized ‖ number
//	of collections ‖ the ident of each ‖ in version 2: session ‖ body of the record of what
//	the transaction has executed for it, sized
//
// The others have the writes, in their order, each of them:
//
//	ident of the collection ‖ flags, one byte ‖ the old document, sized ‖ the new one, sized
//
// Numbers are varints. A document that is not there is left out, and its flag is not set.

const (
	preparedRecordVersion = 1
	forOtherRecordVersion = 2
	// maxPartBytes bounds a part that has several writes, in bytes.
	maxPartBytes = 1 << 20
)

// Flags of a write in a record.
const (
	writeHasOld = 1 << iota
	writeHasNew
	writeReplaces
	writeEvicts
	writeFlags
)

// preparedHead is part 0 of a prepare record.
type preparedHead struct {
	time        uint64
	txn         int64
	second      int64
	parts       uint32
	coordinator string
	colls       []storage.Ident // that it writes to
	also        *forOther       // nil for none
}

func (h *preparedHead) append(dst []byte) []byte {
	version := byte(preparedRecordVersion)
	if h.also != nil {
		version = forOtherRecordVersion
	}
	dst = binary.BigEndian.AppendUint64(append(dst, version), h.time)
	dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(h.txn)), h.second)
	dst = storage.AppendSized(binary.AppendUvarint(dst, uint64(h.parts)), []byte(h.coordinator))
	dst = binary.AppendUvarint(dst, uint64(len(h.colls)))
	for _, id := range h.colls {
		dst = binary.AppendUvarint(dst, uint64(id))
	}
	if h.also != nil {
		dst = storage.AppendSized(retryable.AppendSession(dst, h.also.session), h.also.body)
	}
	return dst
}

func (h *preparedHead) read(r *storage.EncodingReader) {
	head := r.Bytes(1 + 8)
	txn := r.Uvarint()
	h.second = r.Varint()
	parts := r.Uvarint()
	h.coordinator = string(r.Sized())
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		h.colls = append(h.colls, storage.Ident(r.Uvarint()))
	}
	if !r.Bad && head[0] == forOtherRecordVersion {
		h.also = new(forOther)
		readSession(r, &h.also.session)
		r.Bad = !h.also.read(clone(r.Sized())) || r.Bad
	}
	if r.Bad || head[0] < preparedRecordVersion || head[0] > forOtherRecordVersion || txn > math.MaxInt64 || parts >= math.MaxUint32 {
		r.Bad = true
		return
	}
	h.time, h.txn, h.parts = binary.BigEndian.Uint64(head[1:]), int64(txn), uint32(parts)
}

func (w *draftWrite) append(dst []byte) []byte {
	flags := byte(0)
	for bit, is := range [...]bool{w.old != nil, w.doc != nil, w.replaces, w.evicts} { // in the order of the flags
		if is {
			flags |= 1 << bit
		}
	}
	dst = append(binary.AppendUvarint(dst, uint64(w.coll.id)), flags)
	for _, d := range []bson.Doc{w.old, w.doc} {
		if d != nil {
			dst = storage.AppendSized(dst, d)
		}
	}
	return dst
}

// readWrite reads a write, with documents of its own. Its collection has the ident id.
func readWrite(r *storage.EncodingReader) (w draftWrite, id storage.Ident) {
	id = storage.Ident(r.Uvarint())
	flags := r.Bytes(1)
	if r.Bad || flags[0] >= writeFlags {
		r.Bad = true
		return w, id
	}
	w.replaces, w.evicts = flags[0]&writeReplaces != 0, flags[0]&writeEvicts != 0
	for bit, d := range [...]*bson.Doc{&w.old, &w.doc} {
		if flags[0]&(1<<bit) != 0 && !r.Bad {
			*d = bson.Doc(clone(r.Sized()))
			r.Bad = r.Bad || !validDocument(*d)
		}
	}
	r.Bad = r.Bad || w.old == nil && w.doc == nil
	return w, id
}

// preparedNote says that a transaction is prepared. Part 0 of its record is stored with the
// unit's time, which is known when the unit is applied.
type preparedNote struct {
	about
	session retryable.Session
	head    preparedHead
}

func (n *preparedNote) kind() noteKind { return notePrepared }
func (n *preparedNote) joins() bool    { return true }

func (n *preparedNote) append(dst []byte) []byte {
	return n.head.append(retryable.AppendSession(dst, n.session))
}

// read reads from r what append has written.
func (n *preparedNote) read(r *storage.EncodingReader) {
	readSession(r, &n.session)
	n.head.read(r)
}

func readSession(r *storage.EncodingReader, s *retryable.Session) {
	copy(s.ID[:], r.Bytes(uint64(len(s.ID))))
	copy(s.UID[:], r.Bytes(uint64(len(s.UID))))
}

// write puts part 0 into the batch of the unit.
func (n *preparedNote) write(u *storage.Unit, at LogPosition) error {
	n.head.time = at.Time
	return u.Set(storage.IdentPrepared, retryable.AppendKey(nil, n.session, 0), n.head.append(nil))
}

func (n *preparedNote) apply(c *Catalog) error {
	c.prepared.note(n.session, n.head)
	return nil
}

// decidedNote says that a prepared transaction was decided: commit is the commit time, 0 if
// it was aborted.
type decidedNote struct {
	about
	session retryable.Session
	txn     int64
	commit  uint64
	index   uint64 // of the entry of the log; not encoded
}

func (n *decidedNote) kind() noteKind { return noteDecided }
func (n *decidedNote) joins() bool    { return true }

func (n *decidedNote) append(dst []byte) []byte {
	dst = retryable.AppendSession(dst, n.session)
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.txn)), n.commit)
}

// read reads from r what append has written.
func (n *decidedNote) read(r *storage.EncodingReader) {
	readSession(r, &n.session)
	txn := r.Uvarint()
	n.txn, n.commit = int64(txn), r.Uvarint()
	r.Bad = r.Bad || txn > math.MaxInt64
}

func (n *decidedNote) apply(c *Catalog) error {
	c.prepared.decide(PreparedKey{n.session, n.txn}, Decision{n.commit, n.index})
	return nil
}

// storeWrites puts the writes of a transaction into the parts of its record, and returns how
// many those are.
func storeWrites(u *storage.Unit, s retryable.Session, writes []draftWrite) (parts uint32, err error) {
	var part []byte
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		parts++
		err := u.Set(storage.IdentPrepared, retryable.AppendKey(nil, s, parts), part)
		part = part[:0]
		return err
	}
	for i := range writes {
		w := &writes[i]
		if len(part) > 0 && len(part)+len(w.old)+len(w.doc) > maxPartBytes {
			if err := flush(); err != nil {
				return 0, err
			}
		}
		part = w.append(part)
	}
	return parts, flush()
}

// removeRecord removes the record of a prepared transaction.
func removeRecord(u *storage.Unit, s retryable.Session, parts uint32) error {
	for n := range parts + 1 {
		if err := u.Delete(storage.IdentPrepared, retryable.AppendKey(nil, s, n), -1); err != nil {
			return err
		}
	}
	return nil
}

// eachPrepared calls f with each prepare record of a state, without its writes.
func eachPrepared(r storage.Reader, f func(s retryable.Session, h preparedHead) error) error {
	return eachPart(r, nil, nil, func(s retryable.Session, number uint32, value []byte) error {
		if number > 0 {
			return nil
		}
		var h preparedHead
		in := storage.EncodingReader{Rest: value}
		if h.read(&in); in.Bad || len(in.Rest) > 0 {
			return errDamagedRecord
		}
		return f(s, h)
	})
}

var errDamagedRecord = fmt.Errorf("%w: a prepare record is damaged", storage.ErrCorruption)

// eachPart calls f with the parts of records between two keys, nil for no bound.
func eachPart(r storage.Reader, from, to []byte, f func(s retryable.Session, number uint32, value []byte) error) (err error) {
	it, err := r.NewIter(storage.IdentPrepared, from, to)
	if err != nil {
		return err
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		s, number, err := retryable.ParseKey(it.Key())
		if err != nil {
			return err
		}
		if err := f(s, number, v); err != nil {
			return err
		}
	}
	return it.Err()
}

// storedWrites reads the writes of a prepared transaction.
func (c *Catalog) storedWrites(r storage.Reader, s retryable.Session, h preparedHead) (writes []draftWrite, err error) {
	next := uint32(1)
	err = eachPart(r, retryable.AppendKey(nil, s, 1), retryable.AppendKey(nil, s, h.parts+1), func(_ retryable.Session, number uint32, value []byte) error {
		if number != next {
			return errDamagedRecord
		}
		next++
		for in := (storage.EncodingReader{Rest: value}); len(in.Rest) > 0; {
			w, id := readWrite(&in)
			l := c.liveOf(id)
			if in.Bad || l == nil {
				return errDamagedRecord
			}
			w.coll = l.current.Load()
			writes = append(writes, w)
		}
		return nil
	})
	if err == nil && next != h.parts+1 {
		err = errDamagedRecord
	}
	return writes, err
}
