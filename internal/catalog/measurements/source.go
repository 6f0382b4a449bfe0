package measurements

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Source is one source with open measurements, as the table knew it.
type Source struct {
	Key  []byte     // the prefix of the keys of its open measurements
	Meta bson.Value // Missing if they have none
	// Count is how many there are at most; First and Last are bounds of their
	// times, in milliseconds.
	Count       int
	First, Last int64
	// Staged are those that a reader has only in memory; see Reader. StoredLast is
	// a bound of the times of the others.
	Staged     []timeseries.Measurement
	StoredLast int64
	// FirstEnd is a lower bound for the end of the first bucket that they would
	// make; math.MinInt64 where it is not known.
	FirstEnd int64
}

// source is a source in the table, whose lock guards it. Its counts and times of
// open measurements are raised before they commit, and exact only after they were
// sealed: so no reader misses one.
type source struct {
	Source
	bytes  int
	frozen []timeseries.Measurement // staged before those in Staged, and about to be flushed
	likely int                      // how many will be staged, by those that were frozen last
	sealAt int                      // the count from which it is worth checking for a complete span
	// idleSealAt is when it may be sealed for being idle, counted from when the
	// table was made.
	idleSealAt time.Duration
}

func newSource(key []byte, meta bson.Value) *source {
	return &source{Source: Source{Key: key, Meta: meta, First: math.MaxInt64, Last: math.MinInt64, FirstEnd: math.MinInt64, StoredLast: math.MinInt64}}
}

// grow adds measurements. Where one is earlier than the last so far, the end of
// the first bucket is no longer known.
func (s *source) grow(n, size int, first, last int64) {
	if first < s.Last {
		s.FirstEnd = math.MinInt64
	}
	s.Count, s.bytes = s.Count+n, s.bytes+size
	s.First, s.Last = min(s.First, first), max(s.Last, last)
}

// full reports whether the open measurements that are no longer staged are enough
// for a bucket.
func (s *source) full() bool { return s.Count-len(s.Staged) >= timeseries.Capacity }

// Due reports whether some open measurements of a source may be due at a time: all
// those that would make a bucket or, where the rule is exact, any.
func (s *Source) Due(upTo int64, exact bool) bool {
	return s.First <= upTo && (exact || s.FirstEnd <= upTo)
}

// group are the measurements of one source that a unit flushes or stores.
type group struct {
	key         []byte
	source      *source
	ms          []timeseries.Measurement
	size        int
	first, last int64
	seal        bool
}

// bySource groups measurements by their sources.
func bySource(ms []timeseries.Measurement) (groups []*group) {
	byKey := map[string]*group{}
	var key []byte
	for _, m := range ms {
		key = appendSource(key[:0], m.Meta)
		g := byKey[string(key)]
		if g == nil {
			g = &group{key: slices.Clone(key), first: math.MaxInt64, last: math.MinInt64}
			byKey[string(g.key)] = g
			groups = append(groups, g)
		}
		g.ms = append(g.ms, m)
		g.size += len(m.Doc)
		g.first, g.last = min(g.first, m.Time), max(g.last, m.Time)
	}
	return groups
}

func byTime(a, b timeseries.Measurement) int { return cmp.Compare(a.Time, b.Time) }

// sortByTime sorts measurements by time; of equal times, those that came first stay
// first.
func sortByTime(ms []timeseries.Measurement) {
	if !slices.IsSortedFunc(ms, byTime) {
		slices.SortStableFunc(ms, byTime)
	}
}

// mergeByTime merges two lists that are in the order of time; of equal times,
// those of a come first.
func mergeByTime(a, b []timeseries.Measurement) []timeseries.Measurement {
	if len(a) == 0 {
		return b
	}
	all := append(a, b...)
	sortByTime(all)
	return all
}
