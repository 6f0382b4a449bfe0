package seal

import (
	"bufio"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"sort"
)

const (
	// maxRecord bounds the plain bytes of a record.
	maxRecord   = 1 << 20
	recordStart = 4 + nonceBytes // length of the plain bytes, nonce
)

// Records are the bytes of a file that is written piece by piece, and read once it is whole: a
// record for each Write. What follows the last whole record does not count, and a record that
// does not open reads as zeros: that bytes are missing or wrong is told by what is in them (the
// checksums and the control file of a store). One goroutine writes.
type Records struct {
	f    Store
	aead cipher.AEAD
	n    nonces
	end  int64 // in f
	size int64
	// starts are where the records begin, and where the last ends; of a file that is read.
	starts []recordAt
	number int64 // of the next record
	out    []byte
}

// recordAt is where a record begins: in the file, and of the plain bytes.
type recordAt struct{ sealed, plain int64 }

// NewRecords makes Records of a file that has nothing behind base.
func NewRecords(f Store, base int64, key Key) (*Records, error) {
	a, err := key.aead()
	return &Records{f: f, aead: a, end: base}, err
}

// OpenRecords makes Records to read of a file that has so many bytes.
func OpenRecords(f Store, base, fileSize int64, key Key) (*Records, error) {
	r, err := NewRecords(f, base, key)
	if err != nil {
		return nil, err
	}
	r.starts = []recordAt{{base, 0}}
	in := bufio.NewReaderSize(io.NewSectionReader(f, base, max(0, fileSize-base)), 1<<16)
	for {
		var start [recordStart]byte
		if _, err := io.ReadFull(in, start[:]); endOfFile(err) {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		n := int64(binary.BigEndian.Uint32(start[:]))
		if n == 0 || n > maxRecord {
			return r, nil
		}
		if _, err := in.Discard(int(n) + tagBytes); endOfFile(err) {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		r.end += recordStart + n + tagBytes
		r.size += n
		r.starts = append(r.starts, recordAt{r.end, r.size})
	}
}

func endOfFile(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// Size is how many bytes the file has.
func (r *Records) Size() int64 { return r.size }

// End is where in the file the next record begins.
func (r *Records) End() int64 { return r.end }

// Write appends bytes. After an error, n bytes are in the file, and a call with the others, or
// with any, goes on behind them.
func (r *Records) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+maxRecord)]
		var start [recordStart]byte
		binary.BigEndian.PutUint32(start[:], uint32(len(piece)))
		r.n.next(start[4:])
		data := blockData(r.number, 0)
		r.out = r.aead.Seal(append(r.out[:0], start[:]...), start[4:], piece, data[:])
		if _, err := r.f.WriteAt(r.out, r.end); err != nil {
			return n, err
		}
		n += len(piece)
		r.end += int64(len(r.out))
		r.size += int64(len(piece))
		r.number++
	}
	return n, nil
}

// ReadAt implements io.ReaderAt, of a file that OpenRecords has opened.
func (r *Records) ReadAt(p []byte, at int64) (n int, err error) {
	i := sort.Search(len(r.starts), func(i int) bool { return r.starts[i].plain > at }) - 1
	for at >= 0 && n < len(p) && i < len(r.starts)-1 {
		plain, err := r.read(i)
		if err != nil {
			return n, err
		}
		k := copy(p[n:], plain[at-r.starts[i].plain:])
		n, at, i = n+k, at+int64(k), i+1
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read reads a record; one that does not open is zeros.
func (r *Records) read(i int) ([]byte, error) {
	from, to := r.starts[i], r.starts[i+1]
	b := make([]byte, to.sealed-from.sealed)
	if k, err := r.f.ReadAt(b, from.sealed); err != nil && !(errors.Is(err, io.EOF) && k == len(b)) {
		return nil, err
	}
	data := blockData(int64(i), 0)
	text := b[recordStart:]
	plain, err := r.aead.Open(text[:0], b[4:recordStart], text, data[:])
	if err != nil {
		return make([]byte, to.plain-from.plain), nil
	}
	return plain, nil
}
