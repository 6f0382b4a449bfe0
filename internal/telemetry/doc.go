// Package telemetry sends traces and metrics to a collector, by OpenTelemetry's protocol (OTLP
// over HTTP, in protobuf).
//
// A trace has a span for each operation that a process executes, one for each request of it to
// another process, and one for each time it waits. Who asks another process says in the
// command's argument $traceCtx of which trace it is a part: {traceparent: "00-…"} (W3C, Trace
// Context). Spans have the names of commands, databases and collections, numbers and times, and
// nothing of what clients store or ask for.
//
// What is not traced costs a comparison: no span is made of it. What cannot be sent as fast as it
// ends is dropped, and counted (queue.go).
//
// The metrics are those that Prometheus reads.
//
// Start reading at tracer.go.
package telemetry
