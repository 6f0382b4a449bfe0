package exec

import "sync/atomic"

// Counts count what queries do. They only grow.
type Counts struct {
	// Trials of plans against each other, the units of work and the microseconds
	// that they took.
	Trials, TrialWorks, TrialMicros atomic.Int64
	// Plans that came from a cache, were not there, and were given up.
	CacheHits, CacheMisses, Replanned atomic.Int64
	// Rows that were sorted in memory, their bytes, and how often they went to disk.
	SortedRows, SortedBytes, SortSpills atomic.Int64
}

// sorted counts what the stages of a plan have sorted.
func (c *Counts) sorted(s Stage) {
	if so, ok := s.(*sorter); ok {
		c.SortedRows.Add(so.rows.Stats.Rows)
		c.SortedBytes.Add(so.rows.Stats.Bytes)
		c.SortSpills.Add(so.rows.Stats.Spills)
	}
	for _, in := range s.Inputs() {
		c.sorted(in)
	}
}
