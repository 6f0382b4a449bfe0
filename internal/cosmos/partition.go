package cosmos

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// What smallPartition reads before it gives up, in items and bytes.
const (
	smallItems = 256
	smallBytes = 1 << 20
	// smallRoom is the most that is kept of a partition's memory for the next, in
	// bytes.
	smallRoom = 128 << 10
)

// smallPartition is the items of a partition of which there are few.
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

// release gives the memory back, unless it has become too much to keep.
func (s *smallPartition) release() {
	if cap(s.items) <= smallRoom {
		s.items, s.places = s.items[:0], s.places[:0]
		smallPartitions.Put(s)
	}
}

// read reads the items of a partition as they lie, in the order of the ids.
// false says that they are many, or lie elsewhere.
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
	if coll = coll.Latest(); coll == nil || !coll.ClusteredByID() {
		return false, nil // laid anew, maybe before the iterator was opened
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

// smallPartition runs the query over the items of a partition where they are
// few: it reads them as they lie and puts them in order, without asking the
// planner which way that is best done. false says that they are many.
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
