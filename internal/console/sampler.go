package console

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// sampleEvery is how often the metrics are sampled, and maxSamples how many samples are
	// kept: those of an hour.
	sampleEvery = 5 * time.Second
	maxSamples  = 720
)

// series is one line of a chart: what it is made of.
type series struct {
	name   string
	metric string // without "mayfly_", except that of the process
	label  string // the value of the metric's label, "" for one without
	rate   bool   // of a counter, a second
	rank   float64
}

// allSeries are the lines, in the order of a sample's values. All are of the metrics that the
// server exports (docs/operate/watch.md).
var allSeries = []series{
	{name: "insert", metric: "mayfly_operations_total", label: "insert", rate: true},
	{name: "query", metric: "mayfly_operations_total", label: "query", rate: true},
	{name: "update", metric: "mayfly_operations_total", label: "update", rate: true},
	{name: "delete", metric: "mayfly_operations_total", label: "delete", rate: true},
	{name: "getmore", metric: "mayfly_operations_total", label: "getmore", rate: true},
	{name: "command", metric: "mayfly_operations_total", label: "command", rate: true},
	{name: "expired", metric: "mayfly_ttl_deleted_documents_total", rate: true},
	{name: "p50", metric: "mayfly_request_duration_seconds", rank: 0.5},
	{name: "p95", metric: "mayfly_request_duration_seconds", rank: 0.95},
	{name: "p99", metric: "mayfly_request_duration_seconds", rank: 0.99},
	{name: "cpu", metric: "process_cpu_seconds_total", rate: true},
	{name: "resident", metric: "process_resident_memory_bytes"},
	{name: "operationMemory", metric: "mayfly_operation_memory_held_bytes"},
	{name: "cache", metric: "mayfly_storage_cache_bytes"},
	{name: "memtables", metric: "mayfly_storage_memtable_bytes"},
	{name: "cacheHits", metric: "mayfly_storage_cache_hits_total", rate: true},
	{name: "cacheMisses", metric: "mayfly_storage_cache_misses_total", rate: true},
	{name: "store", metric: "mayfly_storage_disk_bytes"},
	{name: "free", metric: "mayfly_disk_free_bytes"},
	{name: "logWritten", metric: "mayfly_storage_log_written_bytes_total", rate: true},
	{name: "compactions", metric: "mayfly_storage_compactions_total", rate: true},
	{name: "flushes", metric: "mayfly_storage_flushes_total", rate: true},
	{name: "compactionDebt", metric: "mayfly_storage_compaction_debt_bytes"},
	{name: "connections", metric: "mayfly_connections_current"},
	{name: "active", metric: "mayfly_connections_active"},
	{name: "received", metric: "mayfly_network_received_bytes_total", rate: true},
	{name: "sent", metric: "mayfly_network_sent_bytes_total", rate: true},
}

// sample is what the series were at a time. What is not known is NaN: a router has no store, and
// the first sample no rates.
type sample struct {
	at     time.Time
	values []float32 // as allSeries
}

// document is {at: <date>, values: [<double or null>, ...]}.
func (s *sample) document() bson.Doc {
	b := new(bson.Builder).Date("at", s.at.UnixMilli()).OpenArray("values")
	for i, v := range s.values {
		if math.IsNaN(float64(v)) {
			b.Null(bson.Index(i))
		} else {
			b.Double(bson.Index(i), float64(v))
		}
	}
	return b.Close().Finish()
}

// raw is what a series was counted from.
type raw struct {
	value   float64
	buckets []*dto.Bucket
	count   uint64 // of a histogram: also what is above its last bucket
}

// sampler samples the metrics of the server, whoever looks, and keeps the samples of an hour.
type sampler struct {
	from prometheus.Gatherer

	mu   sync.Mutex
	kept []sample      // a ring once it is full
	all  int           // samples taken; the newest is kept[(all-1)%maxSamples]
	more chan struct{} // closed when there is another one

	last   []raw // of the sampler alone
	lastAt time.Time
}

func newSampler(from prometheus.Gatherer) *sampler {
	return &sampler{from: from, more: make(chan struct{})}
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.take(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// take takes a sample. A metric that cannot be gathered is not known.
func (s *sampler) take(now time.Time) {
	families, _ := s.from.Gather()
	byName := make(map[string]*dto.MetricFamily, len(families))
	for _, f := range families {
		byName[f.GetName()] = f
	}
	raws, values := make([]raw, len(allSeries)), make([]float32, len(allSeries))
	for i, one := range allSeries {
		raws[i] = one.read(byName[one.metric])
		v := raws[i].value
		switch {
		case !one.rate && one.rank == 0:
		case s.last == nil:
			v = math.NaN()
		case one.rank > 0:
			v = quantile(one.rank, s.last[i], raws[i])
		default:
			v = (v - s.last[i].value) / now.Sub(s.lastAt).Seconds()
			if v < 0 { // the store has been replaced, and counts from 0 again
				v = math.NaN()
			}
		}
		values[i] = float32(v)
	}
	s.last, s.lastAt = raws, now
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, sample{})
	}
	s.kept[s.all%maxSamples] = sample{at: now, values: values}
	s.all++
	close(s.more)
	s.more = make(chan struct{})
}

// read returns what a series is counted from; NaN where there is no such metric.
func (one *series) read(f *dto.MetricFamily) raw {
	for _, m := range f.GetMetric() {
		if one.label != "" && (len(m.GetLabel()) != 1 || m.GetLabel()[0].GetValue() != one.label) {
			continue
		}
		switch {
		case m.Counter != nil:
			return raw{value: m.GetCounter().GetValue()}
		case m.Gauge != nil:
			return raw{value: m.GetGauge().GetValue()}
		case m.Histogram != nil:
			return raw{buckets: m.GetHistogram().GetBucket(), count: m.GetHistogram().GetSampleCount()}
		}
	}
	return raw{value: math.NaN()}
}

// since returns the samples after the first seen ones, and what is closed when there are more.
func (s *sampler) since(seen int) (samples []sample, all int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := max(seen, s.all-len(s.kept)); i < s.all; i++ {
		samples = append(samples, s.kept[i%maxSamples])
	}
	return samples, s.all, s.more
}

// quantile is the value of a rank (0.99) among what came between two states of a histogram, in the
// unit of its buckets, as Prometheus' histogram_quantile reckons it: evenly within a bucket, and the
// highest bound for what is above it. It is NaN where nothing came.
func quantile(rank float64, was, is raw) float64 {
	before, after := was.buckets, is.buckets
	if len(before) != len(after) || len(after) == 0 {
		return math.NaN()
	}
	count := func(i int) float64 { return float64(after[i].GetCumulativeCount() - before[i].GetCumulativeCount()) }
	total := float64(is.count - was.count)
	if total == 0 {
		return math.NaN()
	}
	low, under := 0.0, 0.0
	for i := range after {
		high, n := after[i].GetUpperBound(), count(i)
		if n >= rank*total {
			return low + (high-low)*(rank*total-under)/(n-under)
		}
		low, under = high, n
	}
	return low
}
