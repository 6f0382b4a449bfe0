package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// stats are the server's counters.
type stats struct {
	bytesIn, bytesOut, requests atomic.Int64
	created, rejected           atomic.Int64
	latency                     prometheus.Histogram
}

// latencyBuckets are the bounds of the histogram of request durations, in
// seconds: from 50 µs, doubling, to 3 s, and a few above.
var latencyBuckets = append(prometheus.ExponentialBuckets(50e-6, 2, 17), 10, 30, 100)

func newStats() *stats {
	return &stats{latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "mayfly", Name: "request_duration_seconds", Help: "Time from a whole request to its reply.", Buckets: latencyBuckets,
	})}
}

// Stats are the numbers of the server at one moment, for serverStatus.
type Stats struct {
	Current   int64 // connections
	Available int64 // connections that would still be let in
	Active    int64 // connections with a running operation
	Awaiting  int64 // of these, those that wait in an exhaust stream
	Created   int64 // connections since start
	Rejected  int64 // connections turned away since start, there being too many
	BytesIn   int64 // read from clients since start
	BytesOut  int64
	Requests  int64 // since start
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	st := Stats{
		Created: s.stats.created.Load(), Rejected: s.stats.rejected.Load(),
		BytesIn: s.stats.bytesIn.Load(), BytesOut: s.stats.bytesOut.Load(), Requests: s.stats.requests.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Current = int64(len(s.mu.connections))
	st.Available = int64(s.maxConnections) - st.Current
	for c := range s.mu.connections {
		if c.busySince.Load() > 0 {
			st.Active++
			if c.awaiting.Load() {
				st.Awaiting++
			}
		}
	}
	return st
}

// connMetrics shows Stats to Prometheus.
type connMetrics struct {
	server *Server
	descs  [7]*prometheus.Desc
}

func newConnMetrics(s *Server) *connMetrics {
	m := &connMetrics{server: s}
	for i, d := range [...][2]string{
		{"connections_current", "Open connections."},
		{"connections_available", "Connections that would still be let in."},
		{"connections_created_total", "Connections since start."},
		{"connections_rejected_total", "Connections turned away since start."},
		{"network_received_bytes_total", "Bytes read from clients since start."},
		{"network_sent_bytes_total", "Bytes written to clients since start."},
		{"network_requests_total", "Requests since start."},
	} {
		m.descs[i] = prometheus.NewDesc("mayfly_"+d[0], d[1], nil, nil)
	}
	return m
}

// Describe and Collect make a prometheus.Collector.
func (m *connMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		ch <- d
	}
	m.server.stats.latency.Describe(ch)
}

// Collect reads the numbers.
func (m *connMetrics) Collect(ch chan<- prometheus.Metric) {
	st := m.server.Stats()
	for i, v := range [...]struct {
		kind prometheus.ValueType
		n    int64
	}{
		{prometheus.GaugeValue, st.Current}, {prometheus.GaugeValue, st.Available},
		{prometheus.CounterValue, st.Created}, {prometheus.CounterValue, st.Rejected},
		{prometheus.CounterValue, st.BytesIn}, {prometheus.CounterValue, st.BytesOut}, {prometheus.CounterValue, st.Requests},
	} {
		ch <- prometheus.MustNewConstMetric(m.descs[i], v.kind, float64(v.n))
	}
	m.server.stats.latency.Collect(ch)
}
