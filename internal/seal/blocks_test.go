package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// memory is a file in memory. room is how many bytes it still takes; below zero for any number.
type memory struct {
	mu     sync.Mutex
	b      []byte
	room   int
	nonces map[string]bool // of Blocks, each of which may be written once
	twice  string
}

func newMemory() *memory { return &memory{room: -1, nonces: map[string]bool{}} }

var errFull = errors.New("full")

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.room >= 0 {
		if len(p) > m.room {
			p, err = p[:m.room], errFull
		}
		m.room -= len(p)
	}
	for q := p; len(q) >= nonceBytes; q = q[min(len(q), sealedBytes):] {
		n := string(q[:nonceBytes])
		if m.nonces[n] {
			m.twice = fmt.Sprintf("%x", n)
		}
		m.nonces[n] = true
	}
	if need := int(at) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[at:], p), err
}

func (m *memory) ReadAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) clone() *memory {
	c := newMemory()
	c.b = bytes.Clone(m.b)
	return c
}

func testKey() Key { return bytes.Repeat([]byte{7}, KeyBytes) }

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// readsAs makes sure that a file has these bytes: at random places, and to its end.
func readsAs(t *testing.T, rng *rand.Rand, r io.ReaderAt, want []byte) {
	t.Helper()
	for range 8 {
		at := rng.IntN(len(want) + 1)
		p := make([]byte, rng.IntN(len(want)-at+10))
		n, err := r.ReadAt(p, int64(at))
		if end := min(len(want), at+len(p)); n != end-at || !bytes.Equal(p[:n], want[at:end]) || (n < len(p)) != errors.Is(err, io.EOF) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("reading %d bytes at %d of %d: %d, %v", len(p), at, len(want), n, err)
		}
	}
}

// TestBlocks writes, flushes, reads, opens again and goes on at random, also where the disk is
// full for a while, and compares with the plain bytes. No nonce is used twice.
func TestBlocks(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := newMemory()
		const base = 100
		b, err := NewBlocks(m, base, testKey())
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for range 30 {
			switch rng.IntN(7) {
			case 0, 1, 2:
				p := randomBytes(rng, rng.IntN(1+[]int{10, 5000, 200_000}[rng.IntN(3)]))
				if rng.IntN(4) == 0 {
					m.room = rng.IntN(100_000)
				}
				n, err := b.Write(p)
				want = append(want, p[:n]...)
				if err != nil && !errors.Is(err, errFull) {
					t.Fatal(err)
				}
				if m.room = -1; err != nil { // what follows may be other bytes
					p = randomBytes(rng, len(p)-n)
					n, err = b.Write(p)
					want = append(want, p...)
				}
				if err != nil || n > len(p) {
					t.Fatal(n, err)
				}
			case 3:
				if err := b.Flush(); err != nil {
					t.Fatal(err)
				}
				r, err := OpenBlocks(m, base, int64(len(m.b)), testKey())
				if err != nil || r.Size() != int64(len(want)) || r.Check() != nil {
					t.Fatalf("seed %d: %d bytes of %d: %v, %v", seed, r.Size(), len(want), err, r.Check())
				}
				readsAs(t, rng, r, want)
			case 4:
				if err := b.Flush(); err != nil {
					t.Fatal(err)
				}
				if b, err = OpenBlocks(m, base, int64(len(m.b)), testKey()); err == nil {
					err = b.Recover()
				}
				if err != nil || b.Size() != int64(len(want)) {
					t.Fatalf("seed %d: %d bytes of %d: %v", seed, b.Size(), len(want), err)
				}
			default:
				readsAs(t, rng, b, want)
			}
		}
		if m.twice != "" {
			t.Fatalf("seed %d: nonce %s is used twice", seed, m.twice)
		}
	}
}

// sealed is a file of so many bytes.
func sealed(t *testing.T, rng *rand.Rand, size int) (m *memory, plain []byte) {
	t.Helper()
	m, plain = newMemory(), randomBytes(rng, size)
	b, err := NewBlocks(m, 0, testKey())
	if err == nil {
		_, err = b.Write(plain)
	}
	if err = errors.Join(err, b.Flush()); err != nil {
		t.Fatal(err)
	}
	return m, plain
}

