package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// stats are the server's counters.
type stats struct {
	bytesIn, bytesOut, requests atomic.Int64
	created, rejected           atomic.Int64
	tls                         [4]atomic.Int64 // connections with TLS 1.0, 1.1, 1.2, 1.3
	latency                     prometheus.Histogram
}

// latencyBuckets are the bounds of the histogram of request durations, in
// seconds: from 50 µs, doubling, to 3 s, and a few above.
var latencyBuckets = append(prometheus.ExponentialBuckets(50e-6, 2, 17), 10, 30, 100)

func newStats() *stats {
	return &stats{latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "mayfly", Name: "request_duration_seconds", Help: "Time from a whole request to its reply, without hello that waits.", Buckets: latencyBuckets,
	})}
}

// Stats are the numbers of the server at one moment, for serverStatus.
type Stats struct {
	Current   int64 // connections
	Available int64 // connections that would still be accepted
	Active    int64 // connections with a running operation
	Awaiting  int64 // of these, those that wait in an exhaust stream
	Created   int64 // connections since start
	Rejected  int64 // connections rejected since start, beyond the limit
	BytesIn   int64 // read from clients since start
	BytesOut  int64
	Requests  int64    // since start
	TLS       [4]int64 // connections since start with TLS 1.0, 1.1, 1.2, 1.3
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	st := Stats{
		Created: s.stats.created.Load(), Rejected: s.stats.rejected.Load(),
		BytesIn: s.stats.bytesIn.Load(), BytesOut: s.stats.bytesOut.Load(), Requests: s.stats.requests.Load(),
	}
	for i := range st.TLS {
		st.TLS[i] = s.stats.tls[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Current = int64(len(s.mu.links))
	st.Available = int64(s.maxConnections) - st.Current
	for c := range s.mu.links {
		if c.busySince.Load() > 0 {
			st.Active++
			if c.awaiting.Load() {
				st.Awaiting++
			}
		}
	}
	return st
}

// connectionMetrics exports Stats to Prometheus.
func (s *Server) connectionMetrics() []prometheus.Collector {
	return []prometheus.Collector{s.stats.latency, newGauges(s.Stats,
		gauge[Stats]{"connections_current", "Open connections.", false, func(st *Stats) float64 { return float64(st.Current) }},
		gauge[Stats]{"connections_available", "Connections that would still be let in.", false, func(st *Stats) float64 { return float64(st.Available) }},
		gauge[Stats]{"connections_active", "Connections with a running operation.", false, func(st *Stats) float64 { return float64(st.Active) }},
		gauge[Stats]{"connections_created_total", "Connections since start.", true, func(st *Stats) float64 { return float64(st.Created) }},
		gauge[Stats]{"connections_rejected_total", "Connections turned away since start.", true, func(st *Stats) float64 { return float64(st.Rejected) }},
		gauge[Stats]{"network_received_bytes_total", "Bytes read from clients since start.", true, func(st *Stats) float64 { return float64(st.BytesIn) }},
		gauge[Stats]{"network_sent_bytes_total", "Bytes written to clients since start.", true, func(st *Stats) float64 { return float64(st.BytesOut) }},
		gauge[Stats]{"network_requests_total", "Requests since start.", true, func(st *Stats) float64 { return float64(st.Requests) }},
	)}
}
