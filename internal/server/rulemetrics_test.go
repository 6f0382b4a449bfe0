package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestLabels holds that no name of a collection or an index is one that
// Prometheus refuses, and that two names stay two.
func TestLabels(t *testing.T) {
	desc := prometheus.NewDesc("x", "Help.", []string{"namespace"}, nil)
	seen := map[string]string{}
	for _, name := range []string{"db.c", "db.\xff", "db.\xfe", "db.\"\n", "db.ä"} {
		l := label(name)
		if _, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, 1, l); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if other, ok := seen[l]; ok {
			t.Errorf("%q and %q are both %q", name, other, l)
		}
		seen[l] = name
	}
}
