package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// sendEvery is after what time spans are sent that do not fill a batch.
	sendEvery = time.Second
	// metricsEvery is how often metrics are sent.
	metricsEvery = 15 * time.Second
	// sendTimeout is how long the collector has for a batch.
	sendTimeout = 10 * time.Second
	// stopTimeout is how long a server that stops tries to send what it has left.
	stopTimeout = 2 * time.Second
	// complainEvery is how often the log says, at most, that nothing could be sent.
	complainEvery = time.Minute
)

// logNotSent is the id of that line, one that mongod does not have.
const logNotSent = 9000080

// Options are those of a Tracer.
type Options struct {
	// Endpoint is the URL of a collector, without the paths of the protocol:
	// http://localhost:4318. Headers and certificates are taken from the environment
	// (OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE).
	Endpoint string
	// SampleRate is the share of what begins here that is traced.
	SampleRate float64
	// Part says that operations begin no traces here: they are parts of a router's.
	Part bool
	// Service, Version and Instance name the server, Role says what it is: router, shard,
	// config server, member, standalone.
	Service, Version, Instance, Role string
	// Metrics are sent, too.
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// Tracer sends the spans of a server. The nil Tracer traces nothing. Safe for use by many
// goroutines.
type Tracer struct {
	spans   *sdk.TracerProvider
	metrics *metric.MeterProvider
	tracer  trace.Tracer
	queue   *queue
	rate    float64
	part    bool

	log *slog.Logger
	mu  struct {
		sync.Mutex
		complained time.Time
	}
}

// Open begins to send, until Close. It does not wait for the collector.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	of := resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Instance), attribute.String("mayfly.role", o.Role))
	base := strings.TrimRight(o.Endpoint, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base+"/v1/traces"), otlptracehttp.WithTimeout(sendTimeout))
	if err != nil {
		return nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"), otlpmetrichttp.WithTimeout(sendTimeout))
	if err != nil {
		return nil, errors.Join(err, spans.Shutdown(ctx))
	}
	t := &Tracer{log: o.Log, rate: o.SampleRate, part: o.Part}
	t.queue = newQueue(spans, t.notSent)
	t.spans = sdk.NewTracerProvider(sdk.WithSpanProcessor(t.queue), sdk.WithResource(of), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithRawSpanLimits(limits))
	t.metrics = metric.NewMeterProvider(metric.WithResource(of), metric.WithReader(metric.NewPeriodicReader(&metricExporter{metrics, t.notSent},
		metric.WithInterval(metricsEvery), metric.WithTimeout(sendTimeout), metric.WithProducer(&producer{bridge.NewMetricProducer(bridge.WithGatherer(o.Metrics)), t.notSent}))))
	t.tracer = t.spans.Tracer("github.com/mayflydb/mayfly")
	return t, nil
}

// limits bound a span: names of collections have their own bound.
var limits = sdk.SpanLimits{AttributeValueLengthLimit: 512, AttributeCountLimit: 32, EventCountLimit: 1, LinkCountLimit: 1, AttributePerEventCountLimit: 1, AttributePerLinkCountLimit: 1}

// Close sends what is left, for some time at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	// At once, so that neither takes the time of the other.
	var work sync.WaitGroup
	for _, shutdown := range []func(context.Context) error{t.spans.Shutdown, t.metrics.Shutdown} {
		work.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.notSent(err)
			}
		})
	}
	work.Wait()
}

// notSent logs why something could not be sent.
func (t *Tracer) notSent(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.mu.complained) >= complainEvery {
		t.mu.complained = now
		t.log.Warn("Traces or metrics could not be sent to the OpenTelemetry collector", "id", logNotSent, "error", err)
	}
}

// Collectors are the metrics about what is sent; none of the nil Tracer.
func (t *Tracer) Collectors() []prometheus.Collector {
	if t == nil {
		return nil
	}
	counter := func(name, help string, n func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "mayfly", Name: name, Help: help}, func() float64 { return float64(n()) })
	}
	return []prometheus.Collector{
		counter("trace_spans_sent_total", "Spans that the OpenTelemetry collector has taken.", t.queue.sent.Load),
		counter("trace_spans_dropped_total", "Spans that were dropped: the queue was full, or the collector did not take them.", t.queue.dropped.Load),
	}
}

// Serve begins the span of an operation, if it is traced. parent is the traceparent that the one
// who asks has sent, "" for none; one that is not valid counts as none. begins says that the
// operation may begin a trace. Without a span the context is ctx, and the Span nil.
func (t *Tracer) Serve(ctx context.Context, command, parent string, begins bool) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if of, ok := parseParent(parent); ok {
		if !of.IsSampled() {
			return ctx, nil
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, of)
	} else if !begins || t.part || !t.samples() {
		return ctx, nil
	}
	return start(ctx, t.tracer, command, trace.SpanKindServer, attribute.String("db.operation.name", command))
}

// Work begins the span of something that the server does by itself, if it is traced: a trace of
// its own, or a part of that of ctx.
func (t *Tracer) Work(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() && !t.samples() {
		return ctx, nil
	}
	return start(ctx, t.tracer, name, trace.SpanKindInternal)
}

func (t *Tracer) samples() bool { return t.rate >= 1 || t.rate > 0 && rand.Float64() < t.rate }

// Ask begins the span of a request to a set, "" for none, if ctx is of something traced.
func Ask(ctx context.Context, command, set string) (context.Context, *Span) {
	of := trace.SpanFromContext(ctx)
	if !of.IsRecording() {
		return ctx, nil
	}
	command = valid(command)
	return start(ctx, of.TracerProvider().Tracer("github.com/mayflydb/mayfly"), command+" to "+set, trace.SpanKindClient,
		attribute.String("db.operation.name", command), attribute.String("mayfly.set", valid(set)))
}
