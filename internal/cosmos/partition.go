package cosmos

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// Bounds of the partitions that smallPartition reads, in items and bytes.
const (
	smallItems = 256
	smallBytes = 1 << 20
	// smallRoom bounds the memory of a partition that is kept for the next, in bytes.
	smallRoom = 128 << 10
)

// smallPartition is the items of a small partition.
type smallPartition struct {
	items  []byte
	places []smallPlace
}

// smallPlace is where an item is, with its number.
type smallPlace struct {
	number   int64
	from, to int
}

var smallPartitions = sync.Pool{New: func() any { return new(smallPartition) }}

// release returns the memory to the pool, unless it has become too large.
func (s *smallPartition) release() {
	if cap(s.items) <= smallRoom {
		s.items, s.places = s.items[:0], s.places[:0]
		smallPartitions.Put(s)
	}
}

// read reads the items of a partition in stored order, which is that of the ids. It
// returns false if they are many, or under another layout.
func (s *smallPartition) read(r *request, c *container, key []bson.Value) (ok bool, err error) {
	coll := c.collection.Latest()
	if coll == nil {
		return false, errNotFound
	}
	if !coll.ClusteredByID() {
		return false, nil
	}
	low, high := c.key.bounds(key)
	it, err := r.s.o.Catalog.Engine().NewIter(coll.Ident, coll.AppendIDKey(nil, bson.Document(low)), coll.AppendIDKey(nil, bson.Document(high)))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if held := r.holding(coll); held != nil {
		if err := held(); err != nil {
			return false, err
		}
	}
	if coll = coll.Latest(); coll == nil || !coll.ClusteredByID() {
		return false, nil // a relayout, maybe from before the iterator was opened
	}
	for more := it.First(); more; more = it.Next() {
		v, err := it.Value()
		if err != nil {
			return false, err
		}
		if len(s.places) == smallItems || len(s.items)+len(v) > smallBytes {
			return false, nil
		}
		number, _ := bson.ExactInt64(bson.Doc(v).Lookup(fieldNumber))
		s.places = append(s.places, smallPlace{number, len(s.items), len(s.items) + len(v)})
		s.items = append(s.items, v...)
	}
	return true, it.Err()
}

// smallPartition runs the query over the items of a small partition: it reads all of
// them and sorts them, without the planner. It returns false if the partition is large.
func (p *pager) smallPartition(run *nosql.Run, key []bson.Value) (bool, error) {
	s := smallPartitions.Get().(*smallPartition)
	defer s.release()
	if ok, err := s.read(p.r, p.c, key); err != nil || !ok {
		return false, err
	}
	p.examined = int64(len(s.places))
	st := &p.r.op.Stats
	st.IsQuery, st.DocsExamined = true, p.examined
	if !p.unordered {
		slices.SortFunc(s.places, func(a, b smallPlace) int { return cmp.Compare(a.number, b.number) })
	}
	for _, at := range s.places {
		if more, err := p.take(run, s.items[at.from:at.to]); err != nil || !more {
			return true, err
		}
	}
	return true, nil
}
