package catalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The encoding of an effect:
//
//	version, one byte
//	CRC-32C of the rest, four bytes, the lowest first
//	the unit (storage/unitcode.go)
//	number of notes ‖ for each: kind, one byte ‖ ident of the collection ‖ what it
//	says, behind its length
//	operations (operations.go)
//
// Numbers are varints. The version rises with each change, including changes of
// Pebble's batch format, and a set writes the next one once all members can read
// it.
//
// Versions 1 to 3 differ in the operations. They can be read, but are no longer
// written. Version 5 is 4 with a note of a prepared transaction, which older builds must not
// apply: as primary they would write what it has locked. Version 6 is 5 where a transaction has
// executed a statement of another session.
const (
	effectVersion         = 4
	preparedEffectVersion = 5
	forOtherEffectVersion = 6
)

// readableEffect reports whether this build can read a version.
func readableEffect(version byte) bool { return version >= 1 && version <= forOtherEffectVersion }

// version is that in which the effect is encoded.
func (e *Effect) version() byte {
	switch {
	case e.ops.encoded != nil:
		return e.ops.version
	case e.also != nil || e.prepared != nil && e.prepared.head.also != nil:
		return forOtherEffectVersion
	case slices.ContainsFunc(e.notes, func(n note) bool { return n.kind() == notePrepared || n.kind() == noteDecided }):
		return preparedEffectVersion
	}
	return effectVersion
}

// effectHeader is the length of version and checksum.
const effectHeader = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendEncoded appends the encoding of an effect that is sealed, as a Committer
// gets it, and not applied yet.
// REQUIRES: it is not of this member alone; those never come to a Committer.
func (e *Effect) AppendEncoded(dst []byte) []byte {
	invariant.Check(!e.own, "catalog: an effect of this member alone never comes to a Committer")
	from := len(dst)
	dst = append(dst, e.version(), 0, 0, 0, 0)
	dst = e.u.AppendEncoded(dst)
	dst = binary.AppendUvarint(dst, uint64(len(e.dues)+len(e.notes)))
	for i := range e.dues {
		dst = appendNote(dst, &e.dues[i])
	}
	for _, n := range e.notes {
		dst = appendNote(dst, n)
	}
	dst = e.ops.append(dst, e.u)
	sign(dst[from:])
	return dst
}

// sign puts the checksum of an encoding into it.
func sign(b []byte) {
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[effectHeader:], castagnoli))
}

// EncodedSize estimates how many bytes AppendEncoded appends: seldom more.
func (e *Effect) EncodedSize() int {
	const perNote, perOperation, rest = 64, 12, 128
	return rest + e.u.Size() + perNote*(len(e.dues)+len(e.notes)) + perOperation*len(e.ops.all) + len(e.ops.bytes)
}

func appendNote(dst []byte, n note) []byte {
	dst = binary.AppendUvarint(append(dst, byte(n.kind())), uint64(n.target().id))
	return storage.AppendSized(dst, n.append(nil))
}

// Decode decodes an effect, which must be all of b: it must stay as it is until the effect
// has been applied, which copies it. Errors: storage.ErrCorruption.
func (c *Catalog) Decode(b []byte) (*Effect, error) {
	bad := func(what string) (*Effect, error) {
		return nil, fmt.Errorf("%w: an effect %s", storage.ErrCorruption, what)
	}
	switch {
	case len(b) < effectHeader:
		return bad("is truncated")
	case !readableEffect(b[0]):
		return bad(fmt.Sprintf("has version %d; this build reads those up to %d", b[0], forOtherEffectVersion))
	case binary.LittleEndian.Uint32(b[1:]) != crc32.Checksum(b[effectHeader:], castagnoli):
		return bad("does not match its checksum")
	}
	u, rest, err := c.engine.Decode(b[effectHeader:])
	if err != nil {
		return nil, err
	}
	e := &Effect{c: c, u: u, foreign: true}
	r := storage.EncodingReader{Rest: rest}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		kind := r.Bytes(1)
		id := storage.Ident(r.Uvarint())
		what := storage.EncodingReader{Rest: r.Sized()}
		if r.Bad || !e.readNote(noteKind(kind[0]), id, &what) || what.Bad || len(what.Rest) > 0 {
			u.Abort()
			return bad("has a damaged note")
		}
	}
	if e.ops.read(&r, b[0], u.Batch()); r.Bad || len(r.Rest) > 0 {
		u.Abort()
		return bad("has damaged operations, or not exactly one end")
	}
	return e, nil
}

// readNote reads a note of a kind from r, and adds it; false if there is no
// such kind.
func (e *Effect) readNote(kind noteKind, id storage.Ident, r *storage.EncodingReader) bool {
	if id >= storage.FirstOwnIdent || id < storage.FirstIdent && (kind < noteDatabase || kind > noteDecided) {
		return false
	}
	a := about{id: id}
	switch kind {
	case noteDue:
		e.dues = append(e.dues, dueNote{a, r.Varint()})
	case noteDescriptor:
		e.note(&descriptorNote{about: a})
	case noteDropped:
		e.note(&droppedNote{about: a})
	case noteMultikey:
		n := &multikeyNote{about: a, index: storage.Ident(r.Uvarint())}
		r.Bad = r.Bad || len(r.Rest) == 0 || len(r.Rest)%8 != 0
		n.paths = decodePaths(r.Bytes(uint64(len(r.Rest))))
		e.note(n)
	case noteWindows:
		e.note(&windowsNote{a, r.Varint()})
	case noteStale:
		e.note(&staleNote{a, r.Uvarint()})
	case noteForgotten:
		e.note(&forgottenNote{a})
	case noteCapped:
		e.note(&cappedNote{a, r.Varint(), r.Varint()})
	case noteStaged, noteFrozen, noteFlushed, noteReopened, noteRest:
		n := &tableNote{a, measurements.Kind(kind - noteStaged).New()}
		n.change.Read(r)
		e.note(n)
	case noteNumbered:
		e.note(&numberedNote{about: a, first: r.Varint(), last: r.Varint(), settled: r.Varint(), foreign: true})
	case noteDatabase:
		e.note(&databaseNote{about: a, db: string(r.Bytes(uint64(len(r.Rest))))})
	case noteExecuted:
		n := &executedNote{about: a}
		switch {
		case id != storage.IdentSessions:
			return false
		case e.executed == nil:
			e.executed = n
		case e.also == nil:
			e.also = n
		default:
			return false // two of a unit
		}
		n.read(r)
		e.note(n)
	case notePrepared:
		if e.prepared != nil || id != storage.IdentPrepared {
			return false // one of a unit
		}
		e.prepared = &preparedNote{about: a}
		e.prepared.read(r)
		e.note(e.prepared)
	case noteDecided:
		n := &decidedNote{about: a}
		n.read(r)
		e.note(n)
	default:
		return false
	}
	return true
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func (n *dueNote) append(dst []byte) []byte { return binary.AppendVarint(dst, n.due) }

func (n *multikeyNote) append(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(n.index)), encodePaths(n.paths)...)
}

func (n *windowsNote) append(dst []byte) []byte { return binary.AppendVarint(dst, n.dead) }
func (n *staleNote) append(dst []byte) []byte   { return binary.AppendUvarint(dst, n.window) }

func (n *cappedNote) append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, n.first), n.last)
}

func (n *numberedNote) append(dst []byte) []byte {
	settled := n.settled
	if !n.foreign && n.l != nil {
		settled = n.l.numbering.Settled()
	}
	return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(dst, n.first), n.last), settled)
}
