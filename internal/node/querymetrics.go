package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
)

// appendQueryMetrics writes the document query of serverStatus's metrics: plans,
// their cache, and sorts.
func (n *Node) appendQueryMetrics(b *bson.Builder) {
	if n.Exec == nil {
		return
	}
	c := &n.Exec.Counts
	b.OpenDoc("multiPlanner").Int64("classicCount", c.Trials.Load()).Int64("classicMicros", c.TrialMicros.Load()).
		Int64("classicWorks", c.TrialWorks.Load()).Close()
	b.OpenDoc("planCache").OpenDoc("classic").Int64("hits", c.CacheHits.Load()).Int64("misses", c.CacheMisses.Load()).
		Int64("replanned", c.Replanned.Load()).Close().Close()
	size, shapes := n.cachedPlans()
	b.Int64("planCacheTotalQueryShapes", shapes).Int64("planCacheTotalSizeEstimateBytes", size)
	b.OpenDoc("sort").Int64("spillToDisk", c.SortSpills.Load()).Int64("totalBytesSorted", c.SortedBytes.Load()).
		Int64("totalKeysSorted", c.SortedRows.Load()).Close()
}

// cachedPlans are the bytes and the number of all cached plans.
func (n *Node) cachedPlans() (size, count int64) {
	if n.Catalog == nil {
		return 0, 0
	}
	for _, db := range n.Catalog.Databases() {
		for _, c := range n.Catalog.Collections(db) {
			s, k := plancache.Size(c)
			size, count = size+s, count+k
		}
	}
	return size, count
}
