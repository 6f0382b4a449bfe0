package catalog

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// maxWindowHints bounds the documents whose windows are remembered, over all
	// collections: 8 MB, allocated with the first one.
	maxWindowHints = 1 << 20
	// hintBits is how many low bits of a window a hint has, in addition to the
	// highest bit: enough for windows of seconds in the next 8,000 years.
	hintBits = 38
	hintMask = 1<<hintBits - 1
	hintHigh = 1 << hintBits
	hintTag  = ^uint64(2*hintHigh - 1)
)

// windowHints cache the windows of documents, by a hash of _id: if the record is there,
// the index on _id need not be read. A wrong hint costs
// one lookup before that. A state of the store has at most one record for an
// _id, so a record that is found is the right one.
type windowHints struct {
	slots atomic.Pointer[[maxWindowHints]atomic.Uint64]
}

// hintHash returns the hash of a document: the slot in the low bits, and in the
// high ones the tag that says whose the slot is.
func hintHash(id storage.Ident, key []byte) uint64 {
	return xxhash.Sum64(key) ^ (uint64(id)+1)*0x9e3779b97f4a7c15
}

// get returns the window in which a document was last seen.
func (h *windowHints) get(hash uint64) (window uint64, ok bool) {
	slots := h.slots.Load()
	if slots == nil {
		return 0, false
	}
	v := slots[hash%maxWindowHints].Load()
	return v&hintMask | v&hintHigh<<(63-hintBits), v != 0 && (v^hash)&hintTag == 0
}

// put notes the window of a document.
func (h *windowHints) put(hash, window uint64) {
	low := window &^ (1 << 63)
	if low > hintMask {
		return
	}
	slots := h.slots.Load()
	if slots == nil {
		h.slots.CompareAndSwap(nil, new([maxWindowHints]atomic.Uint64))
		slots = h.slots.Load()
	}
	slots[hash%maxWindowHints].Store(hash&hintTag | window>>63<<hintBits | low)
}
