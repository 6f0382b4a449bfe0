package pipeline

import "slices"

// LookupStats is what a $lookup has read of the other collection, as explain shows
// it.
type LookupStats struct {
	Keys, Docs int64
	// Scans is how many of its queries have scanned the collection.
	Scans int64
	// Indexes are the names of the indexes that they have used.
	Indexes []string
}

// countsLookups is a pipeline that knows what it has read.
type countsLookups interface{ LookupStats() LookupStats }

// addStats adds the statistics of a sub-pipeline, if they are collected.
func (j *joining) addStats(sub Iterator) {
	l, ok := inside(sub).(countsLookups)
	if j.r.Stats == nil || !ok {
		return
	}
	found := l.LookupStats()
	j.stats.Keys, j.stats.Docs, j.stats.Scans = j.stats.Keys+found.Keys, j.stats.Docs+found.Docs, j.stats.Scans+found.Scans
	for _, name := range found.Indexes {
		if !slices.Contains(j.stats.Indexes, name) {
			j.stats.Indexes = append(j.stats.Indexes, name)
		}
	}
}

// LookupStats is what the stage has read of another collection, nil for all but
// $lookup.
func (s *StageStats) LookupStats() *LookupStats {
	if j, ok := s.it.(*joining); ok {
		return &j.stats
	}
	return nil
}
