package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/node"
)

const (
	// trendEvery is how often the size of the store is sampled, and trendSamples how many
	// samples are kept: those of a day, so that a trend is not that of a busy hour.
	trendEvery   = 10 * time.Minute
	trendSamples = 24*6 + 1
)

// diskTrend samples how a server's store grows, from which mayfly doctor foresees when its disk
// is full.
type diskTrend struct {
	server *Server
	data   *data
	ttl    *expire.Monitor

	mu      sync.Mutex
	samples []diskSample // the oldest first
}

// diskSample is what there was at a time.
type diskSample struct {
	at        time.Time
	store     int64 // bytes
	documents int64
	expired   int64 // documents since the server started
}

// run samples until ctx ends.
func (d *diskTrend) run(ctx context.Context) {
	tick := time.NewTicker(trendEvery)
	defer tick.Stop()
	for {
		d.sample()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *diskTrend) sample() {
	documents, ok := d.documents()
	m := d.server.storageMetrics(d.data)()
	if !ok || m.DiskBytes == 0 { // the data are being replaced
		return
	}
	s := diskSample{at: time.Now(), store: int64(m.DiskBytes), documents: documents, expired: d.ttl.Stats.Deleted.Load()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.samples) == trendSamples {
		d.samples = d.samples[1:]
	}
	d.samples = append(d.samples, s)
}

// documents counts all documents of the server.
func (d *diskTrend) documents() (n int64, ok bool) {
	if d.data.member != nil {
		_, leave, err := d.data.member.Enter(d.server.life)
		if err != nil {
			return 0, false
		}
		defer leave()
	}
	for _, db := range d.data.catalog.Databases() {
		if db == "local" {
			continue
		}
		for _, c := range d.data.catalog.Collections(db) {
			n += c.Count()
		}
	}
	return n, true
}

// space is the file system of the data directory: bytes in all, and bytes free for this process.
func (d *diskTrend) space() (free, total float64) {
	_, free, total = node.DiskSpace(d.server.Options.Storage.DBPath)
	return free, total
}

// appendStatus writes serverStatus().mayfly.disk: {totalBytes, freeBytes, full, storeBytes,
// documents, sampledSeconds, storeBytesPerSecond, expiredPerSecond}. The rates are those
// between the oldest and the newest sample.
func (d *diskTrend) appendStatus(b *bson.Builder) {
	free, total := d.space()
	b.OpenDoc("disk").Double("totalBytes", total).Double("freeBytes", free).Bool("full", d.server.storageMetrics(d.data)().DiskFull)
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.samples); n > 0 {
		oldest, newest := d.samples[0], d.samples[n-1]
		b.Int64("storeBytes", newest.store).Int64("documents", newest.documents)
		if seconds := newest.at.Sub(oldest.at).Seconds(); seconds > 0 {
			b.Double("sampledSeconds", seconds).Double("storeBytesPerSecond", float64(newest.store-oldest.store)/seconds).
				Double("expiredPerSecond", float64(newest.expired-oldest.expired)/seconds)
		}
	}
	b.Close()
}

// metrics are the file system's.
func (d *diskTrend) metrics() prometheus.Collector {
	type space struct{ free, total float64 }
	return newGauges(func() space { free, total := d.space(); return space{free, total} },
		gauge[space]{"disk_free_bytes", "Bytes that are free on the disk of the data directory.", false, func(s *space) float64 { return s.free }},
		gauge[space]{"disk_total_bytes", "Bytes of the disk of the data directory.", false, func(s *space) float64 { return s.total }},
	)
}
