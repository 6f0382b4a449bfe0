package seal

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// BlockBytes is how much of a file is sealed, and opened, at once: what is read of a table
	// is about two of them.
	BlockBytes  = 4 << 10
	sealedBytes = nonceBytes + BlockBytes + tagBytes
	// blocksAtOnce are written and read with one call.
	blocksAtOnce = 16
)

// What is authenticated with a block besides its number.
const (
	blockInside = 0
	blockLast   = 1
	blockSlot   = 2
)

// Store is where sealed bytes are.
type Store interface {
	io.ReaderAt
	io.WriterAt
}

// Damage says that what lies at an offset of a sealed file does not open.
type Damage struct{ Offset int64 }

func (d *Damage) Error() string {
	return fmt.Sprintf("the bytes at offset %d were changed, or are those of another place or file", d.Offset)
}

// errReading is the error of a write to a file that is open to read.
var errReading = errors.New("a sealed file is open to read")

// errEnd is the error of a write that would leave a gap, or change what was written.
var errEnd = errors.New("a sealed file is written at its end")

// Blocks are the bytes of a file that is read anywhere, and written at its end, in blocks of
// BlockBytes, of which the last may be shorter. The last says so, and is written by Flush: a file
// without it was cut off, or never finished. Reads may run at the same time, also with a write.
type Blocks struct {
	f    Store
	aead cipher.AEAD
	base int64 // where in f the first block is
	n    nonces

	mu   sync.RWMutex
	size int64
	// tail are the bytes from a block's beginning on that f has not, or has as the last block:
	// blocksAtOnce blocks at most.
	tail   []byte
	dirty  bool // f has not all of tail
	writes bool // the file is not only read
}

// NewBlocks makes Blocks of a file that has nothing behind base.
func NewBlocks(f Store, base int64, key Key) (*Blocks, error) {
	a, err := key.aead()
	return &Blocks{f: f, aead: a, base: base, dirty: true, writes: true}, err
}

// OpenBlocks makes Blocks to read of a file that has so many bytes.
func OpenBlocks(f Store, base, fileSize int64, key Key) (*Blocks, error) {
	a, err := key.aead()
	return &Blocks{f: f, aead: a, base: base, size: BlocksSize(fileSize - base)}, err
}

// BlocksSize is how many plain bytes blocks have that take so many.
func BlocksSize(sealed int64) int64 {
	n := (sealed + sealedBytes - 1) / sealedBytes
	return max(0, sealed-n*(nonceBytes+tagBytes))
}

// Recover makes the file one that is written on behind what opens of it from the beginning:
// another process may have died while it wrote it. It is called once, after OpenBlocks.
func (b *Blocks) Recover() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = true
	buf := make([]byte, sealedBytes)
	for number := int64(0); ; number++ {
		n, err := b.f.ReadAt(buf, b.base+number*sealedBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		plain, ok := b.open(buf[:n], number, blockInside)
		last := !ok
		if last {
			if n, err = b.f.ReadAt(buf, b.base+number*sealedBytes); err != nil && !errors.Is(err, io.EOF) { // open has spoilt it
				return err
			}
			plain, ok = b.open(buf[:n], number, blockLast)
		}
		if !ok {
			b.size, b.dirty = number*BlockBytes, true
			return nil
		}
		if last {
			b.tail = append(b.tail, plain...)
			b.size = number*BlockBytes + int64(len(plain))
			return nil
		}
	}
}

// Size is how many bytes the file has.
func (b *Blocks) Size() int64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.size
}

// inFile is how many bytes f has of which none will be written over.
func (b *Blocks) inFile() int64 { return b.size - int64(len(b.tail)) }

// At is where in the file the block begins that has an offset.
func (b *Blocks) At(offset int64) int64 { return b.base + offset/BlockBytes*sealedBytes }

// Write appends bytes. After an error the n bytes that were taken are kept, and a call with the
// others goes on.
func (b *Blocks) Write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.writes {
		return 0, errReading
	}
	const most = blocksAtOnce * BlockBytes
	for len(p) > 0 {
		if len(b.tail) == most {
			if err := b.put(blocksAtOnce, false); err != nil {
				return n, err
			}
		}
		k := min(len(p), most-len(b.tail))
		b.tail = append(b.tail, p[:k]...)
		p, n = p[k:], n+k
		b.size += int64(k)
		b.dirty = true
	}
	return n, nil
}

// WriteAt is Write: at must be the end.
func (b *Blocks) WriteAt(p []byte, at int64) (int, error) {
	if at != b.Size() {
		return 0, errEnd
	}
	return b.Write(p)
}

