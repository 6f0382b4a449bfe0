package console

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/bson"
)

// of returns a sample's value of a series.
func of(t *testing.T, s sample, name string) float64 {
	t.Helper()
	for i, one := range allSeries {
		if one.name == name {
			return float64(s.values[i])
		}
	}
	t.Fatalf("no series %s", name)
	return 0
}

// Samples have rates of counters, gauges as they are, ranks of what came since the sample before, and
// nothing of what is not known; an hour of them is kept, whoever looks.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		inserts := prometheus.NewCounter(prometheus.CounterOpts{Name: "mayfly_operations_total", ConstLabels: prometheus.Labels{"type": "insert"}})
		queries := prometheus.NewCounter(prometheus.CounterOpts{Name: "mayfly_operations_total", ConstLabels: prometheus.Labels{"type": "query"}})
		cache := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mayfly_storage_cache_bytes"})
		latency := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mayfly_request_duration_seconds", Buckets: []float64{1, 2, 4}})
		r.MustRegister(inserts, queries, cache, latency)
		s := newSampler(r)
		go s.run(t.Context())
		synctest.Wait()
		first, _, more := s.since(0)
		if len(first) != 1 || !math.IsNaN(of(t, first[0], "insert")) || of(t, first[0], "cache") != 0 || !math.IsNaN(of(t, first[0], "free")) {
			t.Errorf("the first sample is %v", first)
		}
		inserts.Add(50)
		queries.Add(5)
		cache.Set(7)
		for range 10 {
			latency.Observe(0.5)
			latency.Observe(1.5)
		}
		time.Sleep(sampleEvery)
		synctest.Wait()
		select {
		case <-more:
		default:
			t.Error("who waits is not told of a sample")
		}
		second, _, _ := s.since(1)
		if len(second) != 1 {
			t.Fatalf("%d samples after the first", len(second))
		}
		for name, want := range map[string]float64{"insert": 10, "query": 1, "cache": 7, "p50": 1, "p95": 1.9} {
			if got := of(t, second[0], name); math.Abs(got-want) > 1e-6 {
				t.Errorf("%s is %v, not %v", name, got, want)
			}
		}
		latency.Observe(100)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		all, seen, _ := s.since(0)
		if len(all) != maxSamples || cap(s.kept) > 2*maxSamples || seen != 2+2*3600/5 || all[maxSamples-1].at.Sub(all[0].at) != time.Hour-sampleEvery {
			t.Errorf("%d samples are kept, of %d", len(all), seen)
		}
		if !math.IsNaN(of(t, all[0], "p50")) {
			t.Error("where nothing came there is a rank")
		}
		if d := all[0].document().Lookup("values").Doc(); d.Lookup("0").Type != bson.TypeDouble || d.Lookup("18").Type != bson.TypeNull {
			t.Errorf("a sample is %s", d)
		}
	})
}
