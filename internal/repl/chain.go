package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"weak"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// An effect that is too large for one entry is a chain: its encoding in parts, an entry each,
// and a last entry that names them and at which the effect takes place, whole. Until then the
// parts are state of the machine, which travels with a snapshot. A chain whose last entry
// never comes, or comes in a later term, changes nothing; its parts are removed with the
// first entry of the next term, or by the next chain
// (docs/rfcs/0027-transactions.md).

const (
	// maxEffectBytes bounds an effect that is one entry.
	maxEffectBytes = 24 << 20
	// partBytes is the size of a part: an entry that others are not held up by.
	partBytes = 8 << 20
)

// chains are how a member commits effects that are too large for one entry.
type chains struct {
	sync.Mutex     // held while one is committed
	from, part int // maxEffectBytes and partBytes, but for tests
}

// chain is the payload of a chain's last entry: two integers and the indexes of the parts,
// all varints.
type chain struct {
	times uint64   // how many documents of the oplog it has
	parts []uint64 // indexes of entries
}

func (c *chain) encode() []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, c.times), uint64(len(c.parts)))
	for _, i := range c.parts {
		b = binary.AppendUvarint(b, i)
	}
	return b
}

// decodeChain reads a chain. Errors: storage.ErrCorruption.
func decodeChain(b []byte) (c chain, err error) {
	r := storage.EncodingReader{Rest: b}
	c.times = r.Uvarint()
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		c.parts = append(c.parts, r.Uvarint())
	}
	if r.Bad || len(r.Rest) > 0 || len(c.parts) == 0 {
		return c, fmt.Errorf("%w: the last entry of a chain is damaged", storage.ErrCorruption)
	}
	return c, nil
}

// changes reports whether an entry, which has a term in the log, has an effect.
func (e *entry) changes(term uint64) bool {
	return (e.kind == kindEffect || e.kind == kindLast) && e.term == term
}

// documents is how many documents of the oplog an entry with an effect has.
func (e *entry) documents() (n int, err error) {
	if e.kind == kindLast {
		c, err := decodeChain(e.payload)
		return int(c.times), err
	}
	all, _, err := catalog.DecodeOperations(e.payload)
	for i := range all {
		n += all[i].Count()
	}
	return n, err
}

// commitChain commits an effect as a chain. One at a time: so there is one chain's worth of
// parts. Errors: those of Commit; where a part has failed, the effect has left no trace.
func (m *Member) commitChain(e *catalog.Effect, payload []byte) (Position, error) {
	m.chains.Lock()
	defer m.chains.Unlock()
	ev, c := e.Evaluation(), chain{times: uint64(e.OperationCount())}
	for len(payload) > 0 {
		n := min(m.chains.part, len(payload))
		at, err := m.commitPart(ev, len(c.parts), payload[:n])
		if err != nil {
			return at, err
		}
		payload, c.parts = payload[n:], append(c.parts, at.Index)
	}
	return m.replica.propose(entry{kind: kindLast, term: ev.Term, payload: c.encode()}, ev.Epoch, e, e.OperationCount(), e.Ordered)
}

// commitPart commits the part of a chain with a number, from 0 on.
func (m *Member) commitPart(ev catalog.Evaluation, number int, part []byte) (Position, error) {
	payload := append(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(part)), uint64(number)), part...)
	at, err := m.replica.propose(entry{kind: kindPart, term: ev.Term, payload: payload}, ev.Epoch, nil, 1, nil)
	if errors.Is(err, ErrSteppedDown) {
		err = ErrDropped // whatever becomes of the part
	}
	return at, err
}

// partKey is the key of a part in the machine; its value is the entry's term and the part.
func partKey(group Number, index uint64) []byte {
	return binary.BigEndian.AppendUint64(groupKey(group, keyPart), index)
}

// cutPart reads the payload of a part: its number and its bytes.
func cutPart(payload []byte) (number uint64, b []byte, err error) {
	number, n := binary.Uvarint(payload)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: a part of a chain is damaged", storage.ErrCorruption)
	}
	return number, payload[n:], nil
}

// dropParts stages the removal of all parts.
func (s *Store) dropParts(u *storage.Unit) error {
	u.Frees()
	return u.DeleteRange(storage.IdentRaft, groupKey(s.opts.Group, keyPart), groupKey(s.opts.Group, keyPart+1))
}