// TestBlocksDamage changes a bit, cuts, moves and repeats blocks: what is read is what was
// written, or damage at its offset.
func TestBlocksDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	check := func(what string, m *memory, plain []byte, at int64) {
		t.Helper()
		b, err := OpenBlocks(m, 0, int64(len(m.b)), testKey())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
		err = errors.Join(err, b.Check())
		var d *Damage
		if !errors.As(err, &d) || at >= 0 && d.Offset != at || !bytes.HasPrefix(plain, got) {
			t.Errorf("%s: %d bytes, %v, want damage at %d", what, len(got), err, at)
		}
	}
	for _, size := range []int{0, 1, 100, BlockBytes, BlockBytes + 1, 3*BlockBytes - 1, 20 * BlockBytes} {
		m, plain := sealed(t, rng, size)
		for range 100 {
			c := m.clone()
			at := rng.IntN(len(c.b))
			c.b[at] ^= 1 << rng.IntN(8)
			check(fmt.Sprintf("%d bytes, bit at %d", size, at), c, plain, int64(at/sealedBytes*BlockBytes))
			c = m.clone()
			c.b = c.b[:rng.IntN(len(c.b))]
			check(fmt.Sprintf("%d bytes, cut to %d", size, len(c.b)), c, plain, -1)
		}
		for cut := 0; cut < len(m.b); cut += sealedBytes {
			c := m.clone()
			c.b = c.b[:cut]
			check(fmt.Sprintf("%d bytes, cut to %d", size, cut), c, plain, -1)
		}
	}
	m, plain := sealed(t, rng, 4*BlockBytes)
	c := m.clone()
	copy(c.b, m.b[sealedBytes:2*sealedBytes])
	copy(c.b[sealedBytes:], m.b[:sealedBytes])
	check("two blocks swapped", c, plain, 0)
	c = m.clone()
	c.b = append(c.b, m.b[3*sealedBytes:]...)
	check("the last block twice", c, plain, 3*BlockBytes)
	other, _ := sealed(t, rng, 4*BlockBytes)
	r, _ := OpenBlocks(other, 0, int64(len(other.b)), bytes.Repeat([]byte{8}, KeyBytes))
	if _, err := r.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("another key opens a block")
	}
}

// TestBlocksRecover cuts a file that was not finished, and one that was changed: what is left is
// the beginning of what was written, and the file goes on behind it.
func TestBlocksRecover(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for range 200 {
		m, plain := sealed(t, rng, rng.IntN(10*BlockBytes))
		if rng.IntN(2) == 0 {
			m.b = m.b[:rng.IntN(len(m.b)+1)]
		} else {
			m.b[rng.IntN(len(m.b))] ^= 1
		}
		b, err := OpenBlocks(m, 0, int64(len(m.b)), testKey())
		if err = errors.Join(err, b.Recover()); err != nil {
			t.Fatal(err)
		}
		kept := plain[:b.Size()]
		readsAs(t, rng, b, kept)
		more := randomBytes(rng, 3*BlockBytes)
		if _, err := b.Write(more); err != nil {
			t.Fatal(err)
		}
		readsAs(t, rng, b, append(bytes.Clone(kept), more...))
	}
}

// TestSlots writes slots over, and tears one: it reads as zeros, and the other as it was.
func TestSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	m := newMemory()
	s, err := OpenSlots(m, 0, testKey())
	if err != nil {
		t.Fatal(err)
	}
	var want [2][]byte
	for i := range 20 {
		n := (i + 1) % 2 // the second one first
		want[n] = append(randomBytes(rng, BlockBytes-nonceBytes-tagBytes), make([]byte, nonceBytes+tagBytes)...)
		if _, err := s.WriteAt(want[n], int64(n)*BlockBytes); err != nil {
			t.Fatal(err)
		}
		if want[0] == nil {
			want[0] = make([]byte, BlockBytes)
		}
		readsAs(t, rng, s, append(bytes.Clone(want[0]), want[1]...))
	}
	if m.twice != "" {
		t.Errorf("nonce %s is used twice", m.twice)
	}
	if _, err := s.WriteAt(make([]byte, 10), 0); err == nil {
		t.Error("a part of a slot was written")
	}
	if _, err := s.WriteAt(bytes.Repeat([]byte{1}, BlockBytes), 0); err == nil {
		t.Error("a slot was written whose end is no zeros")
	}
	m.b[SlotsBase+BlockBytes+300] ^= 1
	again, err := OpenSlots(m, int64(len(m.b)), testKey())
	if err != nil {
		t.Fatal(err)
	}
	readsAs(t, rng, again, append(bytes.Clone(want[0]), make([]byte, BlockBytes)...))
}
