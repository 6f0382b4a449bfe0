package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var collStatsFields = command.NewFields("collStats",
	command.Collection(),
	command.SafeInt("scale").Min(1),
	command.Bool("waitForLock"),
)

// collStats answers {collStats: collection} with sizes and counts. (Manual:
// database command collStats.)
func (n *Node) collStats() *command.Command {
	return &command.Command{
		Name: "collStats", Aliases: []string{"collstats"}, Fields: collStatsFields, Flags: command.ChecksDatabase | command.TakesReadConcern,
		Help: "{ collStats:\"blog.posts\" , scale : 1 } scale divides sizes e.g. for KB use 1024\n    avgObjSize - in bytes",
		Run:  n.runCollStats,
	}
}

func (n *Node) runCollStats(ctx context.Context, op *command.Op) error {
	c := n.Catalog.Lookup(namespace(op))
	if c != nil && c.IsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", op.NS)
	}
	op.Reply.String("ns", op.NS)
	return n.appendStorageStats(op.Reply, c, int64(op.Args.IntOr("scale", 1)))
}

// appendStorageStats writes the sizes of a collection, divided by scale, as
// collStats and the storageStats of $collStats show them. c may be nil for a
// collection that does not exist: all is zero then.
func (n *Node) appendStorageStats(b *bson.Builder, c *catalog.Collection, scale int64) error {
	var s catalog.Stats
	if c != nil {
		var err error
		if s, err = n.Catalog.Stats(c); err != nil {
			return err
		}
	}
	b.Int("size", s.Size/scale)
	if c == nil || !c.IsTimeseries() {
		b.Int("count", s.Count)
		if s.Count > 0 {
			b.Int("avgObjSize", s.AvgSize)
		}
	}
	b.Int("numOrphanDocs", 0).Int("storageSize", s.StorageSize/scale)
	if c != nil && c.IsTimeseries() {
		appendBucketStats(b, c)
	}
	b.Int("totalIndexSize", s.IndexSize/scale).Int("totalSize", (s.StorageSize+s.IndexSize)/scale)
	b.OpenDoc("indexSizes")
	for _, ix := range s.Indexes {
		b.Int(ix.Index.Name, ix.Size/scale)
	}
	b.Close()
	if c != nil && !c.IsTimeseries() {
		documents, indexes, err := n.Catalog.Reclaimable(c)
		if err != nil {
			return err
		}
		b.Int("freeStorageSize", documents/scale).Int("indexFreeStorageSize", indexes/scale)
	}
	b.Bool("capped", c != nil && c.Capped)
	if c != nil && c.Capped {
		b.Int("max", c.MaxDocs).Int("maxSize", c.MaxBytes/scale)
	}
	b.Int("nindexes", int64(len(s.Indexes)))
	appendIndexDetails(b, s.Indexes)
	b.Int("scaleFactor", scale)
	return nil
}

// appendBucketStats writes collStats' statistics of the buckets of a time-series
// collection; open measurements count as one bucket for each source. Late
// measurements close none, nor does memory, and no commit waits for another's
// bucket. (Manual: collStats, "timeseries".)
func appendBucketStats(b *bson.Builder, c *catalog.Collection) {
	s := c.BucketStats()
	b.OpenDoc("timeseries").String("bucketsNs", c.Namespace.Buckets().String())
	b.Int("bucketCount", s.Buckets+s.Open)
	if s.Buckets > 0 {
		b.Int("avgBucketSize", s.Bytes/s.Buckets)
	}
	b.Int("numBucketInserts", s.Sealed).Int("numBucketUpdates", 0)
	b.Int("numBucketsOpenedDueToMetadata", s.Opened)
	b.Int("numBucketsClosedDueToCount", s.FullByCount).Int("numBucketsClosedDueToSize", s.FullBySize)
	b.Int("numBucketsClosedDueToTimeForward", s.SpanOver).Int("numBucketsClosedDueToTimeBackward", 0).Int("numBucketsClosedDueToMemoryThreshold", 0)
	b.Int("numCommits", s.Commits).Int("numWaits", 0).Int("numMeasurementsCommitted", s.Measurements)
	if s.Commits > 0 {
		b.Int("avgNumMeasurementsPerCommit", s.Measurements/s.Commits)
	}
	b.Close()
}

func appendIndexDetails(b *bson.Builder, indexes []catalog.IndexStats) {
	b.OpenDoc("indexDetails")
	for _, ix := range indexes {
		b.OpenDoc(ix.Index.Name).OpenDoc("metadata").Int32("formatVersion", 1).Close().String("type", "file").Close()
	}
	b.Close().OpenArray("indexBuilds")
	building := 0
	for _, ix := range indexes {
		if !ix.Index.Ready {
			b.String(bson.Index(building), ix.Index.Name)
			building++
		}
	}
	b.Close()
}
