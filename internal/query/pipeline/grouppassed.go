package pipeline

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/mayflydb/mayfly/internal/bson"
)

// A shard's groups are joined by the router in any case. Where nearly each document is a group of
// its own, a table of all groups on the shard costs more than it saves: so groups are passed on,
// as the bytes that the router gets, and the table begins anew, as often as they take passedGroups.
// The router gets the states of one group several times then, in the order of the documents. Like
// any group, it is delivered when all documents have been read.

const (
	// passedGroups is the memory of groups, in bytes, from which on they may be passed on: as
	// much as the processor's caches hold, and less than what may be a large result.
	passedGroups = largeResult * 3 / 4
	// passedShare is how many of a hundred documents are a group of their own at the least where
	// groups are passed on.
	passedShare = 75
	// apartBlock is the size of a block of groups that are passed on, in bytes, unless one is larger.
	apartBlock = 256 << 10
	// sampledShare is the share of keys in a sample: one in so many.
	sampledShare = 16
	// maxSampled bounds a sample, in keys.
	maxSampled = 1 << 16
)

// keySample is a sample of the keys of groups, of all that have come: it has a key always or never,
// so its share of keys that are new is that of all.
type keySample struct {
	seed maphash.Seed
	seen int // how often a key of the sample has come
	keys map[uint64]struct{}
}

func newKeySample() *keySample {
	return &keySample{seed: maphash.MakeSeed(), keys: map[uint64]struct{}{}}
}

// add notes the key of a document. What comes behind maxSampled keys changes nothing any more.
func (s *keySample) add(key []byte) {
	if h := maphash.Bytes(s.seed, key); h%sampledShare == 0 && len(s.keys) < maxSampled {
		s.seen++
		s.keys[h] = struct{}{}
	}
}

// distinct reports whether nearly all keys that have come were new.
func (s *keySample) distinct() bool { return len(s.keys)*100 >= s.seen*passedShare }

// groupsApart has groups that are passed on, with their states, in the order in which they are
// delivered: one behind the other, in blocks.
type groupsApart struct {
	blocks [][]byte
	at     int // in the first block
	bytes  int // of all blocks that are left
}

// add adds a group.
func (a *groupsApart) add(d bson.Doc) {
	if n := len(a.blocks); n == 0 || cap(a.blocks[n-1])-len(a.blocks[n-1]) < len(d) {
		a.blocks = append(a.blocks, make([]byte, 0, max(apartBlock, len(d))))
		a.bytes += cap(a.blocks[n])
	}
	last := &a.blocks[len(a.blocks)-1]
	*last = append(*last, d...)
}

// next removes the first group, which is valid until the following call.
// REQUIRES: there is one.
func (a *groupsApart) next() bson.Doc {
	d := a.blocks[0][a.at:]
	d = d[:binary.LittleEndian.Uint32(d)]
	if a.at += len(d); a.at == len(a.blocks[0]) {
		a.bytes -= cap(a.blocks[0])
		a.blocks[0] = nil
		a.blocks, a.at = a.blocks[1:], 0
	}
	return bson.Doc(d)
}

// passes reports whether the groups are to be passed on before there are more of them. Half of the
// memory is for those, if there is so much.
func (w *grouping) passes() bool {
	if w.sample == nil || w.bytes < w.passed {
		return false
	}
	if w.spill == nil && w.apart.bytes <= w.memory/2 && w.sample.distinct() {
		if fits, err := w.hold.Spilling(w.held() + w.bytes + apartBlock); fits && err == nil {
			return true
		}
	}
	w.sample = nil // there are all groups once, from now on
	return false
}

// passOn sets the groups apart, and begins anew.
func (w *grouping) passOn() error {
	for _, gr := range w.order {
		d, err := w.states(gr)
		if err != nil {
			return err
		}
		w.apart.add(d)
	}
	clear(w.groups)
	clear(w.order)
	w.order, w.bytes, w.taken, w.slab = w.order[:0], 0, 0, groupSlab{}
	return nil
}
