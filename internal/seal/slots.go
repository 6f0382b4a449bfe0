package seal

import (
	"errors"
	"io"
	"sync"
)

// Slots are pieces of BlockBytes of which each is written over by itself. A sealed one is as
// long, so that it lies on one page of the disk, and a write that is torn harms no other: of the
// plain bytes the last must be zeros, as many as nonce and tag take. One that does not open
// reads as zeros: what it held must tell by itself that it was torn or changed.
type Slots struct {
	b *Blocks // its key and nonces

	mu   sync.Mutex
	size int64
	out  []byte
}

// SlotsBase is where in a file the slots begin, behind the header.
const SlotsBase = BlockBytes

// errSlot is the error of a write that is no slot's.
var errSlot = errors.New("a slot is written whole, and its end is zeros")

// OpenSlots makes Slots of a file that has so many bytes.
func OpenSlots(f Store, fileSize int64, key Key) (*Slots, error) {
	b, err := OpenBlocks(f, SlotsBase, SlotsBase, key)
	return &Slots{b: b, size: SlotsSize(fileSize)}, err
}

// SlotsSize is how many plain bytes a file of slots has.
func SlotsSize(fileSize int64) int64 { return max(0, fileSize-SlotsBase) / BlockBytes * BlockBytes }

// Size is how many bytes there are.
func (s *Slots) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// WriteAt writes whole slots.
func (s *Slots) WriteAt(p []byte, at int64) (n int, err error) {
	if at%BlockBytes != 0 || len(p)%BlockBytes != 0 {
		return 0, errSlot
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; n < len(p); n += BlockBytes {
		const used = BlockBytes - nonceBytes - tagBytes
		slot := p[n : n+BlockBytes]
		for _, c := range slot[used:] {
			if c != 0 {
				return n, errSlot
			}
		}
		place := at + int64(n)
		s.out = s.b.seal(s.out[:0], slot[:used], place/BlockBytes, blockSlot)
		if _, err := s.b.f.WriteAt(s.out, SlotsBase+place); err != nil {
			return n, err
		}
		s.size = max(s.size, place+BlockBytes)
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (s *Slots) ReadAt(p []byte, at int64) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) && at < s.size {
		place := at / BlockBytes * BlockBytes
		buf := make([]byte, BlockBytes)
		k, err := s.b.f.ReadAt(buf, SlotsBase+place)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		slot := make([]byte, BlockBytes)
		if plain, ok := s.b.open(buf[:k], place/BlockBytes, blockSlot); ok {
			copy(slot, plain)
		}
		k = copy(p[n:], slot[at-place:])
		n, at = n+k, at+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
