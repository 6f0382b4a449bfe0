package telemetry

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/waits"
)

// Argument is the generic argument of commands that says of which trace they are a part, and
// ParentField its field that has the traceparent.
const (
	Argument    = "$traceCtx"
	ParentField = "traceparent"
)

// maxWaits bounds the spans of an operation's waits. What it waits beyond them is in the totals.
const maxWaits = 32

// Span is a part of a trace. All methods of the nil Span do nothing.
type Span struct {
	span   trace.Span
	tracer trace.Tracer
	ctx    context.Context // of the spans below it
	waited atomic.Int32
}

var system = attribute.String("db.system.name", "mongodb")

func start(ctx context.Context, t trace.Tracer, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, *Span) {
	s := &Span{tracer: t}
	s.ctx, s.span = t.Start(ctx, valid(name), trace.WithSpanKind(kind), trace.WithAttributes(append(attrs, system)...))
	return s.ctx, s
}

// Waited adds a span of a time that was waited. What shards are waited for has spans of requests.
func (s *Span) Waited(k waits.Kind, since time.Time, d time.Duration) {
	if s == nil || k == waits.Shards || s.waited.Add(1) > maxWaits {
		return
	}
	_, w := s.tracer.Start(s.ctx, "wait "+k.String(), trace.WithTimestamp(since), trace.WithAttributes(attribute.String("mayfly.wait", k.String())))
	w.End(trace.WithTimestamp(since.Add(d)))
}

// Name says on what the operation has worked: a database, and a collection, "" for none.
func (s *Span) Name(command, db, coll string) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.String("db.namespace", valid(db)))
	if coll != "" {
		s.span.SetName(command + " " + valid(db) + "." + valid(coll))
		s.span.SetAttributes(attribute.String("db.collection.name", valid(coll)))
	}
}

// Totals says how long the operation has waited in all.
func (s *Span) Totals(t *waits.Totals) {
	if s == nil {
		return
	}
	for k, d := range t.Each {
		s.Count("mayfly.wait."+k.String()+".microseconds", d.Microseconds())
	}
}

// Count adds a number.
func (s *Span) Count(name string, n int64) {
	if s != nil {
		s.span.SetAttributes(attribute.Int64(name, n))
	}
}

// Fail says that it has failed, by the number and the name of an error; nothing of nil.
func (s *Span) Fail(err error) {
	if s == nil || err == nil {
		return
	}
	code := mongoerr.From(err).Code
	s.span.SetStatus(codes.Error, code.String())
	s.span.SetAttributes(attribute.String("error.type", code.String()), attribute.String("db.response.status_code", strconv.Itoa(int(code))))
}

// End ends it.
func (s *Span) End() {
	if s != nil {
		s.span.End()
	}
}

// Parent is the traceparent for what the span asks others for.
func (s *Span) Parent() string {
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// parentLength is that of a traceparent of version 00.
const parentLength = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")

// parseParent reads a traceparent. Later versions may be longer, and are read as this one.
func parseParent(p string) (trace.SpanContext, bool) {
	if len(p) < parentLength || p[2] != '-' || p[35] != '-' || p[52] != '-' {
		return trace.SpanContext{}, false
	}
	version := p[:2]
	if version == "ff" || !isHex(version) || version == "00" && len(p) != parentLength || len(p) > parentLength && p[parentLength] != '-' {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(p[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	span, err := trace.SpanIDFromHex(p[36:52])
	if err != nil || !isHex(p[53:55]) {
		return trace.SpanContext{}, false
	}
	flags, _ := strconv.ParseUint(p[53:55], 16, 8)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true}), true
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// maxName bounds a name in a span, in bytes: one that is not valid may be of any length.
const maxName = 512

// valid is a name as the protocol can have it: clients may name things by any bytes. It is a copy,
// as a span outlives the request that the name is a part of.
func valid(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), maxName)], "\uFFFD"))
}
