package extsort

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"io"

	"github.com/mayflydb/mayfly/internal/seal"
)

// merge reads sorted runs from disk as one.
type merge struct {
	dir   string
	file  *seal.Temporary
	ends  []int64 // where each run ends
	heads []*run
}

// run is one sorted run being read.
type run struct {
	r      *bufio.Reader
	number int // runs of later rows have higher ones
	head   Row
	// buf has the bytes of head, spare those of the row before, which somebody
	// still reads.
	buf, spare []byte
}

// write appends the sorted rows as one run and returns its length in bytes.
func (m *merge) write(rows *rows) (int64, error) {
	if m.file == nil {
		var err error
		if m.file, err = seal.NewTemporary(m.dir); err != nil {
			return 0, err
		}
	}
	w := bufio.NewWriterSize(m.file, runBuffer)
	var n int64
	for _, it := range rows.items {
		b := rows.encoded(it)
		_, size := decodeRow(b)
		if _, err := w.Write(b[:size]); err != nil {
			return n, err
		}
		n += int64(size)
	}
	start := int64(0)
	if len(m.ends) > 0 {
		start = m.ends[len(m.ends)-1]
	}
	m.ends = append(m.ends, start+n)
	return n, w.Flush()
}

// runBuffer is how many bytes one run reads or writes at once.
const runBuffer = 1 << 16

// open reads the first row of each run.
func (m *merge) open() error {
	start := int64(0)
	for i, end := range m.ends {
		r := &run{r: bufio.NewReaderSize(io.NewSectionReader(m.file, start, end-start), runBuffer), number: i}
		ok, err := r.advance()
		if err != nil {
			return err
		}
		if ok {
			m.heads = append(m.heads, r)
		}
		start = end
	}
	heap.Init((*firsts)(&m.heads))
	return nil
}

func (r *run) advance() (bool, error) {
	var n [3]int
	for i := range n {
		u, err := binary.ReadUvarint(r.r)
		if i == 0 && err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		n[i] = int(u)
	}
	r.buf, r.spare = r.spare, r.buf
	size := n[0] + n[1] + n[2]
	if cap(r.buf) < size {
		r.buf = make([]byte, size, size+size/4)
	}
	buf := r.buf[:size]
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return false, err
	}
	r.head = Row{Key: buf[:n[0]], Record: buf[n[0] : n[0]+n[1]], Doc: buf[n[0]+n[1]:]}
	return true, nil
}

// next returns the lowest row that is left, valid until the following call.
func (m *merge) next() (Row, bool, error) {
	if len(m.heads) == 0 {
		return Row{}, false, nil
	}
	r := m.heads[0]
	row := r.head
	ok, err := r.advance()
	if ok {
		heap.Fix((*firsts)(&m.heads), 0)
	} else {
		heap.Pop((*firsts)(&m.heads))
	}
	return row, true, err
}

// Close gives the disk space back.
func (m *merge) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// firsts is a heap of runs with the lowest head at its root.
type firsts []*run

func (f firsts) Len() int { return len(f) }
func (f firsts) Less(i, j int) bool {
	c := bytes.Compare(f[i].head.Key, f[j].head.Key)
	return c < 0 || c == 0 && f[i].number < f[j].number
}
func (f firsts) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *firsts) Push(x any)   { *f = append(*f, x.(*run)) }
func (f *firsts) Pop() any {
	old := *f
	r := old[len(old)-1]
	*f = old[:len(old)-1]
	return r
}