// Flush writes what f has not yet, and that it is the last.
func (b *Blocks) Flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.writes || !b.dirty {
		return nil
	}
	if err := b.put(max(0, len(b.tail)-1)/BlockBytes, true); err != nil {
		return err
	}
	b.dirty = false
	return nil
}

// put writes whole blocks of the tail, which it loses, and the last one, which it keeps. Its
// callers hold mu.
func (b *Blocks) put(whole int, last bool) error {
	first := b.inFile() / BlockBytes
	pooled := blockBuffers.Get().(*[blocksAtOnce * sealedBytes]byte)
	defer blockBuffers.Put(pooled)
	out := pooled[:0]
	for i := range whole {
		out = b.seal(out, b.tail[i*BlockBytes:(i+1)*BlockBytes], first+int64(i), blockInside)
	}
	if last {
		out = b.seal(out, b.tail[whole*BlockBytes:], first+int64(whole), blockLast)
	}
	if _, err := b.f.WriteAt(out, b.base+first*sealedBytes); err != nil {
		return err
	}
	b.tail = b.tail[:copy(b.tail, b.tail[whole*BlockBytes:])]
	return nil
}

// seal appends a block: nonce, ciphertext, tag.
func (b *Blocks) seal(out, plain []byte, number int64, kind byte) []byte {
	var nonce [nonceBytes]byte
	b.n.next(nonce[:])
	data := blockData(number, kind)
	return b.aead.Seal(append(out, nonce[:]...), nonce[:], plain, data[:])
}

// open opens a block in its place.
func (b *Blocks) open(block []byte, number int64, kind byte) (plain []byte, ok bool) {
	if len(block) < nonceBytes+tagBytes {
		return nil, false
	}
	data := blockData(number, kind)
	nonce, text := block[:nonceBytes], block[nonceBytes:]
	plain, err := b.aead.Open(text[:0], nonce, text, data[:])
	return plain, err == nil
}

func blockData(number int64, kind byte) (d [9]byte) {
	binary.BigEndian.PutUint64(d[:], uint64(number))
	d[8] = kind
	return d
}

var blockBuffers = sync.Pool{New: func() any { return new([blocksAtOnce * sealedBytes]byte) }}

// ReadAt implements io.ReaderAt. Errors: *Damage.
func (b *Blocks) ReadAt(p []byte, at int64) (n int, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if at < 0 {
		return 0, errors.New("seal: the offset is below zero")
	}
	inFile := b.inFile()
	for len(p) > n && at < inFile {
		k, err := b.read(p[n:], at, inFile)
		if n += k; err != nil {
			return n, err
		}
		at += int64(k)
	}
	if len(p) > n && at < b.size {
		n += copy(p[n:], b.tail[at-inFile:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read reads some of what the blocks in the file hold, which end at end.
func (b *Blocks) read(p []byte, at, end int64) (n int, err error) {
	first := at / BlockBytes
	through := min((min(at+int64(len(p)), end)+BlockBytes-1)/BlockBytes, first+blocksAtOnce)
	size := (through-first-1)*sealedBytes + min(BlockBytes, end-(through-1)*BlockBytes) + nonceBytes + tagBytes
	pooled := blockBuffers.Get().(*[blocksAtOnce * sealedBytes]byte)
	defer blockBuffers.Put(pooled)
	buf := pooled[:size]
	if k, err := b.f.ReadAt(buf, b.base+first*sealedBytes); err != nil && !(errors.Is(err, io.EOF) && k == len(buf)) {
		if errors.Is(err, io.EOF) {
			return 0, &Damage{(first + int64(k)/sealedBytes) * BlockBytes}
		}
		return 0, err
	}
	for number := first; number < through; number++ {
		kind := byte(blockInside)
		if !b.writes && (number+1)*BlockBytes >= end {
			kind = blockLast
		}
		block := buf[:min(sealedBytes, len(buf))]
		buf = buf[len(block):]
		plain, ok := b.open(block, number, kind)
		if !ok {
			return n, &Damage{number * BlockBytes}
		}
		n += copy(p[n:], plain[at-number*BlockBytes:])
		at = (number + 1) * BlockBytes
	}
	return n, nil
}

// Check opens the last block, which tells that the file was not cut off. Errors: *Damage.
func (b *Blocks) Check() error {
	if b.size > 0 {
		var one [1]byte
		_, err := b.ReadAt(one[:], b.size-1)
		return err
	}
	block := make([]byte, nonceBytes+tagBytes)
	if _, err := b.f.ReadAt(block, b.base); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, ok := b.open(block, 0, blockLast); !ok {
		return &Damage{0}
	}
	return nil
}
