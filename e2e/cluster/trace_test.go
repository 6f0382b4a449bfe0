package cluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/mayflydb/mayfly/internal/telemetry/telemetrytest"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestTrace: a real cluster sends its spans to a collector. A find through a router is one trace:
// the router's span, its requests to both shards, what the shards execute; an insert has what
// they wait for; and a driver's trace goes on. No value is in any span.
func TestTrace(t *testing.T) {
	out := telemetrytest.New(t)
	to := []string{"--otlpEndpoint", out.URL, "--otlpSampleRate", "1"}
	c := &cluster{config: testkit.Start(t, append(to, "--configsvr", "--replSet", "cfg", "--initiate")...)}
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config), to...))
	for i := range 2 {
		c.addShard(t, i, to...)
	}
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.events"}, {Key: "key", Value: bson.D{{Key: "user", Value: "hashed"}}}})
	db := c.routers[0].Client().Database("app")
	const secret = "nobody-may-see-this"
	var docs []any
	for i := range 100 {
		docs = append(docs, bson.D{{Key: "user", Value: i}, {Key: secret, Value: secret}})
	}
	if _, err := db.Collection("events").InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	parent := "00-11111111111111111111111111111111-2222222222222222-01"
	run(t, db, bson.D{{Key: "find", Value: "events"}, {Key: "filter", Value: bson.D{{Key: secret, Value: secret}}}, {Key: "$traceCtx", Value: bson.D{{Key: "traceparent", Value: parent}}}})
	run(t, db, bson.D{{Key: "find", Value: "events"}, {Key: "filter", Value: bson.D{{Key: secret, Value: secret}}}, {Key: "comment", Value: secret}})

	for _, of := range []string{"find", "driver's find", "insert", "shardCollection"} {
		deadline := time.Now().Add(15 * time.Second)
		for why := "-"; why != ""; {
			if why = missing(out.Spans(), of); why == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", of, why)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, s := range out.Spans() {
		if strings.Contains(s.String(), secret) {
			t.Errorf("a value is in %v", s)
		}
	}
	c.config.Stop()
	if !out.HasMetric("mayfly_operations_total") { // sent at the end, at the latest
		t.Error("no metrics came")
	}
}

// missing says what a trace lacks, "" for nothing.
func missing(spans []telemetrytest.Span, of string) string {
	command := of
	if of == "driver's find" {
		command = "find"
	}
	root := slices.IndexFunc(spans, func(s telemetrytest.Span) bool {
		drivers := s.TraceId[0] == 0x11
		switch of {
		case "shardCollection":
			return s.Role == "config server" && s.Kind == trace.Span_SPAN_KIND_INTERNAL && strings.HasPrefix(s.Name, "shardCollection app.events")
		case "find", "driver's find":
			return s.Role == "router" && s.Name == "find app.events" && drivers == (of != "find")
		}
		return s.Role == "router" && s.Name == command+" app.events"
	})
	if root < 0 {
		return "no span of the router's operation"
	}
	r := spans[root]
	if driver := len(r.ParentSpanId) > 0 && r.ParentSpanId[0] == 0x22; driver != (of == "driver's find") {
		return "its parent is not the driver's span"
	}
	below := func(parent telemetrytest.Span, role string, kind trace.Span_SpanKind) (out []telemetrytest.Span) {
		for _, s := range spans {
			if bytes.Equal(s.ParentSpanId, parent.SpanId) && bytes.Equal(s.TraceId, parent.TraceId) && s.Role == role && s.Kind == kind {
				out = append(out, s)
			}
		}
		return out
	}
	if of == "shardCollection" {
		return ""
	}
	asked := below(r, "router", trace.Span_SPAN_KIND_CLIENT)
	sets := map[string]bool{}
	for _, a := range asked {
		for _, s := range below(a, "shard", trace.Span_SPAN_KIND_SERVER) {
			if s.Name != command+" app.events" {
				return "the shard's span is " + s.Name
			}
			sets[telemetrytest.Value(a.Attributes, "mayfly.set")] = true
			if of == "insert" && len(below(s, "shard", trace.Span_SPAN_KIND_INTERNAL)) == 0 {
				return "the shard has waited for nothing"
			}
		}
	}
	if !sets["s0"] || !sets["s1"] {
		return "not both shards have executed a part"
	}
	return ""
}
