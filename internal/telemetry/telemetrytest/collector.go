// Package telemetrytest is an OpenTelemetry collector for tests: it takes OTLP over HTTP, and keeps
// what it gets.
package telemetrytest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one, with the role of the process that has sent it.
type Span struct {
	*trace.Span
	Role string
}

// Collector keeps all that it gets. Safe for use by many goroutines.
type Collector struct {
	*httptest.Server
	// Refuses has it take nothing (400).
	Refuses atomic.Bool
	// MetricsFirst has it answer no spans before it has got metrics.
	MetricsFirst atomic.Bool
	gotMetrics   chan struct{} // closed by the first
	once         sync.Once

	mu struct {
		sync.Mutex
		spans   []Span
		metrics map[string]bool
	}
}

// New starts a collector, until the end of the test.
func New(t testing.TB) *Collector {
	c := &Collector{gotMetrics: make(chan struct{})}
	c.mu.metrics = map[string]bool{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/traces" && c.MetricsFirst.Load() {
			select {
			case <-c.gotMetrics:
			case <-r.Context().Done():
			}
		}
		if err == nil && !c.Refuses.Load() {
			err = c.take(r.URL.Path, body)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		if err != nil || c.Refuses.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *Collector) take(path string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path == "/v1/metrics" {
		var got metrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &got); err != nil {
			return err
		}
		for _, of := range got.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.mu.metrics[m.Name] = true
				}
			}
		}
		c.once.Do(func() { close(c.gotMetrics) })
		return nil
	}
	var got traces.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &got); err != nil {
		return err
	}
	for _, of := range got.ResourceSpans {
		role := Value(of.Resource.Attributes, "mayfly.role")
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.mu.spans = append(c.mu.spans, Span{s, role})
			}
		}
	}
	return nil
}

// Spans returns those that came until now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.spans)
}

// HasMetric reports whether a metric of the name has come.
func (c *Collector) HasMetric(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.metrics[name]
}

// Value is an attribute as text, "" for none.
func Value(attrs []*common.KeyValue, key string) string {
	for _, a := range attrs {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
