package server

import "github.com/prometheus/client_golang/prometheus"

// gauge is one metric from a snapshot S.
type gauge[S any] struct {
	name, help string
	counter    bool // a counter
	of         func(*S) float64
}

// gauges collects many metrics from one snapshot, which is taken once per scrape.
type gauges[S any] struct {
	snapshot func() S
	rows     []gauge[S]
	descs    []*prometheus.Desc
}

func newGauges[S any](snapshot func() S, rows ...gauge[S]) *gauges[S] {
	g := &gauges[S]{snapshot: snapshot, rows: rows}
	for _, r := range rows {
		g.descs = append(g.descs, prometheus.NewDesc("mayfly_"+r.name, r.help, nil, nil))
	}
	return g
}

// Describe is prometheus.Collector's.
func (g *gauges[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// Collect is prometheus.Collector's.
func (g *gauges[S]) Collect(ch chan<- prometheus.Metric) {
	s := g.snapshot()
	for i, r := range g.rows {
		kind := prometheus.GaugeValue
		if r.counter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(g.descs[i], kind, r.of(&s))
	}
}
