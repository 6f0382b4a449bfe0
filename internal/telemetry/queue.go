package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxQueued bounds the spans that have ended and were not sent yet.
	maxQueued = 4096
	// maxBatch is how many are sent at once.
	maxBatch = 512
)

// queue has the spans that have ended, until the collector has them. It bounds and counts them
// before the SDK's own, which drops in silence.
type queue struct {
	sdk.SpanProcessor
	queued, sent, dropped atomic.Int64
}

func newQueue(to sdk.SpanExporter, failed func(error)) *queue {
	q := new(queue)
	q.SpanProcessor = sdk.NewBatchSpanProcessor(&spanExporter{to, q, failed}, sdk.WithMaxQueueSize(maxQueued), sdk.WithMaxExportBatchSize(maxBatch),
		sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTimeout))
	return q
}

// OnEnd is sdk.SpanProcessor's.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.queued.Add(1) > maxQueued {
		q.queued.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanExporter sends, counts, and tells what has failed.
type spanExporter struct {
	sdk.SpanExporter
	queue  *queue
	failed func(error)
}

// ExportSpans is sdk.SpanExporter's. It does not fail: the SDK would tell the whole process.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.queue.dropped.Add(int64(len(spans)))
		e.failed(err)
	} else {
		e.queue.sent.Add(int64(len(spans)))
	}
	e.queue.queued.Add(-int64(len(spans)))
	return nil
}

// metricExporter sends, and tells what has failed.
type metricExporter struct {
	metric.Exporter
	failed func(error)
}

// Export is metric.Exporter's. It does not fail, as ExportSpans does not.
func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.failed(err)
	}
	return nil
}

// producer reads the metrics, and tells what has failed.
type producer struct {
	metric.Producer
	failed func(error)
}

// Produce is metric.Producer's. It does not fail, as ExportSpans does not.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	m, err := p.Producer.Produce(ctx)
	if err != nil {
		p.failed(err)
	}
	return m, nil
}
