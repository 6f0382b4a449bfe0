package exec

import (
	"bytes"
	"container/heap"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// maxSortMemory is what one in-memory sort may hold, in bytes
// (internalQueryMaxBlockingSortMemoryUsageBytes). Beyond it the sort spills
// where allowDiskUse lets it, and fails with code 292 where not.
const maxSortMemory = 100 << 20

// sorter orders its input in memory.
type sorter struct {
	stats  Stats
	input  Stage
	limit  int64
	keys   *sortkey.Generator
	spill  *spill // nil: not allowed
	rows   []sorted
	heap   bool // rows is a heap whose root is the last in order
	bytes  int
	loaded bool
	at     int
	seq    uint64
	runs   *merge
	buf    []byte
}

// sorted is one row kept by a sort: its key, its number in the order of
// arrival, which breaks ties, and copies of record and document.
type sorted struct {
	key    []byte
	seq    uint64
	record []byte
	doc    bson.Doc
}

func (r sorted) size() int { return len(r.key) + len(r.record) + len(r.doc) + 96 }

func (r sorted) compare(o sorted) int {
	if c := bytes.Compare(r.key, o.key); c != 0 {
		return c
	}
	if r.seq < o.seq {
		return -1
	}
	return 1
}

func (s *sorter) Stats() *Stats   { return &s.stats }
func (s *sorter) Inputs() []Stage { return []Stage{s.input} }

func (s *sorter) Close() error {
	s.rows = nil
	err := s.input.Close()
	if s.runs != nil {
		if e := s.runs.Close(); err == nil {
			err = e
		}
	}
	return err
}

func (s *sorter) Work(ctx context.Context, row *Row) (State, error) {
	if s.loaded {
		return s.next(row)
	}
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return EOF, err
	}
	switch state {
	case Advanced:
		if err := s.add(row); err != nil {
			return EOF, err
		}
	case EOF:
		if err := s.load(); err != nil {
			return EOF, err
		}
	}
	return s.stats.count(NeedTime), nil
}

func (s *sorter) add(row *Row) error {
	var err error
	if s.buf, err = s.keys.Append(s.buf[:0], row.Doc); err != nil {
		return err
	}
	s.seq++
	if s.heap && int64(len(s.rows)) == s.limit && bytes.Compare(s.buf, s.rows[0].key) >= 0 {
		return nil
	}
	r := sorted{bytes.Clone(s.buf), s.seq, bytes.Clone(row.Record), row.Doc.Clone()}
	if s.heap {
		if int64(len(s.rows)) == s.limit {
			s.bytes += r.size() - s.rows[0].size()
			s.rows[0] = r
			heap.Fix((*worst)(&s.rows), 0)
		} else {
			s.bytes += r.size()
			heap.Push((*worst)(&s.rows), r)
		}
	} else {
		s.bytes += r.size()
		s.rows = append(s.rows, r)
	}
	s.stats.MemUsage = max(s.stats.MemUsage, int64(s.bytes))
	if s.bytes <= maxSortMemory {
		return nil
	}
	return s.flush()
}

// flush writes what is held as one sorted run.
func (s *sorter) flush() error {
	if s.spill == nil {
		return mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "Executor error during find command :: caused by :: Sort exceeded memory limit of %d bytes, but did not opt in to external sorting.", maxSortMemory)
	}
	slices.SortFunc(s.rows, sorted.compare)
	if s.runs == nil {
		s.runs = &merge{spill: s.spill}
	}
	n, err := s.runs.write(s.rows)
	s.stats.Spills++
	s.stats.SpilledBytes += n
	s.rows, s.bytes = s.rows[:0], 0
	return err
}

func (s *sorter) load() error {
	s.loaded = true
	if s.runs != nil {
		if err := s.flush(); err != nil {
			return err
		}
		return s.runs.open()
	}
	slices.SortFunc(s.rows, sorted.compare)
	return nil
}

func (s *sorter) next(row *Row) (State, error) {
	if s.limit > 0 && int64(s.at) == s.limit {
		return s.stats.count(EOF), nil
	}
	var r sorted
	if s.runs != nil {
		var ok bool
		var err error
		if r, ok, err = s.runs.next(); err != nil || !ok {
			return s.stats.count(EOF), err
		}
	} else {
		if s.at == len(s.rows) {
			return s.stats.count(EOF), nil
		}
		r = s.rows[s.at]
	}
	s.at++
	*row = Row{Record: r.record, Doc: r.doc, Sort: r.key}
	return s.stats.count(Advanced), nil
}

// worst is a heap of rows with the last in order at its root: a top-k sort
// replaces it.
type worst []sorted

func (w worst) Len() int           { return len(w) }
func (w worst) Less(i, j int) bool { return w[i].compare(w[j]) > 0 }
func (w worst) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *worst) Push(x any)        { *w = append(*w, x.(sorted)) }
func (w *worst) Pop() any {
	old := *w
	r := old[len(old)-1]
	*w = old[:len(old)-1]
	return r
}
