package catalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/mayflydb/mayfly/internal/bson"
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
// Numbers are varints. The version rises with each change, that of the format of
// Pebble's batches too, and a set writes the next one when all members read it.
const effectVersion = 1

// effectHeader is the length of version and checksum.
const effectHeader = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendEncoded appends the encoding of an effect that is sealed, as a Committer
// gets it, and not applied yet.
// REQUIRES: it is not of this member alone; those never come to a Committer.
func (e *Effect) AppendEncoded(dst []byte) []byte {
	invariant.Check(!e.own, "catalog: an effect of this member alone never comes to a Committer")
	from := len(dst)
	dst = append(dst, effectVersion, 0, 0, 0, 0)
	dst = e.u.AppendEncoded(dst)
	dst = binary.AppendUvarint(dst, uint64(len(e.dues)+len(e.notes)))
	for i := range e.dues {
		dst = appendNote(dst, &e.dues[i])
	}
	for _, n := range e.notes {
		dst = appendNote(dst, n)
	}
	dst = e.ops.append(dst)
	binary.LittleEndian.PutUint32(dst[from+1:], crc32.Checksum(dst[from+effectHeader:], castagnoli))
	return dst
}

func appendNote(dst []byte, n note) []byte {
	dst = binary.AppendUvarint(append(dst, byte(n.kind())), uint64(n.target().id))
	return storage.AppendSized(dst, n.append(nil))
}

// Decode makes an effect of an encoding, which must be all of b and is copied.
// Errors: storage.ErrCorruption.
func (c *Catalog) Decode(b []byte) (*Effect, error) {
	bad := func(what string) (*Effect, error) {
		return nil, fmt.Errorf("%w: an effect %s", storage.ErrCorruption, what)
	}
	switch {
	case len(b) < effectHeader:
		return bad("is cut short")
	case b[0] != effectVersion:
		return bad(fmt.Sprintf("has version %d; this build reads %d", b[0], effectVersion))
	case binary.LittleEndian.Uint32(b[1:]) != crc32.Checksum(b[effectHeader:], castagnoli):
		return bad("does not fit its checksum")
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
			return bad("has a note that is damaged")
		}
	}
	if e.ops.read(&r); r.Bad || len(r.Rest) > 0 {
		u.Abort()
		return bad("has damaged operations, no end, or more than one")
	}
	return e, nil
}

// readNote adds the note of a kind that r has; false where there is no such kind.
func (e *Effect) readNote(kind noteKind, id storage.Ident, r *storage.EncodingReader) bool {
	if id >= storage.FirstOwnIdent || id < storage.FirstIdent && kind != noteDatabase {
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
	case noteStaged:
		e.note(&stagedNote{about: a, number: r.Uvarint()})
	case noteFrozen:
		e.note(&frozenNote{a, r.Uvarint()})
	case noteFlushed:
		e.note(&flushedNote{a, r.Uvarint()})
	case noteReopened:
		e.note(readReopened(a, r))
	case noteOpen:
		n := &openNote{about: a, key: clone(r.Sized())}
		n.n, n.size = int(r.Uvarint()), int(r.Uvarint())
		n.first, n.last = r.Varint(), r.Varint()
		n.seq, n.buckets = r.Uvarint(), int(r.Uvarint())
		e.note(n)
	case noteNumbered:
		e.note(&numberedNote{about: a, first: r.Varint(), last: r.Varint(), settled: r.Varint(), foreign: true})
	case noteDatabase:
		e.note(&databaseNote{about: a, db: string(r.Bytes(uint64(len(r.Rest))))})
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

func (n *stagedNote) append(dst []byte) []byte  { return binary.AppendUvarint(dst, n.number) }
func (n *frozenNote) append(dst []byte) []byte  { return binary.AppendUvarint(dst, n.cut) }
func (n *flushedNote) append(dst []byte) []byte { return binary.AppendUvarint(dst, n.seq) }

func (n *openNote) append(dst []byte) []byte {
	dst = storage.AppendSized(dst, n.key)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.n)), uint64(n.size))
	dst = binary.AppendVarint(binary.AppendVarint(dst, n.first), n.last)
	return binary.AppendUvarint(binary.AppendUvarint(dst, n.seq), uint64(n.buckets))
}

func (n *reopenedNote) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, n.seq), uint64(len(n.groups)))
	for _, g := range n.groups {
		dst = storage.AppendSized(dst, g.key)
		dst = storage.AppendSized(append(dst, byte(g.meta.Type)), g.meta.Data)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(g.n)), uint64(g.size))
		dst = binary.AppendVarint(binary.AppendVarint(dst, g.first), g.last)
	}
	return dst
}

func (n *numberedNote) append(dst []byte) []byte {
	settled := n.settled
	if !n.foreign && n.l != nil {
		settled = n.l.numbering.Settled()
	}
	return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(dst, n.first), n.last), settled)
}

func readReopened(a about, r *storage.EncodingReader) *reopenedNote {
	n := &reopenedNote{about: a, seq: r.Uvarint()}
	for k := r.Uvarint(); k > 0 && !r.Bad; k-- {
		g := reopened{key: clone(r.Sized())}
		if t := r.Bytes(1); !r.Bad {
			g.meta = bson.Value{Type: bson.Type(t[0]), Data: clone(r.Sized())}
		}
		g.n, g.size = int(r.Uvarint()), int(r.Uvarint())
		g.first, g.last = r.Varint(), r.Varint()
		r.Bad = r.Bad || !validMeta(g.meta)
		n.groups = append(n.groups, g)
	}
	return n
}

// validMeta says whether a value is a meta value, or stands for none.
func validMeta(v bson.Value) bool {
	return v.IsMissing() && len(v.Data) == 0 || bson.ValidateValue(v, maxDescriptorDepth) == nil
}
