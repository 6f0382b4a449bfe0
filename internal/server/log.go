package server

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/config"
)

// LevelFatal is the level of a line after which the process ends.
const LevelFatal = slog.Level(12)

// Log is the server's log: lines in MongoDB's JSON shape, to standard output
// or a file, and the last of them in memory for getLog.
type Log struct {
	Verbosity *Verbosity

	out      *logOutput
	global   *logRing
	warnings *logRing
	utc      bool
	quiet    atomic.Bool
}

// OpenLog opens the log that the options ask for.
func OpenLog(o config.Log) (*Log, error) {
	out, err := openOutput(o)
	if err != nil {
		return nil, err
	}
	return newLog(o, out), nil
}

// LogTo is OpenLog to a writer, which gets whole lines, one at a time.
func LogTo(w io.Writer, o config.Log) *Log {
	out := &logOutput{}
	out.mu.w = w
	return newLog(o, out)
}

func newLog(o config.Log, out *logOutput) *Log {
	l := &Log{
		Verbosity: newVerbosity(), out: out, global: newRing(), warnings: newRing(),
		utc: o.TimeStampFormat == "iso8601-utc",
	}
	l.quiet.Store(o.Quiet)
	l.Verbosity.Set("", o.Verbosity)
	for path, n := range o.ComponentVerbosity {
		l.Verbosity.Set(path, n)
	}
	return l
}

// Logger is the way to write to the log, for the component with the tag c.
func (l *Log) Logger(c string) *slog.Logger { return slog.New(&handler{log: l}).With("c", c) }

// Lines returns the last lines of "global" or "startupWarnings" and how many
// there were since start; false for another name.
func (l *Log) Lines(name string) (lines []string, total int64, ok bool) {
	switch name {
	case "global":
		lines, total = l.global.lines()
	case "startupWarnings":
		lines, total = l.warnings.lines()
	default:
		return nil, 0, false
	}
	return lines, total, true
}

// Names are the names that Lines takes.
func (l *Log) Names() []string { return []string{"global", "startupWarnings"} }

// Quiet reports whether lines about connections are left out.
func (l *Log) Quiet() bool { return l.quiet.Load() }

// Rotate begins a new file: see config.Log.Rotate.
func (l *Log) Rotate() error {
	log := l.Logger("CONTROL")
	if err := l.out.Rotate(); err != nil {
		log.Error("Log rotation failed", "id", logRotateFailed, "error", err)
		return err
	}
	log.Info("Log rotated", "id", logRotated)
	return nil
}

// Close ends the log; lines written afterwards are lost.
func (l *Log) Close() error { return l.out.Close() }

type contextName struct{}

// withContext names the thread of control in log lines: "conn12".
func withContext(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, contextName{}, name)
}

// handler is the slog.Handler; With and WithGroup make changed copies.
type handler struct {
	log  *Log
	head lineHead
	// attr is the JSON of the attributes given by With, and open how many groups
	// are not closed in it.
	attr []byte
	open int
}

// lineHead has the fields of a line other than its message and attributes.
type lineHead struct {
	component string
	context   string
	id        int64
	tags      []string
}

// Enabled reports whether any component logs at that level: which one it is
// stands in the record.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	if level >= slog.LevelInfo {
		return true
	}
	return debugLevel(level) <= h.log.Verbosity.highest()
}

// debugLevel returns the n of Dn for a level below Info.
func debugLevel(level slog.Level) int { return 1 + max(0, int(slog.LevelDebug-level)) }

// Handle writes one line.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	head := h.head
	b := takeLine()
	defer b.release()
	b.attr = append(b.attr, h.attr...)
	r.Attrs(func(a slog.Attr) bool {
		if h.open > 0 || !head.take(a) {
			b.attr = appendAttr(b.attr, a)
		}
		return true
	})
	for range h.open {
		b.attr = append(b.attr, '}')
	}
	if r.Level < slog.LevelInfo && debugLevel(r.Level) > h.log.Verbosity.of(head.component) {
		return nil
	}
	if head.context == "" {
		head.context, _ = ctx.Value(contextName{}).(string)
	}
	b.line = appendLine(b.line, r, &head, b.attr, h.log.utc)
	h.log.global.add(b.line)
	if slices.Contains(head.tags, tagStartupWarning) {
		h.log.warnings.add(b.line)
	}
	return h.log.out.Write(append(b.line, '\n'))
}

const tagStartupWarning = "startupWarnings"

// WithAttrs returns a handler that adds attrs to every line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attr = slices.Clone(h.attr)
	for _, a := range attrs {
		if c.open > 0 || !c.head.take(a) {
			c.attr = appendAttr(c.attr, a)
		}
	}
	return &c
}

// WithGroup returns a handler that puts further attributes into an object.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.attr = append(appendName(slices.Clone(h.attr), name), '{')
	c.open++
	return &c
}

// take stores an attribute that is a field of the line itself, not of its attr.
func (h *lineHead) take(a slog.Attr) bool {
	v := a.Value.Resolve()
	switch {
	case a.Key == "c" && v.Kind() == slog.KindString:
		h.component = v.String()
	case a.Key == "ctx" && v.Kind() == slog.KindString:
		h.context = v.String()
	case a.Key == "id" && v.Kind() == slog.KindInt64:
		h.id = v.Int64()
	case a.Key == "tags":
		tags, ok := v.Any().([]string)
		if !ok {
			return false
		}
		h.tags = tags
	default:
		return false
	}
	return true
}
