package storage

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// The encoding of a unit:
//
//	length of the batch ‖ the batch, as Pebble's log has it
//	number of counters ‖ for each: ident, and its deltas as signed varints
//	the next free common ident, 0 if none was taken
//
// Numbers are varints.

// maxUnitCounters bounds the counters of a unit that is decoded.
const maxUnitCounters = 1 << 20

// AppendEncoded appends the encoding of a unit, from which Decode makes it again.
// REQUIRES: the unit is sealed. It has nothing of this member's own.
func (u *Unit) AppendEncoded(dst []byte) []byte {
	invariant.Check(u.sealed, "storage: a unit is sealed before it is encoded")
	dst = AppendSized(dst, u.Batch())
	dst = binary.AppendUvarint(dst, uint64(len(u.counters)))
	for _, c := range u.counters {
		dst = binary.AppendUvarint(dst, uint64(c.id))
		for _, d := range c.d {
			dst = binary.AppendVarint(dst, d)
		}
	}
	return binary.AppendUvarint(dst, uint64(u.next[CommonIdents]))
}

// Value says where in the bytes of a batch the value of a write is.
type Value struct{ From, Len uint32 }

// Values returns where in the batch the values of the unit's writes are, in the
// order in which they were made.
// REQUIRES: the unit is sealed, by the process that made its writes.
func (u *Unit) Values() []Value {
	invariant.Check(u.sealed, "storage: a unit is sealed before its writes are looked for")
	data := u.batch.Repr()
	values := make([]Value, u.batch.Count())
	at := 0
	for r := u.batch.Reader(); len(r) > 0; at++ {
		_, _, value, ok, err := r.Next()
		if !invariant.Check(ok && err == nil, "storage: a batch that was made here can be read") {
			break
		}
		n := at
		if len(u.ordering.was) > 0 {
			n = u.ordering.was[at]
		}
		values[n] = Value{uint32(len(data) - len(r) - len(value)), uint32(len(value))}
	}
	return values
}

// Batch is the batch of a unit that was decoded, as its encoding has it, until it is
// applied.
func (u *Unit) Batch() []byte {
	if u.decoded != nil {
		return u.decoded
	}
	return u.batch.Repr()
}

// Decode makes a unit of an encoding, and returns what follows it. It is sealed, holds no
// locks, and must be bound. The encoding must stay as it is until the unit has ended.
// Errors: ErrCorruption.
func (e *Engine) Decode(b []byte) (u *Unit, rest []byte, err error) {
	r := EncodingReader{Rest: b}
	repr := r.Sized()
	if r.Bad || !validBatch(repr) {
		return nil, nil, fmt.Errorf("%w: the batch of a unit is damaged", ErrCorruption)
	}
	n := min(r.Uvarint(), maxUnitCounters, uint64(len(r.Rest)))
	u = e.Begin()
	for range n {
		c := counterDelta{id: Ident(r.Uvarint())}
		for k := range c.d {
			c.d[k] = r.Varint()
		}
		r.Bad = r.Bad || c.id < FirstIdent || c.id >= FirstOwnIdent
		u.counters = append(u.counters, c)
	}
	next := Ident(r.Uvarint())
	if r.Bad || next != 0 && (next <= FirstIdent || next >= FirstOwnIdent) {
		u.Abort()
		return nil, nil, fmt.Errorf("%w: the counters or idents of a unit are damaged", ErrCorruption)
	}
	u.decoded, u.next[CommonIdents], u.sealed, u.foreign = repr, next, true, true
	return u, r.Rest, nil
}

// SkipUnit returns the batch in the encoding of a unit, and what follows that. Errors:
// ErrCorruption.
func SkipUnit(b []byte) (batch, rest []byte, err error) {
	r := EncodingReader{Rest: b}
	batch = r.Sized()
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		r.Uvarint()
		for range (counterDelta{}).d {
			r.Varint()
		}
	}
	if r.Uvarint(); r.Bad {
		return nil, nil, fmt.Errorf("%w: a unit is truncated", ErrCorruption)
	}
	return batch, r.Rest, nil
}

// Bind finds the counters of a unit that was decoded. Errors: ErrCorruption for
// one that does not exist.
func (u *Unit) Bind(counter func(Ident) *Counter) error {
	for i := range u.counters {
		c := &u.counters[i]
		if c.c = counter(c.id); c.c == nil {
			return fmt.Errorf("%w: a unit counts in keyspace %d, which has no counter", ErrCorruption, c.id)
		}
	}
	return nil
}

// validBatch reports whether bytes are a batch as units make it, without keyspaces
// of one member alone.
func validBatch(repr []byte) bool {
	if len(repr) < batchHeader {
		return false
	}
	for _, c := range repr[:8] {
		if c != 0 {
			return false // a place in another store's log
		}
	}
	h, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return false
	}
	r := batchrepr.Read(repr)
	for n := uint32(0); ; n++ {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return false
		}
		if !ok {
			return n == h.Count
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized:
			if !commonKey(key, false) {
				return false
			}
		case pebble.InternalKeyKindMerge:
			if !commonKey(key, false) || !validOperand(value) {
				return false
			}
		case pebble.InternalKeyKindRangeDelete:
			if !commonKey(key, false) || !commonKey(value, true) {
				return false
			}
		default:
			return false
		}
	}
}

// validOperand reports whether a value can be merged.
func validOperand(v []byte) bool {
	switch {
	case len(v) == 0:
		return false
	case v[0] == mergeSum:
		_, err := parseSums(v, new([maxSums]int64))
		return err == nil
	}
	return v[0] == mergeOr
}

// commonKey reports whether a store's key is in a keyspace that all members of a
// group share; end says that it is the exclusive end of a range.
func commonKey(key []byte, end bool) bool {
	id, rest, ok := cutIdent(key)
	if !ok {
		return false
	}
	switch id {
	case IdentMeta:
		return string(key) == string(keysNextIdent[CommonIdents])
	case IdentCounters, IdentCatalog, IdentMultikey, IdentWindows:
		of, _, ok := cutIdent(rest)
		return ok && (of < FirstOwnIdent || end && of == FirstOwnIdent)
	case IdentParams, IdentSessions, IdentPrepared:
		return true
	}
	return id >= FirstIdent && (id < FirstOwnIdent || end && id == FirstOwnIdent && len(rest) == 0)
}

// OwnKey reports whether a key of a keyspace is of this member alone.
func OwnKey(id Ident, key []byte) bool {
	if id == IdentRaft || id == IdentMeta && string(key) != string(keysNextIdent[CommonIdents][1:]) {
		return true
	}
	if id == IdentCounters || id == IdentCatalog || id == IdentMultikey || id == IdentWindows {
		of, _, ok := cutIdent(key)
		return !ok || of >= FirstOwnIdent
	}
	return id >= FirstOwnIdent
}

// EachKey calls f with all keys of the engine and their values, in order, until it
// returns an error. Both are valid for the call.
func (e *Engine) EachKey(f func(id Ident, key, value []byte) error) error {
	it, err := e.db.NewIter(nil)
	if err != nil {
		return mapError(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		id, key, ok := cutIdent(it.Key())
		if !ok {
			return fmt.Errorf("%w: not a key: %x", ErrCorruption, it.Key())
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return mapError(err)
		}
		if err := f(id, key, v); err != nil {
			return err
		}
	}
	return mapError(it.Error())
}
