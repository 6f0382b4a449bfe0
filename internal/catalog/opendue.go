package catalog

import (
	"math"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
)

// DueSource says whether the open measurements of a source may have some that
// are due at a time: all of those that would be a bucket, or where it is to be
// exact, any.
func (s *Source) DueSource(upTo int64, exact bool) bool {
	return s.First <= upTo && (exact || s.FirstEnd <= upTo)
}

// NoteFirstEnd notes when the first bucket ends that the open measurements of a
// source would be, of which so many were looked at: not where more have come
// meanwhile. The caller has locked the source, as EditOpen does.
func (c *Collection) NoteFirstEnd(source []byte, count int, end int64) {
	t := c.live.open
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sources[string(source)]; s != nil && s.Count == count {
		s.FirstEnd = end
	}
}

// FirstOpenEnd is the time behind after at which the first bucket may end that
// open measurements of sources which want says yes to would be; schema.Never
// where there is none. Where nobody has looked yet, it is that of the first
// measurement, so it may be too early. REQUIRES: IsTimeseries.
func (c *Collection) FirstOpenEnd(after int64, exact bool, want func(*Source) bool) int64 {
	if !invariant.Check(c.IsTimeseries(), "catalog: FirstOpenEnd is of a time-series collection") {
		return schema.Never
	}
	t := c.live.open
	t.mu.RLock()
	defer t.mu.RUnlock()
	first := int64(schema.Never)
	for _, s := range t.sources {
		at := s.First
		if !exact {
			at = max(at, s.FirstEnd)
		}
		if s.Count > 0 && at > after && at < first && want(&s.Source) {
			first = at
		}
	}
	return first
}

// growEnd is what is known of the end of the first bucket when measurements
// come: nothing where one is no later than all others.
func (s *openSource) growEnd(first int64) {
	if first < s.Last {
		s.FirstEnd = math.MinInt64
	}
}
