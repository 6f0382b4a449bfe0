package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/telemetry/telemetrytest"
	"github.com/mayflydb/mayfly/internal/waits"
)

func open(t testing.TB, r *telemetrytest.Collector, rate float64) *Tracer {
	t.Helper()
	tracer, err := Open(t.Context(), Options{Endpoint: r.URL, SampleRate: rate, Service: "mayfly", Version: "1", Instance: "here", Role: "test",
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// all closes the tracer, and returns what it has sent, by name.
func all(t *Tracer, c *telemetrytest.Collector) map[string]telemetrytest.Span {
	t.Close()
	out := map[string]telemetrytest.Span{}
	for _, s := range c.Spans() {
		out[s.Name] = s
	}
	return out
}

// TestSpans: an operation, what it asks another process, and what it waits for are one trace.
func TestSpans(t *testing.T) {
	r := telemetrytest.New(t)
	tracer := open(t, r, 1)
	ctx, op := tracer.Serve(t.Context(), "find", "", true)
	_, asked := Ask(ctx, "find", "s0")
	_, part := tracer.Serve(t.Context(), "find", asked.Parent(), false)
	part.Waited(waits.Disk, time.Now().Add(-time.Second), time.Second)
	part.Waited(waits.Shards, time.Now(), time.Second)
	part.Name("find", "db", "there\xff")
	part.End()
	asked.Fail(mongoerr.New(mongoerr.Interrupted, "killed"))
	asked.End()
	op.Name("find", "db", "c")
	op.End()
	got := all(tracer, r)
	root, ask, there, wait := got["find db.c"], got["find to s0"], got["find db.there\uFFFD"], got["wait disk"]
	if len(got) != 4 || root.Span == nil || ask.Span == nil || there.Span == nil || wait.Span == nil {
		t.Fatalf("%v", got)
	}
	for s, parent := range map[telemetrytest.Span]telemetrytest.Span{ask: root, there: ask, wait: there} {
		if string(s.TraceId) != string(root.TraceId) || string(s.ParentSpanId) != string(parent.SpanId) {
			t.Errorf("%s is not below %s", s.Name, parent.Name)
		}
	}
	if len(root.ParentSpanId) != 0 || ask.Status.Code != proto.Status_STATUS_CODE_ERROR || root.Status.Code == proto.Status_STATUS_CODE_ERROR {
		t.Errorf("%v %v", root, ask)
	}
	if d := time.Duration(wait.EndTimeUnixNano - wait.StartTimeUnixNano); d != time.Second {
		t.Errorf("waited for %s", d)
	}
}

// TestSampling: what begins a trace, and what does not.
func TestSampling(t *testing.T) {
	const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-0"
	r := telemetrytest.New(t)
	never, always := open(t, r, 0), open(t, r, 1)
	part := open(t, r, 1)
	part.part = true
	for _, c := range []struct {
		name   string
		tracer *Tracer
		parent string
		begins bool
		want   bool
	}{
		{"off", nil, parent + "1", true, false},
		{"rate 0", never, "", true, false},
		{"rate 1", always, "", true, true},
		{"quiet", always, "", false, false},
		{"of a cluster", part, "", true, false},
		{"part of a trace", never, parent + "1", false, true},
		{"part of a trace, in a cluster", part, parent + "1", false, true},
		{"part of a trace that is not sampled", always, parent + "0", true, false},
		{"not a traceparent", never, "00-1", true, false},
		{"no trace", never, "00-" + strings.Repeat("0", 32) + "-0123456789abcdef-01", true, false},
		{"capitals", never, strings.ToUpper(parent) + "1", true, false},
		{"version ff", never, "ff" + parent[2:] + "1", true, false},
		{"too long for version 00", never, parent + "1-more", true, false},
		{"a later version", never, "01" + parent[2:] + "1-more", true, true},
		{"a later version, longer", never, "01" + parent[2:] + "1more", true, false},
	} {
		_, s := c.tracer.Serve(t.Context(), "find", c.parent, c.begins)
		if s != nil != c.want {
			t.Errorf("%s: traced %v", c.name, s != nil)
		}
		s.End()
	}
	if _, s := Ask(t.Context(), "find", "s0"); s != nil {
		t.Error("a request of nothing traced is traced")
	}
	for _, tr := range []*Tracer{never, always, part} {
		tr.Close()
	}
}

// TestDropped: what the collector does not take, or not so fast, is dropped and counted, and
// nobody waits for it.
func TestDropped(t *testing.T) {
	r := telemetrytest.New(t)
	r.Refuses.Store(true)
	tracer := open(t, r, 1)
	const n = 3 * maxQueued
	for range n {
		_, s := tracer.Serve(context.Background(), "find", "", true)
		s.End()
	}
	tracer.Close()
	if sent, dropped, queued := tracer.queue.sent.Load(), tracer.queue.dropped.Load(), tracer.queue.queued.Load(); sent != 0 || dropped != n || queued != 0 {
		t.Errorf("of %d sent %d, dropped %d, queued %d", n, sent, dropped, queued)
	}
}

// TestCloseAtOnce: a collector that is slow with spans gets the last metrics all the same.
func TestCloseAtOnce(t *testing.T) {
	r := telemetrytest.New(t)
	r.MetricsFirst.Store(true)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "last"}))
	tracer, err := Open(t.Context(), Options{Endpoint: r.URL, SampleRate: 1, Metrics: metrics, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_, s := tracer.Serve(t.Context(), "find", "", true)
	s.End()
	tracer.Close()
	if !r.HasMetric("last") || len(r.Spans()) != 1 {
		t.Errorf("the metrics were sent: %t, spans: %d", r.HasMetric("last"), len(r.Spans()))
	}
}

// TestWaitsBound: an operation that waits again and again has a bounded number of spans.
func TestWaitsBound(t *testing.T) {
	r := telemetrytest.New(t)
	tracer := open(t, r, 1)
	_, s := tracer.Serve(t.Context(), "insert", "", true)
	for range 10 * maxWaits {
		s.Waited(waits.Disk, time.Now(), time.Microsecond)
	}
	s.End()
	tracer.Close()
	if n := tracer.queue.sent.Load(); n != maxWaits+1 {
		t.Errorf("%d spans", n)
	}
}

// BenchmarkServe is what a span of an operation costs, by how many of them are traced.
func BenchmarkServe(b *testing.B) {
	for name, rate := range map[string]float64{"off": -1, "0.01": 0.01, "1": 1} {
		b.Run(name, func(b *testing.B) {
			var tracer *Tracer
			if rate >= 0 {
				tracer = open(b, telemetrytest.New(b), rate)
				defer tracer.Close()
			}
			for b.Loop() {
				_, s := tracer.Serve(context.Background(), "find", "", true)
				s.Name("find", "db", "c")
				s.End()
			}
		})
	}
}

// TestNames: a span has a bounded copy of a name, not the request that the name is a part of.
func TestNames(t *testing.T) {
	request := []byte(strings.Repeat("c", 1<<20))
	name := valid(unsafe.String(&request[0], len(request)))
	request[0] = 'x'
	if len(name) != maxName || name[0] != 'c' {
		t.Errorf("%d bytes, from %q", len(name), name[0])
	}
}
