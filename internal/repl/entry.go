package repl

import (
	"encoding/binary"
	"fmt"
)

// Timestamp is a cluster time: seconds in the upper 32 bits, a counter in the lower.
type Timestamp uint64

// Seconds returns the seconds since 1970.
func (t Timestamp) Seconds() uint32 { return uint32(t >> 32) }

// String returns seconds and counter.
func (t Timestamp) String() string { return fmt.Sprintf("%d:%d", t.Seconds(), uint32(t)) }

// Position is the position of an entry in the log, and its time. Time and Term are
// MongoDB's optime.
type Position struct {
	Index uint64
	Term  uint64
	Time  Timestamp
}

// entryKind says what an entry does.
type entryKind byte

const (
	kindNoop   entryKind = 1 // nothing; its payload is a note
	kindEffect entryKind = 2 // a write: the machine's bytes
	kindConfig entryKind = 3 // a new configuration of the set
	kindPart   entryKind = 4 // a part of a chain; see chain
	kindLast   entryKind = 5 // the last entry of a chain: a write, with the chain's parts
)

const (
	entryVersion = 1
	chainVersion = 2 // of the entries of chains
	// entryHead is the length of an entry's header, which precedes its payload:
	// version, kind, term of evaluation, time.
	entryHead = 1 + 1 + 8 + 8
)

// entry is the data of one of raft's entries. The payload stays bytes.
type entry struct {
	kind    entryKind
	term    uint64 // in which it was evaluated (invariant own-term)
	time    Timestamp
	payload []byte
	// room is entryHead bytes for the header, and the payload; nil if encode must
	// allocate it.
	room []byte
}

func (e entry) encode() []byte {
	b := e.room[:0]
	if e.room == nil {
		b = make([]byte, 0, entryHead+len(e.payload))
	}
	version := byte(entryVersion)
	if e.kind >= kindPart {
		version = chainVersion
	}
	b = append(b, version, byte(e.kind))
	b = binary.LittleEndian.AppendUint64(b, e.term)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.time))
	if e.room != nil {
		return e.room
	}
	return append(b, e.payload...)
}

// decodeEntry reads an entry's data; the payload aliases b.
func decodeEntry(b []byte) (entry, error) {
	last := kindConfig
	if len(b) > 0 && b[0] == chainVersion {
		last = kindLast
	}
	if len(b) < entryHead || b[0] < entryVersion || b[0] > chainVersion || b[1] < byte(kindNoop) || b[1] > byte(last) {
		return entry{}, fmt.Errorf("a log entry that this version does not know: % x", b[:min(len(b), entryHead)])
	}
	return entry{
		kind:    entryKind(b[1]),
		term:    binary.LittleEndian.Uint64(b[2:]),
		time:    Timestamp(binary.LittleEndian.Uint64(b[10:])),
		payload: b[entryHead:],
	}, nil
}

// appendPosition and cutPosition encode and decode a position: three integers.
func appendPosition(b []byte, p Position) []byte {
	b = binary.LittleEndian.AppendUint64(b, p.Index)
	b = binary.LittleEndian.AppendUint64(b, p.Term)
	return binary.LittleEndian.AppendUint64(b, uint64(p.Time))
}

const positionLen = 3 * 8

func cutPosition(b []byte) (p Position, rest []byte, ok bool) {
	if len(b) < positionLen {
		return p, b, false
	}
	p.Index = binary.LittleEndian.Uint64(b)
	p.Term = binary.LittleEndian.Uint64(b[8:])
	p.Time = Timestamp(binary.LittleEndian.Uint64(b[16:]))
	return p, b[positionLen:], true
}
