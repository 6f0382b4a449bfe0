package pipeline

import "slices"

// Looked is what a $lookup has read of the other collection, as explain tells
// it.
type Looked struct {
	Keys, Docs int64
	// Scans is how many of its queries have scanned the collection.
	Scans int64
	// Indexes are the names of the indexes that they have used.
	Indexes []string
}

// looking is a pipeline that knows what it has read.
type looking interface{ Looked() Looked }

// ended books what a sub-pipeline has read, where somebody asks for it.
func (j *joining) ended(sub Iterator) {
	l, ok := inside(sub).(looking)
	if j.r.Stats == nil || !ok {
		return
	}
	found := l.Looked()
	j.looked.Keys, j.looked.Docs, j.looked.Scans = j.looked.Keys+found.Keys, j.looked.Docs+found.Docs, j.looked.Scans+found.Scans
	for _, name := range found.Indexes {
		if !slices.Contains(j.looked.Indexes, name) {
			j.looked.Indexes = append(j.looked.Indexes, name)
		}
	}
}

// Looked is what the stage has read of another collection, nil for all but
// $lookup.
func (s *StageStats) Looked() *Looked {
	if j, ok := s.it.(*joining); ok {
		return &j.looked
	}
	return nil
}
