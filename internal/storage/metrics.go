package storage

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Metrics is the engine's state in numbers; sizes in bytes, counts since Open.
type Metrics struct {
	Uptime time.Duration

	CacheBytes, CacheCapacity    int64
	CacheHits, CacheMisses       int64
	FilterHits, FilterMisses     int64
	MemtableBytes                uint64
	MemtableCount                int64
	Snapshots                    int
	OpenIterators                int64
	DiskBytes                    uint64 // all files of the store
	TableBytes                   uint64
	TableCount                   int64
	ObsoleteBytes                uint64
	Tombstones                   uint64
	ReadAmplification            int
	Flushes, Compactions         int64
	CompactionDebt               uint64
	CompactionsRunning           int64
	CompactionTime               time.Duration
	LogBytes                     uint64 // live log
	LogBytesIn, LogBytesWritten  uint64
	BytesFlushed, BytesCompacted uint64
	BytesReadForCompaction       uint64

	JournalSyncs   int64
	JournalTime    time.Duration // spent in syncs
	JournalWaits   int64         // commits that waited for one
	DiskFull       bool
	JournalMaxWait time.Duration // the configured interval
}

// Metrics reads the engine's state.
func (e *Engine) Metrics() Metrics {
	p := e.db.Metrics()
	m := Metrics{
		Uptime:             time.Since(e.opened),
		CacheBytes:         p.BlockCache.Size,
		CacheCapacity:      e.opts.CacheBytes,
		CacheHits:          p.BlockCache.Hits,
		CacheMisses:        p.BlockCache.Misses,
		FilterHits:         p.Filter.Hits,
		FilterMisses:       p.Filter.Misses,
		MemtableBytes:      p.MemTable.Size,
		MemtableCount:      p.MemTable.Count,
		Snapshots:          p.Snapshots.Count,
		OpenIterators:      p.TableIters,
		DiskBytes:          p.DiskSpaceUsage(),
		ObsoleteBytes:      p.Table.ObsoleteSize + p.Table.ZombieSize,
		Tombstones:         p.Keys.TombstoneCount,
		ReadAmplification:  p.ReadAmp(),
		Flushes:            p.Flush.Count,
		Compactions:        p.Compact.Count,
		CompactionDebt:     p.Compact.EstimatedDebt,
		CompactionsRunning: p.Compact.NumInProgress,
		CompactionTime:     p.Compact.Duration,
		LogBytes:           p.WAL.Size,
		LogBytesIn:         p.WAL.BytesIn,
		LogBytesWritten:    p.WAL.BytesWritten,
		JournalSyncs:       e.journal.syncs.Load(),
		JournalTime:        time.Duration(e.journal.nanos.Load()),
		JournalWaits:       e.journal.waited.Load(),
		JournalMaxWait:     time.Duration(e.journal.interval.Load()),
		DiskFull:           e.space.full.Load(),
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		m.TableBytes += uint64(l.TablesSize)
		m.TableCount += l.TablesCount
		m.BytesFlushed += l.TableBytesFlushed
		m.BytesCompacted += l.TableBytesCompacted
		m.BytesReadForCompaction += l.TableBytesRead
	}
	return m
}

// DiskUsage estimates how many bytes of tables a keyspace takes. What is still only in
// memory and the log is not counted.
func (e *Engine) DiskUsage(id Ident) (uint64, error) { return e.DiskUsageBetween(id, nil, nil) }

// DiskUsageBetween is DiskUsage of the keys from one up to another; nil bounds stand for
// the keyspace's ends. Where nothing is there any more, it is what compactions have yet
// to give back.
func (e *Engine) DiskUsageBetween(id Ident, lower, upper []byte) (uint64, error) {
	b, n := rangeBounds(nil, id, lower, upper)
	u, err := e.db.EstimateDiskUsage(b[:n], b[n:])
	return u, mapError(err)
}

// Reclaimable estimates the bytes of tables that compactions of a keyspace would
// give back: what its deletions have not dropped yet. live is how many keys it
// has, by which deletions count that are only in memory and log yet; negative
// where that is not known.
func (e *Engine) Reclaimable(id Ident, live int64) (uint64, error) {
	b, n := rangeBounds(nil, id, nil, nil)
	levels, err := e.db.SSTables(pebble.WithKeyRangeFilter(b[:n], b[n:]), pebble.WithApproximateSpanBytes())
	if err != nil {
		return 0, mapError(err)
	}
	var dropped, stored float64
	for _, tables := range levels {
		for i := range tables {
			t := &tables[i]
			st := &t.TableStats
			if t.Size == 0 || st.NumEntries == 0 {
				continue
			}
			share := min(1, float64(t.ApproximateSpanBytes)/float64(t.Size))
			deletions := float64(st.NumDeletions) / float64(st.NumEntries)
			stored += share * float64(st.NumEntries) * (1 - deletions)
			// The deletions themselves are removed, too.
			dropped += share * (float64(st.PointDeletionsBytesEstimate+st.RangeDeletionsBytesEstimate) + float64(t.Size)*deletions)
		}
	}
	used, err := e.DiskUsage(id)
	if stored > 0 && live >= 0 {
		dropped = max(dropped, float64(used)*(1-float64(live)/stored))
	}
	return min(uint64(max(0, dropped)), used), err
}