// findParts finds the term of parts that are there, 0 for none.
func (s *Store) findParts() (err error) {
	s.partsTerm = 0
	snap := s.engine.NewSnapshot()
	defer snap.Close()
	it, err := snap.NewIter(storage.IdentRaft, groupKey(s.opts.Group, keyPart), groupKey(s.opts.Group, keyPart+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return it.Err()
	}
	v, err := it.Value()
	if err == nil && len(v) >= 8 {
		s.partsTerm = binary.BigEndian.Uint64(v)
	}
	return err
}

// applyPart keeps a part until the chain's last entry comes.
func (s *Store) applyPart(at Position, payload []byte) error {
	number, part, err := cutPart(payload)
	if err != nil {
		return err
	}
	u := s.engine.Begin()
	defer u.Abort()
	if number == 0 {
		if err := s.dropParts(u); err != nil {
			return err
		}
	}
	v := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(part)), at.Term), part...)
	if err := u.Set(storage.IdentRaft, partKey(s.opts.Group, at.Index), v); err != nil {
		return err
	}
	u.Frees() // what the set has committed is written even on a full disk
	if err := u.Seal(); err != nil {
		return err
	}
	s.partsTerm = at.Term
	return u.Apply(at.Index)
}

// applyChain applies the effect of a chain, and removes its parts.
func (s *Store) applyChain(last Change) error {
	var whole []byte
	if last.Own == nil { // else that has the effect
		var err error
		if whole, err = s.assemble(last.At, last.Chain); err != nil {
			return err
		}
	}
	if err := s.effects.Apply([]Change{{At: last.At, Payload: whole, Own: last.Own}}); err != nil {
		return err
	}
	return s.dropLost(math.MaxUint64)
}

// assemble returns the encoding of a chain's effect. at and payload are those of its last entry.
func (s *Store) assemble(at Position, payload []byte) (whole []byte, err error) {
	c, err := decodeChain(payload)
	if err != nil {
		return nil, err
	}
	for _, index := range c.parts {
		v, closer, err := s.engine.Get(storage.IdentRaft, partKey(s.opts.Group, index))
		if err != nil {
			return nil, fmt.Errorf("part %d of the chain that ends with %d: %w", index, at.Index, err)
		}
		if len(v) >= 8 {
			if whole == nil { // all but the last are as long as the first
				whole = make([]byte, 0, len(v)*len(c.parts))
			}
			whole = append(whole, v[8:]...)
		}
		if err := closer.Close(); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// dropLost removes the parts that there are, if they are of an earlier term: their chain has
// no last entry.
func (s *Store) dropLost(term uint64) error {
	if s.partsTerm == 0 || s.partsTerm >= term {
		return nil
	}
	u := s.engine.Begin()
	defer u.Abort()
	if err := s.dropParts(u); err != nil {
		return err
	}
	s.partsTerm = 0
	return u.Commit(context.Background(), storage.Buffered)
}

// errChainCut says that parts of a chain were truncated from the log.
var errChainCut = errors.New("replication: the log no longer has the beginning of this entry")

// readChain returns the encoding of a chain's effect, read from the log in a state of the
// store. Errors: errChainCut, those of the disk.
func readChain(r storage.Reader, group Number, payload []byte) ([]byte, error) {
	c, err := decodeChain(payload)
	if err != nil {
		return nil, err
	}
	var whole []byte
	for _, index := range c.parts {
		v, closer, err := r.Get(storage.IdentRaft, entryKey(group, index))
		if errors.Is(err, storage.ErrNotFound) {
			return nil, errChainCut
		}
		if err != nil {
			return nil, err
		}
		e, _, _, err := timed(v)
		if err == nil {
			var part []byte
			if _, part, err = cutPart(e.payload); err == nil {
				whole = append(whole, part...)
			}
		}
		if err := errors.Join(err, closer.Close()); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// lastLarge is the last entry that was too large for decodedEntries. All who read it share
// it, as long as one of them does. The zero value is empty.
type lastLarge struct {
	mu sync.Mutex
	e  weak.Pointer[LogEntry]
}

// get returns the entry with an index, if somebody has it, else nil.
func (l *lastLarge) get(index uint64) *LogEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.e.Value(); e != nil && e.Index == index {
		return e
	}
	return nil
}

// put shares an entry.
func (l *lastLarge) put(e *LogEntry) {
	if e.size > decodedBytes/4 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.e = weak.Make(e)
	}
}
