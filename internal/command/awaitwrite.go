package command

import (
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/waits"
)

var errWriteTimeout = mongoerr.New(mongoerr.WriteConcernFailed, "waiting for replication timed out")

// awaitWrite waits until the members of op's write concern have applied its writes or,
// if there were none, all that it may have read. A failure becomes the reply's
// writeConcernError: the write itself is done.
//
// What is applied here is on the disks of a majority already, so only stronger write
// concerns wait.
func (d *Dispatcher) awaitWrite(ctx context.Context, op *Op) {
	wc := &op.WriteConcern
	if wc.Mode == repl.Majority || wc.Mode == "" && wc.Tags == nil && wc.W <= 1 || op.DB == localDB {
		return
	}
	at := op.lastWrite()
	if at.Index == 0 {
		at = d.Member.Shown()
	}
	if wc.WTimeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, time.Duration(wc.WTimeout)*time.Millisecond, errWriteTimeout)
		defer stop()
	}
	op.waits().Begin(waits.Majority)
	err := d.Member.WaitConcern(ctx, at, repl.Concern{N: wc.W, Mode: wc.modeName(), Tags: wc.Tags})
	op.waits().End(waits.Majority)
	if err == nil {
		return
	}
	if cause := interruption(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = cause
	}
	e := mongoerr.From(err)
	info := new(bson.Builder)
	if e == errWriteTimeout {
		info.Bool("wtimeout", true)
	}
	op.unmet = e.WithInfo(info.Doc("writeConcern", wc.document()).Finish())
}

// appendUnmet writes writeConcernError if op's write concern was not met.
func (op *Op) appendUnmet(b *bson.Builder) {
	if e := op.unmet; e != nil {
		b.OpenDoc("writeConcernError").Int32("code", int32(e.Code)).String("codeName", e.Code.String()).
			String("errmsg", e.Message).Doc("errInfo", e.Info).Close()
	}
}

// document returns the write concern as errors show it.
func (w *WriteConcern) document() bson.Doc {
	return w.builder().String("provenance", w.Provenance).Finish()
}

// Document returns the write concern with what it leaves out.
func (w *WriteConcern) Document() bson.Doc { return w.builder().Finish() }

func (w *WriteConcern) builder() *bson.Builder {
	var b bson.Builder
	switch {
	case w.Tags != nil:
		b.OpenDoc("w")
		for _, t := range w.Tags {
			b.Int32(t.Key, int32(t.Count))
		}
		b.Close()
	case w.Mode != "":
		b.String("w", w.modeName())
	default:
		b.Int32("w", int32(w.W))
	}
	if w.hasJournal {
		b.Bool("j", w.Journal)
	}
	return b.Int32("wtimeout", int32(w.WTimeout))
}
