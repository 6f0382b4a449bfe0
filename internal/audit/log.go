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
		// unwritten are events of what has happened and could not be written, the oldest
		// first. They are of commands that ran when the log failed: no more begin while
		// there is one.
		unwritten [][]byte
		failed    error // why; nil while all is well
	}
}

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
	logFailed    = 9000601
	logRecovered = 9000602
)

// Tell writes an event that nobody waits for: a login, what expired. Error: 14031, and then
// the event is not kept: what it tells of must not happen, or be told again. (command.Auditor)
func (l *Log) Tell(c *command.Client, atype string, param bson.Doc, result mongoerr.Code) error {
	event, matches := l.event(c, atype, param, result)
	if !matches {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	return l.writeLocked(event)
}

// Ready returns error 14031 where op is to be audited, and the log cannot be written.
// (command.Auditor)
func (l *Log) Ready(op *command.Op) error {
	if events[op.Command.Name] == nil && !logins[op.Command.Name] {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushLocked()
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
	return l.Tell(op.Client, "authCheck", param, codeOf(err))
}

// Done writes the events of op, which has ended with err. Where they cannot be written, they
// are kept until they can. (command.Auditor)
func (l *Log) Done(op *command.Op, err error) {
	of := events[op.Command.Name]
	if of == nil {
		return
	}
	for _, e := range of(op) {
		l.keep(op.Client, e.atype, e.param, codeOf(err))
	}
}

// Keep is Tell of what has happened already: the event is kept where it cannot be written.
// (command.Auditor)
func (l *Log) Keep(c *command.Client, atype string, param bson.Doc) { l.keep(c, atype, param, 0) }

func (l *Log) keep(c *command.Client, atype string, param bson.Doc, result mongoerr.Code) {
	event, matches := l.event(c, atype, param, result)
	if !matches {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flushLocked()
	if err == nil {
		err = l.writeLocked(event)
	}
	if err != nil {
		l.mu.unwritten = append(l.mu.unwritten, event)
	}
}

// codeOf is the result of an event.
func codeOf(err error) mongoerr.Code {
	if err == nil {
		return 0
	}
	return mongoerr.From(err).Code
}

// event makes an event, and reports whether the filter wants it. A filter that cannot be
// evaluated wants it.
func (l *Log) event(c *command.Client, atype string, param bson.Doc, result mongoerr.Code) (text []byte, matches bool) {
	e := event{atype: atype, param: param, result: result, at: time.Now()}
	doc := e.document(c)
	if l.filter != nil {
		if ok, err := l.filter.Match(doc); err == nil && !ok {
			return nil, false
		}
	}
	if l.bson {
		return doc, true
	}
	return append(shown(doc).AppendJSON(nil, bson.RelaxedJSON), '\n'), true
}

// flushLocked writes what was kept.
func (l *Log) flushLocked() error {
	for len(l.mu.unwritten) > 0 {
		if err := l.writeLocked(l.mu.unwritten[0]); err != nil {
			return err
		}
		l.mu.unwritten = l.mu.unwritten[1:]
	}
	return nil
}

// writeLocked writes an event. Error: 14031.
func (l *Log) writeLocked(event []byte) error {
	was := l.mu.failed
	l.mu.failed = l.out.Write(event)
	switch now := l.mu.failed; {
	case now != nil && was == nil:
		l.log.Error("The audit log cannot be written. What is to be audited is refused", "id", logFailed, "error", now)
	case now == nil && was != nil:
		l.log.Info("The audit log is written again", "id", logRecovered)
	}
	if l.mu.failed != nil {
		return mongoerr.New(mongoerr.OutOfDiskSpace, "The audit log cannot be written: %v", l.mu.failed)
	}
	return nil
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
	if l.flushLocked() != nil {
		for _, e := range l.mu.unwritten {
			l.log.Error("An audit event was not written", "id", logFailed, "event", string(e))
		}
	}
	return l.out.Close()
}
