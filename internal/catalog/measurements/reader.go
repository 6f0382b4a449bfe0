package measurements

import (
	"bytes"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Reader reads the open measurements of sources in one state of the store.
type Reader struct {
	r     storage.Reader
	id    storage.Ident
	field string // of the time
	it    *storage.Iter
}

// NewReader makes a reader of a table's keyspace, which the caller closes.
func NewReader(r storage.Reader, id storage.Ident, o *schema.Timeseries) *Reader {
	return &Reader{r: r, id: id, field: o.TimeField}
}

// Close releases the store.
func (r *Reader) Close() error {
	if r.it == nil {
		return nil
	}
	err := r.it.Close()
	r.it = nil
	return err
}

// Read returns the open measurements of a source from one time to another, both
// included, by time. The caller owns them, except for their documents' bytes,
// which never change.
func (r *Reader) Read(s *Source, from, to int64) ([]timeseries.Measurement, error) {
	var ms []timeseries.Measurement
	if s.Count > len(s.Staged) && from <= s.StoredLast {
		var err error
		if ms, _, err = r.stored(s.Key, s.Meta, from); err != nil {
			return nil, err
		}
	}
	ms = append(ms, s.Staged...)
	sortByTime(ms)
	lo := sort.Search(len(ms), func(i int) bool { return ms[i].Time >= from })
	hi := sort.Search(len(ms), func(i int) bool { return ms[i].Time > to })
	return ms[lo:max(lo, hi)], nil
}

// Newest returns the time of the newest open measurement of a source; ok is
// false if there is none.
func (r *Reader) Newest(s *Source) (at int64, ok bool, err error) {
	at = minTime
	for _, m := range s.Staged {
		at = max(at, m.Time)
	}
	if s.Count > len(s.Staged) && at <= s.StoredLast {
		if err := r.seek(s.Key, s.Key); err != nil {
			return 0, false, err
		}
		if ok = r.it.Last(); ok {
			at = max(at, timeOf(r.it.Key()))
		}
		if err := r.it.Err(); err != nil {
			return 0, false, err
		}
	}
	return at, ok || len(s.Staged) > 0, nil
}

// seek moves the iterator to a source's records from a key on.
func (r *Reader) seek(source, from []byte) (err error) {
	if r.it != nil {
		r.it.SetBounds(from, sourceEnd(source))
		return nil
	}
	r.it, err = r.r.NewIter(r.id, from, sourceEnd(source))
	return err
}

// stored reads those that are not staged, in stored order, without records that
// have none from a time on, and returns how many records they are in.
func (r *Reader) stored(source []byte, meta bson.Value, from int64) (ms []timeseries.Measurement, records int, err error) {
	if err := r.seek(source, AppendTime(bytes.Clone(source), from)); err != nil {
		return nil, 0, err
	}
	for ok := r.it.First(); ok; ok = r.it.Next() {
		v, err := r.it.Value()
		if err != nil {
			return nil, 0, err
		}
		records++
		err = eachDoc(bytes.Clone(v), r.field, func(d bson.Doc, at int64) error {
			ms = append(ms, timeseries.Measurement{Doc: d, Meta: meta, Time: at})
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return ms, records, r.it.Err()
}
