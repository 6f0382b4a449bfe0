package audit

import (
	"log/slog"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Output is where events go: a file, or the system's log.
type Output interface {
	// Write writes one event, or nothing of it.
	Write(event []byte) error
	// Rotate starts a new file, where there are files.
	Rotate() error
	Close() error
}

// Options are what a Log works with.
type Options struct {
	Output Output
	// BSON has events written as documents, and not as lines of JSON.
	BSON bool
	// Filter is the text of a query that events must match, "" for all of them.
	Filter string
	Log    *slog.Logger
}

// Log is an audit log. Make one with New.
type Log struct {
	out       Output
	bson      bool
	filter    *match.Filter // nil for none
	log       *slog.Logger
	successes *command.BoolParam // nil before Register

	mu struct {
		sync.Mutex
		failed error     // why the last write failed; nil while all is well
		since  time.Time // since when
		// unwritten are events of what has happened and could not be written, the oldest
		// first: of commands that ran when the log failed, and of those that are never
		// refused. bytes is their size.
		unwritten [][]byte
		bytes     int
		// sums are events of the server itself, those of one kind added together: it goes on
		// while the log fails.
		sums map[string]*event
		lost int64 // events for which there was no room here
	}
}

// Bounds of what is kept while the log cannot be written.
const (
	maxUnwritten = 16 << 20 // bytes
	maxSums      = 10_000
)

// New makes a Log. Errors: those of the filter.
func New(o Options) (*Log, error) {
	l := &Log{out: o.Output, bson: o.BSON, log: o.Log}
	if o.Filter == "" {
		return l, nil
	}
	d, err := bson.ParseJSON(o.Filter)
	if err != nil {
		return nil, err
	}
	l.filter, err = match.Parse(d, &match.Options{Forbid: match.AllFeatures &^ match.FeatureExpr})
	return l, err
}

// Register registers the log's parameter.
func (l *Log) Register(p *command.Params) {
	l.successes = p.Bool(command.BoolSpec{Name: "auditAuthorizationSuccess"})
}

// The ids of the server's lines about the audit log.
const (
	logFailed    = 9000611
	logRecovered = 9000612
)

// Tell writes an event that nobody waits for: a login. Error: 14031, and then the event is not
// kept: what it tells of must not happen, or be told again. (command.Auditor)
func (l *Log) Tell(c *command.Client, atype string, param bson.Doc, result mongoerr.Code) error {
	e := newEvent(atype, param, result)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	text, wanted := l.encode((*buffer)[:0], c, e)
	if cap(text) <= maxBuffer {
		*buffer = text
	}
	if !wanted {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeLocked(text)
}

// maxBuffer bounds the memory for an event that is kept for the next one, in bytes.
const maxBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// remedies are run on a full disk, too: they are what helps.
var remedies = map[string]bool{"shutdown": true, "logRotate": true}

// Ready returns error 14031 where op is to be audited, and the log cannot be written.
// (command.Auditor)
func (l *Log) Ready(op *command.Op) error {
	if !isAudited(op) {
		return nil
	}
	return l.Writable()
}

// isAudited reports whether op is not to run while the log cannot be written.
func isAudited(op *command.Op) bool {
	if atype, _, ok := op.IntentEvent(); ok {
		return atype != ""
	}
	name := op.Command.Name
	return (events[name] != nil || logins[name]) && !remedies[name]
}

// Writable returns error 14031 where the last write failed, and another one fails now.
// (command.Auditor)
func (l *Log) Writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recoverLocked()
}

// Checked writes whether op's client may run it: by default only where it may not. Error:
// 14031. (command.Auditor)
func (l *Log) Checked(op *command.Op, err error) error {
	switch {
	case err == nil && (l.successes == nil || !l.successes.Load()):
		return nil
	case err != nil && !mongoerr.Is(err, mongoerr.Unauthorized):
		return nil
	}
	param := new(bson.Builder).String("command", op.Command.Name).String("ns", op.NS).Doc("args", op.ShownCommand()).Finish()
	if err == nil && remedies[op.Command.Name] {
		l.keep(op.Client, "authCheck", param, 0)
		return nil
	}
	return l.Tell(op.Client, "authCheck", param, codeOf(err))
}

// Done writes the events of op, which has ended with err. Where they cannot be written, they
// are kept until they can. (command.Auditor)
func (l *Log) Done(op *command.Op, err error) {
	for _, e := range eventsOf(op) {
		result := e.result
		if err != nil {
			result = codeOf(err)
		}
		l.keep(op.Client, e.atype, e.param, result)
	}
}

// eventsOf are the events of op, which has ended.
func eventsOf(op *command.Op) []event {
	if atype, details, ok := op.IntentEvent(); ok {
		if atype == "" {
			return nil
		}
		param, answered := details()
		return []event{{atype: atype, param: param, result: answered}}
	}
	if of := events[op.Command.Name]; of != nil {
		return of(op)
	}
	return nil
}

// Keep is Tell of what has happened already: the event is kept where it cannot be written.
// (command.Auditor)
func (l *Log) Keep(c *command.Client, atype string, param bson.Doc) { l.keep(c, atype, param, 0) }

func (l *Log) keep(c *command.Client, atype string, param bson.Doc, result mongoerr.Code) {
	e := newEvent(atype, param, result)
	text, wanted := l.encode(nil, c, e)
	if !wanted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.writeLocked(text) == nil:
	case c == nil:
		l.addLocked(e)
	case l.mu.bytes+len(text) > maxUnwritten:
		l.mu.lost++
	default:
		l.mu.unwritten = append(l.mu.unwritten, text)
		l.mu.bytes += len(text)
	}
}

