package command

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// finish completes the reply of op, which ended at now, and accounts for op.
func (d *Dispatcher) finish(ctx context.Context, op *Op, now time.Time, err error) Response {
	r := Response{Close: op.CloseConnection, Took: now.Sub(op.Start)}
	if err != nil {
		r.Body = d.errorReply(op, mongoerr.From(err))
	} else {
		op.inject()
		op.appendUnmet(op.Reply)
		if op.unmet != nil {
			op.appendLabels(op.unmet)
			if stateChanges[op.unmet.Code] {
				d.AppendTopologyVersion(op.Reply)
			}
		}
		if op.IntegerOK {
			op.Reply.Int32("ok", 1)
		} else {
			op.Reply.Double("ok", 1)
		}
		if d.replicated() {
			d.appendTimes(op, op.Reply)
		}
		r.Body = op.Reply.Finish()
		if op.ExhaustAllowed {
			r.Next = op.NextBody
		}
	}
	d.account(ctx, op, noted{took: r.Took - op.awaited, reply: len(r.Body), err: err})
	return r
}

// account counts, logs and profiles an operation that has ended.
func (d *Dispatcher) account(ctx context.Context, op *Op, n noted) {
	if n.err != nil {
		e := mongoerr.From(n.err)
		d.countError(ctx, op, e, n.err)
		if op.Command != nil && d.Log.Enabled(ctx, slog.LevelDebug) {
			d.logFailure(ctx, op, e)
		}
	}
	if op.Command != nil && op.ID != 0 {
		d.Metrics.end(op, n.took)
		d.Top.record(op, n.took)
		d.note(ctx, op, n)
		if op.span != nil {
			op.endSpan(n.err)
		}
	}
}

// endSpan says in the operation's span what it was and did: names, numbers and no values.
func (op *Op) endSpan(err error) {
	s := op.span
	s.Name(op.Command.Name, op.DB, op.Collection)
	waited := op.waits().Totals()
	s.Totals(&waited)
	if op.Stats.IsQuery {
		s.Count("mayfly.keys_examined", op.Stats.KeysExamined)
		s.Count("mayfly.docs_examined", op.Stats.DocsExamined)
		s.Count("db.response.returned_rows", op.Stats.NReturned)
	}
	s.Fail(err)
	s.End()
}

// logFailure logs a command that failed, as mongod does at verbosity 1.
func (d *Dispatcher) logFailure(ctx context.Context, op *Op, e *mongoerr.Error) {
	d.Log.LogAttrs(ctx, slog.LevelDebug, "Assertion while executing command", slog.String("c", "COMMAND"), slog.Int("id", logAssertion),
		slog.String("command", op.Name), slog.String("db", op.DB), slog.Any("commandArgs", op.loggedCommand()),
		slog.String("error", e.Code.String()+": "+d.loggedText(e.Message)))
}

func (d *Dispatcher) countError(ctx context.Context, op *Op, e *mongoerr.Error, err error) {
	d.Metrics.AssertUser.Add(1)
	if op.Command != nil {
		op.Command.counts.failed.Add(1)
	}
	switch e.Code {
	case mongoerr.Interrupted:
		d.Metrics.Killed.Add(1)
	case mongoerr.ClientDisconnect:
		d.Metrics.Disconnected.Add(1)
	case mongoerr.MaxTimeMSExpired:
		d.Metrics.TimedOut.Add(1)
	}
	if e.Code == mongoerr.InternalError && error(e) != err || e.Code == mongoerr.DataCorruptionDetected {
		// Not a user's error: the operator needs to see it.
		d.Log.LogAttrs(ctx, slog.LevelError, "Operation failed", slog.String("c", "COMMAND"), slog.Int("id", logFailed),
			slog.String("command", op.Name), slog.String("ns", op.NS), slog.String("error", d.loggedText(err.Error())))
	}
}

// errorReply returns the whole reply for an error of op. A member adds what drivers
// need: the labels, the cluster time, and its topologyVersion if its role is the
// reason.
func (d *Dispatcher) errorReply(op *Op, e *mongoerr.Error) bson.Doc {
	if !d.replicated() {
		return ErrorReply(e)
	}
	b := new(bson.Builder).Reset(make([]byte, 0, errorSize))
	if stateChanges[e.Code] {
		d.AppendTopologyVersion(b)
	}
	labels := op.labels(e)
	if d.Member != nil && slices.Contains(labels, labelRetryableWrite) && op.lastWrite().Index == 0 {
		labels = append(labels, labelNoWritesPerformed)
	}
	if len(labels) > 0 {
		b.Strings("errorLabels", labels...)
	}
	b.Double("ok", 0)
	AppendError(b, e)
	op.appendUnmet(b)
	d.appendTimes(op, b)
	return b.Finish()
}

// errorSize is the initial capacity of an error reply.
const errorSize = 256

// ErrorReply is the whole reply for an error: {ok: 0, errmsg, code, codeName}
// and whatever else the error carries.
func ErrorReply(e *mongoerr.Error) bson.Doc {
	b := new(bson.Builder).Reset(make([]byte, 0, errorSize))
	if len(e.Labels) > 0 {
		b.Strings("errorLabels", e.Labels...)
	}
	b.Double("ok", 0)
	AppendError(b, e)
	return b.Finish()
}

// AppendError writes errmsg, code, codeName and what else the error carries, as
// in replies, writeErrors' elements have their own shape.
func AppendError(b *bson.Builder, e *mongoerr.Error) {
	b.String("errmsg", e.Message).Int32("code", int32(e.Code)).String("codeName", e.Code.String())
	if e.Extra != nil {
		b.Fields(bson.Doc(e.Extra))
	}
	if e.Info != nil {
		b.Doc("errInfo", bson.Doc(e.Info))
	}
}
