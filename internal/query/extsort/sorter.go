package extsort

import (
	"bytes"
	"container/heap"
	"errors"
	"slices"
)

// MaxMemory is what one sort may hold, in bytes
// (internalQueryMaxBlockingSortMemoryUsageBytes).
const MaxMemory = 100 << 20

// rowOverhead is what a row costs beside its bytes.
const rowOverhead = 96

// ErrMemory says that the rows do not fit MaxMemory and that spilling is not
// allowed. The caller makes it the error of its operation (code 292).
var ErrMemory = errors.New("extsort: memory limit exceeded")

// Row is one row to sort: a key, and whatever travels with it.
type Row struct {
	Key, Record, Doc []byte
	seq              uint64 // order of arrival, which breaks ties
}

func (r Row) size() int { return len(r.Key) + len(r.Record) + len(r.Doc) + rowOverhead }

func (r Row) compare(o Row) int {
	if c := bytes.Compare(r.Key, o.Key); c != 0 {
		return c
	}
	if r.seq < o.seq {
		return -1
	}
	return 1
}

// Sorter collects rows (Add), sorts them (Sort) and gives them out (Next).
// Equal keys keep the order of arrival. Not for concurrent use.
type Sorter struct {
	limit int64
	dir   string
	rows  []Row
	bytes int
	seq   uint64
	at    int64
	runs  *merge
	Stats Stats
}

// Stats tells what a sort took.
type Stats struct {
	Rows         int64
	MaxBytes     int64 // held in memory at the most
	Bytes        int64 // of all rows
	Spills       int64
	SpilledBytes int64
}

// New makes a Sorter. limit, where not 0, keeps only that many first rows.
// spillDir is where runs go that memory does not hold; "" forbids it.
func New(limit int64, spillDir string) *Sorter { return &Sorter{limit: limit, dir: spillDir} }

// Add takes a row in; its bytes are copied.
func (s *Sorter) Add(key, record, doc []byte) error {
	s.seq++
	s.Stats.Rows++
	s.Stats.Bytes += int64(len(doc))
	full := s.limit > 0 && int64(len(s.rows)) == s.limit
	if full && s.runs == nil && bytes.Compare(key, s.rows[0].Key) >= 0 {
		return nil
	}
	r := Row{bytes.Clone(key), bytes.Clone(record), bytes.Clone(doc), s.seq}
	s.bytes += r.size()
	switch {
	case s.limit == 0 || s.runs != nil:
		s.rows = append(s.rows, r)
	case full:
		s.bytes -= s.rows[0].size()
		s.rows[0] = r
		heap.Fix((*worst)(&s.rows), 0)
	default:
		heap.Push((*worst)(&s.rows), r)
	}
	s.Stats.MaxBytes = max(s.Stats.MaxBytes, int64(s.bytes))
	if s.bytes > MaxMemory {
		return s.flush()
	}
	return nil
}

// flush writes what is held as one sorted run.
func (s *Sorter) flush() error {
	if s.dir == "" {
		return ErrMemory
	}
	slices.SortFunc(s.rows, Row.compare)
	if s.runs == nil {
		s.runs = &merge{dir: s.dir}
	}
	n, err := s.runs.write(s.rows)
	s.Stats.Spills++
	s.Stats.SpilledBytes += n
	clear(s.rows)
	s.rows, s.bytes = s.rows[:0], 0
	return err
}

// Sort ends the adding.
func (s *Sorter) Sort() error {
	if s.runs == nil {
		slices.SortFunc(s.rows, Row.compare)
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.runs.open()
}

// Next returns the next row in order; ok is false at the end.
func (s *Sorter) Next() (r Row, ok bool, err error) {
	if s.limit > 0 && s.at == s.limit {
		return Row{}, false, nil
	}
	if s.runs != nil {
		r, ok, err = s.runs.next()
	} else if ok = s.at < int64(len(s.rows)); ok {
		r = s.rows[s.at]
		s.rows[s.at] = Row{}
	}
	s.at++
	return r, ok, err
}

// Done says whether Next has no more rows.
func (s *Sorter) Done() bool {
	switch {
	case s.limit > 0 && s.at == s.limit:
		return true
	case s.runs != nil:
		return len(s.runs.heads) == 0
	}
	return s.at >= int64(len(s.rows))
}

// Close gives memory and disk back.
func (s *Sorter) Close() error {
	s.rows = nil
	if s.runs == nil {
		return nil
	}
	return s.runs.Close()
}

// worst is a heap of rows with the last in order at its root: a sort that
// keeps the first few replaces it.
type worst []Row

func (w worst) Len() int           { return len(w) }
func (w worst) Less(i, j int) bool { return w[i].compare(w[j]) > 0 }
func (w worst) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *worst) Push(x any)        { *w = append(*w, x.(Row)) }
func (w *worst) Pop() any {
	old := *w
	r := old[len(old)-1]
	*w = old[:len(old)-1]
	return r
}