// addLocked keeps an event of the server itself: its counts are added to those of the one that
// is like it otherwise.
func (l *Log) addLocked(e *event) {
	key := e.kind()
	was := l.mu.sums[key]
	switch {
	case was != nil:
		e.add(was.param)
	case len(l.mu.sums) == maxSums:
		l.mu.lost++
		return
	case l.mu.sums == nil:
		l.mu.sums = make(map[string]*event)
	}
	l.mu.sums[key] = e
}

// codeOf is the result of an event.
func codeOf(err error) mongoerr.Code {
	if err == nil {
		return 0
	}
	return mongoerr.From(err).Code
}

// encode appends an event as it is written, and reports whether the filter wants it. A filter that
// cannot be evaluated wants it.
func (l *Log) encode(dst []byte, c *command.Client, e *event) (text []byte, wanted bool) {
	if l.filter != nil {
		if ok, err := l.filter.Match(e.document(c)); err == nil && !ok {
			return dst, false
		}
	}
	return l.appendText(dst, c, e), true
}

// appendText appends an event as it is written.
func (l *Log) appendText(dst []byte, c *command.Client, e *event) []byte {
	if l.bson {
		return append(dst, e.document(c)...)
	}
	return e.appendLine(dst, c)
}

// recoverLocked writes, where the last write failed, what was kept, and then that there was a
// gap, whatever the filter: so that the log is known to be written again before what it would
// tell of begins. Error: 14031.
func (l *Log) recoverLocked() error {
	if l.mu.failed == nil {
		return nil
	}
	if err := l.writeKeptLocked(); err != nil {
		l.mu.failed = err
		return l.refusalLocked()
	}
	l.log.Info("The audit log is written again", "id", logRecovered, "since", l.mu.since, "lost", l.mu.lost)
	l.mu.failed, l.mu.unwritten, l.mu.sums, l.mu.lost = nil, nil, nil, 0
	return nil
}

func (l *Log) writeKeptLocked() error {
	for len(l.mu.unwritten) > 0 {
		if err := l.out.Write(l.mu.unwritten[0]); err != nil {
			return err
		}
		l.mu.bytes -= len(l.mu.unwritten[0])
		l.mu.unwritten = l.mu.unwritten[1:]
	}
	for kind, e := range l.mu.sums {
		if err := l.out.Write(l.appendText(nil, nil, e)); err != nil {
			return err
		}
		delete(l.mu.sums, kind)
	}
	gap := new(bson.Builder).Date("since", l.mu.since.UnixMilli()).Int64("lost", l.mu.lost).Finish()
	return l.out.Write(l.appendText(nil, nil, newEvent("auditGap", gap, 0)))
}

// writeLocked writes an event, after what was kept. Error: 14031.
func (l *Log) writeLocked(event []byte) error {
	if err := l.recoverLocked(); err != nil {
		return err
	}
	err := l.out.Write(event)
	if err == nil {
		return nil
	}
	l.mu.failed, l.mu.since = err, time.Now()
	l.log.Error("The audit log cannot be written. What is to be audited is refused", "id", logFailed, "error", err)
	return l.refusalLocked()
}

func (l *Log) refusalLocked() error {
	return mongoerr.New(mongoerr.OutOfDiskSpace, "The audit log cannot be written: %v", l.mu.failed)
}

// Rotate starts a new file.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Rotate()
}

// Close ends the log. Events that could not be written are lost: the server's log has them.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recoverLocked() != nil {
		for _, e := range l.mu.sums {
			l.mu.unwritten = append(l.mu.unwritten, l.appendText(nil, nil, e))
		}
		for _, e := range l.mu.unwritten {
			l.log.Error("An audit event was not written", "id", logFailed, "event", string(e))
		}
	}
	return l.out.Close()
}
