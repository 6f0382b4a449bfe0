package server

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/expire"
)

// maxRuleMetrics bounds the rules with metrics of their own.
const maxRuleMetrics = 1000

// ruleMetrics shows what each expiry rule has removed, and how late it is.
type ruleMetrics struct {
	ttl                                          *expire.Monitor
	documents, bytes, lag, lastVisit, lastRemove *prometheus.Desc
}

func newRuleMetrics(ttl *expire.Monitor) *ruleMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("mayfly_ttl_rule_"+name, help, []string{"namespace", "rule"}, nil)
	}
	return &ruleMetrics{
		ttl:        ttl,
		documents:  desc("removed_documents_total", "Documents removed by the rule."),
		bytes:      desc("removed_bytes_total", "Bytes of the documents removed by the rule."),
		lag:        desc("lag_seconds", "How long the oldest due document of the rule had waited at the last check."),
		lastVisit:  desc("last_visit_timestamp_seconds", "When the monitor last visited the rule."),
		lastRemove: desc("last_visit_removed_documents", "Documents that the last visit of the rule removed."),
	}
}

// Describe is prometheus.Collector's.
func (m *ruleMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.documents, m.bytes, m.lag, m.lastVisit, m.lastRemove} {
		ch <- d
	}
}

// Collect is prometheus.Collector's.
func (m *ruleMetrics) Collect(ch chan<- prometheus.Metric) {
	n := 0
	m.ttl.Each(func(ns, rule string, r expire.Record) {
		if n++; n > maxRuleMetrics {
			return
		}
		show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, label(ns), label(rule))
		}
		show(m.documents, prometheus.CounterValue, float64(r.Documents))
		show(m.bytes, prometheus.CounterValue, float64(r.Bytes))
		show(m.lag, prometheus.GaugeValue, r.Lag.Seconds())
		if !r.Last.At.IsZero() {
			show(m.lastVisit, prometheus.GaugeValue, float64(r.Last.At.UnixMilli())/1000)
			show(m.lastRemove, prometheus.GaugeValue, float64(r.Last.Documents))
		}
	})
}

// label returns a name as a label value. Names of collections and indexes may be
// invalid UTF-8, on which the Prometheus client panics.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
