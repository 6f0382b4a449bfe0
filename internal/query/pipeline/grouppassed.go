package pipeline

import "hash/maphash"

// A shard's groups are joined by the router in any case. Where nearly each document is a group of
// its own, a table of all groups on the shard costs more than it saves: so groups are passed on,
// and the table begins anew, as often as they take passedGroups. The router gets the states of
// one group several times then, in the order of the documents.

const (
	// passedGroups is the memory of groups, in bytes, from which on they may be passed on: as
	// much as the processor's caches hold, and less than what may be a large result.
	passedGroups = largeResult * 3 / 4
	// passedShare is how many of a hundred documents are a group of their own at the least where
	// groups are passed on.
	passedShare = 75
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

// passes reports whether the groups are to be passed on before there are more of them.
func (w *grouping) passes() bool {
	if w.sample == nil || w.bytes < w.passed {
		return false
	}
	if w.spill != nil || !w.sample.distinct() {
		w.sample = nil // there are all groups once
	}
	return w.sample != nil
}
