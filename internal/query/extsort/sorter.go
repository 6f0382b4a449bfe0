package extsort

import (
	"bytes"
	"errors"
	"math"

	"github.com/mayflydb/mayfly/internal/memory"
)

// MaxMemory is what one sort may hold, in bytes
// (internalQueryMaxBlockingSortMemoryUsageBytes).
const MaxMemory = 100 << 20

// ErrMemory says that the rows do not fit MaxMemory and that spilling is not
// allowed. The caller makes it the error of its operation (code 292).
var ErrMemory = errors.New("extsort: memory limit exceeded")

// Row is one row to sort: a key, and whatever travels with it.
type Row struct {
	Key, Record, Doc []byte
}

// Sorter collects rows (Add), sorts them (Sort) and gives them out (Next).
// Equal keys keep the order of arrival. Not for concurrent use.
type Sorter struct {
	limit int64
	dir   string
	rows  rows
	// bound is the key of the last of limit rows: rows from it on do not count.
	// Nil as long as there are fewer.
	bound []byte
	at    int64
	runs  *merge
	Stats Stats

	memory memory.Holding
}

// Stats are the resources that a sort used.
type Stats struct {
	Rows         int64
	MaxBytes     int64 // held in memory at the most
	Bytes        int64 // of all rows
	Spills       int64
	SpilledBytes int64
}

// New makes a Sorter. limit, if not 0, keeps only that many first rows.
// spillDir is the directory for runs that do not fit into memory; "" forbids it.
func New(limit int64, spillDir string) *Sorter { return &Sorter{limit: limit, dir: spillDir} }

// Hold makes the sorter take its memory from h: if there is none left it
// spills, or fails with the error of h.
func (s *Sorter) Hold(h memory.Holding) { s.memory = h }

// Add takes a row in; its bytes are copied.
func (s *Sorter) Add(key, record, doc []byte) error {
	s.Stats.Rows++
	s.Stats.Bytes += int64(len(doc))
	if s.bound != nil && bytes.Compare(key, s.bound) >= 0 {
		return nil
	}
	s.rows.add(key, record, doc)
	if s.limit > 0 && s.limit < math.MaxInt32 && int64(len(s.rows.items)) >= 2*s.limit+cutSlack {
		s.cut(false)
	}
	s.Stats.MaxBytes = max(s.Stats.MaxBytes, int64(s.rows.bytes))
	if s.rows.bytes > MaxMemory {
		return s.flush(MaxMemory)
	}
	return s.room()
}

// slack is the memory that rows take in addition to their bytes, as a divisor.
const slack = 4

// room takes memory for the rows.
func (s *Sorter) room() error {
	n := s.rows.bytes + s.rows.bytes/slack
	ok, err := s.memory.Spilling(n)
	if ok || err != nil {
		return err
	}
	if s.dir == "" && s.limit == 0 {
		return s.memory.Set(n)
	}
	if err := s.flush(s.rows.bytes); errors.Is(err, ErrMemory) {
		return s.memory.Set(n)
	} else if err != nil {
		return err
	}
	s.rows.trim()
	s.memory.Shrink(s.rows.bytes + s.rows.bytes/slack)
	return nil
}

// cutSlack is how many rows more than twice the limit are taken in before
// those that do not count are left out.
const cutSlack = 64

// cut drops what is beyond the limit; tight says that the memory of that
// is needed.
func (s *Sorter) cut(tight bool) {
	s.rows.sort()
	if s.limit > 0 && int64(len(s.rows.items)) >= s.limit {
		s.rows.keep(int(s.limit), tight)
		s.bound = bytes.Clone(s.rows.row(s.rows.items[s.limit-1]).Key)
	}
}

// flush makes room: with a limit by dropping what is beyond it, else by
// writing what is held as one sorted run. If a run may be written, half of
// the memory is to be free afterwards, so that it is not made free too often.
func (s *Sorter) flush(limit int) error {
	s.cut(true)
	if s.rows.bytes <= limit/2 || s.dir == "" && s.rows.bytes < limit {
		return nil
	}
	return s.spill()
}

func (s *Sorter) spill() error {
	if s.dir == "" {
		return ErrMemory
	}
	if s.runs == nil {
		s.runs = &merge{dir: s.dir}
	}
	n, err := s.runs.write(&s.rows)
	s.Stats.Spills++
	s.Stats.SpilledBytes += n
	s.rows.reset()
	return err
}

// Sort ends the adding.
func (s *Sorter) Sort() error {
	s.cut(false)
	if s.runs == nil {
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.rows = rows{}
	s.memory.Release()
	return s.runs.open()
}

// Next returns the next row in order, valid until the following call; ok is
// false at the end.
func (s *Sorter) Next() (r Row, ok bool, err error) {
	if s.limit > 0 && s.at == s.limit {
		return Row{}, false, nil
	}
	if s.runs != nil {
		r, ok, err = s.runs.next()
	} else if ok = s.at < int64(len(s.rows.items)); ok {
		r = s.rows.row(s.rows.items[s.at])
	}
	s.at++
	return r, ok, err
}

// Pass skips the next row, without reading it if it is in memory; ok is
// false at the end.
func (s *Sorter) Pass() (ok bool, err error) {
	if s.runs == nil && s.at < int64(len(s.rows.items)) && (s.limit == 0 || s.at < s.limit) {
		s.at++
		return true, nil
	}
	_, ok, err = s.Next()
	return ok, err
}

// Done reports whether Next has no more rows.
func (s *Sorter) Done() bool {
	switch {
	case s.limit > 0 && s.at == s.limit:
		return true
	case s.runs != nil:
		return len(s.runs.heads) == 0
	}
	return s.at >= int64(len(s.rows.items))
}

// Close gives memory and disk back.
func (s *Sorter) Close() error {
	s.rows = rows{}
	s.memory.Release()
	if s.runs == nil {
		return nil
	}
	return s.runs.Close()
}
