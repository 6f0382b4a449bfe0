package catalog

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
)

// minFileBytes is what mongod shows for a collection or index whose data has
// not reached its file yet.
const minFileBytes = 4096

// Stats is the size of a collection, in documents and bytes.
type Stats struct {
	Count   int64
	Size    int64 // of the documents, uncompressed
	AvgSize int64
	// StorageSize is the size of the documents on disk, without what is still in
	// the log; IndexSize is the same for all indexes.
	StorageSize int64
	IndexSize   int64
	Indexes     []IndexStats
}

// IndexStats is one index in Stats.
type IndexStats struct {
	Index    *Index
	Size     int64 // on disk
	Accesses int64
	Since    time.Time
}

// Stats measures a collection. An index that is the records themselves has the
// minimum size, since it takes no space of its own.
func (c *Catalog) Stats(coll *Collection) (Stats, error) {
	s := Stats{Count: coll.Count(), Size: coll.DataSize()}
	if s.Count > 0 && (coll.Ident != 0 || coll.virtual != nil) {
		s.AvgSize = s.Size / s.Count
	}
	if coll.virtual != nil {
		s.StorageSize = s.Size
	}
	if coll.Ident == 0 {
		return s, nil
	}
	var err error
	if s.StorageSize, err = c.diskUsage(coll.Ident); err != nil {
		return s, err
	}
	if coll.Open != 0 {
		open, err := c.diskUsage(coll.Open)
		if err != nil {
			return s, err
		}
		s.StorageSize += open
	}
	for _, ix := range coll.indexes {
		i := IndexStats{Index: ix, Size: minFileBytes}
		if !ix.Records {
			if i.Size, err = c.diskUsage(ix.Ident); err != nil {
				return s, err
			}
		}
		i.Accesses, i.Since = ix.Used()
		s.IndexSize += i.Size
		s.Indexes = append(s.Indexes, i)
	}
	return s, nil
}

func (c *Catalog) diskUsage(id storage.Ident) (int64, error) {
	n, err := c.engine.DiskUsage(id)
	return max(minFileBytes, int64(n)), err
}

// Reclaimable estimates how many bytes of disk space compact would give back,
// for a collection's documents and for its indexes.
func (c *Catalog) Reclaimable(coll *Collection) (documents, indexes int64, err error) {
	if coll == nil {
		return 0, 0, nil
	}
	for i, s := range coll.keyspaces() {
		n, err := c.engine.Reclaimable(s.ident, s.keys)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			documents = int64(n)
		} else {
			indexes += int64(n)
		}
	}
	return documents, indexes, nil
}

// Reclaim frees the disk space of a collection's deleted data, where that is
// worthwhile, step by step with pauses: see storage.Engine.Reclaim.
func (c *Catalog) Reclaim(ctx context.Context, coll *Collection, pause func(time.Duration) error) error {
	if coll = coll.Latest(); coll == nil {
		return nil
	}
	for _, s := range coll.keyspaces() {
		if err := c.engine.Reclaim(ctx, s.ident, s.keys, pause); err != nil {
			return err
		}
	}
	return nil
}

// keyspace is where documents or entries are, and how many; negative where that
// is not known.
type keyspace struct {
	ident storage.Ident
	keys  int64
}

// keyspaces returns those of a collection's documents, and then of its indexes.
func (c *Collection) keyspaces() (all []keyspace) {
	if c.Ident == 0 {
		return nil
	}
	docs := c.live.counter.Load(sumDocs) // of a time-series collection, buckets
	all = append(all, keyspace{c.Ident, docs})
	for _, ix := range c.indexes {
		if ix.Records {
			continue
		}
		keys := docs
		if ix.OnPlace != nil || ix.Multikey().Any() || ix.Sparse || ix.Filter != nil || ix.Plugin != "" {
			keys = -1
		}
		all = append(all, keyspace{ix.Ident, keys})
	}
	return all
}
