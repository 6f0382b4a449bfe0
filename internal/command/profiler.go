package command

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/waits"
)

// ProfileSettings are what the command profile sets for a database.
type ProfileSettings struct {
	// Level is 0 for off, 1 for slow operations, 2 for all.
	Level int
	// Filter decides in place of slowms and sampleRate; nil for none.
	Filter func(entry bson.Doc) bool
	// FilterSource is the filter as the client gave it.
	FilterSource bson.Doc
}

// Profiler decides which operations are logged as slow and which get an entry
// in system.profile. Level and filter belong to a database, slowms and
// sampleRate to the server.
type Profiler struct {
	slowMillis atomic.Int64
	sample     DoubleParam
	// Sink writes an entry into db's system.profile; nil if there is none. It is
	// called on the operation's goroutine, after the reply is complete.
	Sink func(ctx context.Context, db string, entry bson.Doc) error

	mu      sync.Mutex // held while current is replaced
	current atomic.Pointer[map[string]ProfileSettings]
}

const defaultSlowMillis = 100

// NewProfiler makes a Profiler that is off, with slowms 100 and sampleRate 1.
func NewProfiler() *Profiler {
	p := &Profiler{}
	p.SetSlow(defaultSlowMillis, 1)
	p.current.Store(&map[string]ProfileSettings{})
	return p
}

// SlowMillis is the threshold above which an operation is slow.
func (p *Profiler) SlowMillis() int64 { return p.slowMillis.Load() }

// SampleRate is the share of slow operations that are logged and profiled.
func (p *Profiler) SampleRate() float64 { return p.sample.Load() }

// SetSlow sets slowms and sampleRate.
func (p *Profiler) SetSlow(millis int64, rate float64) {
	p.slowMillis.Store(millis)
	p.sample.store(rate)
}

// Settings returns the settings of a database, those of "" if it has none.
func (p *Profiler) Settings(db string) ProfileSettings {
	all := *p.current.Load()
	if s, ok := all[db]; ok {
		return s
	}
	return all[""]
}

// SetSettings changes the settings of a database, or of all that have none of
// their own where db is "" (the option --profile).
func (p *Profiler) SetSettings(db string, s ProfileSettings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]ProfileSettings{}
	for k, v := range *p.current.Load() {
		next[k] = v
	}
	next[db] = s
	p.current.Store(&next)
}

// noted has what note needs in addition to the Op.
type noted struct {
	took  time.Duration
	waits waits.Totals
	reply int
	err   error
}

// verdict is whether an ended operation is logged and profiled.
type verdict struct {
	log, profile bool
	entry        bson.Doc // its profile entry, if it is made already
}

// concerned reports whether an operation on the database with this duration may have to
// be logged or profiled.
func (p *Profiler) concerned(db string, took time.Duration) bool {
	s := p.Settings(db)
	return took.Milliseconds() >= p.SlowMillis() || s.Level > 0 || s.Filter != nil
}

// judge decides whether an operation, which may have to be, is logged as slow, and whether it is
// profiled.
func (p *Profiler) judge(op *Op, n noted) verdict {
	s := p.Settings(op.DB)
	slow := n.took.Milliseconds() >= p.SlowMillis()
	if op.Command.Flags&Quiet != 0 && s.Level < 2 {
		return verdict{}
	}
	v := verdict{log: slow && p.sampled(), profile: s.Level == 2}
	if s.Filter != nil {
		v.entry = op.profileEntry(n)
		v.log = s.Filter(v.entry)
		v.profile = s.Level > 0 && v.log
	} else if s.Level == 1 {
		v.profile = v.log
	}
	return v
}

// note logs the operation if it was slow, and profiles it by the settings of its database.
func (d *Dispatcher) note(ctx context.Context, op *Op, n noted) {
	if !d.Profiler.concerned(op.DB, n.took) {
		return
	}
	if op.statement == nil {
		n.waits = op.waits().Totals()
	}
	v := d.Profiler.judge(op, n)
	if v.log {
		d.logSlow(ctx, op, n)
	}
	if v.profile && !op.statements && op.Command.Flags&Unprofiled == 0 {
		d.profile(ctx, op, n, v.entry)
	}
}

// profile writes the operation's entry to its database's profile. It makes the entry if
// that is nil.
func (d *Dispatcher) profile(ctx context.Context, op *Op, n noted, entry bson.Doc) {
	p := d.Profiler
	if p.Sink == nil {
		return
	}
	if entry == nil {
		entry = op.profileEntry(n)
	}
	if err := p.Sink(ctx, op.DB, entry); err != nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "Caught Assertion while trying to profile operation", slog.String("c", "COMMAND"),
			slog.Int("id", logProfileFail), slog.String("ns", op.NS), slog.String("error", err.Error()))
	}
}

func (p *Profiler) sampled() bool {
	rate := p.SampleRate()
	return rate >= 1 || rand.Float64() < rate
}

// maxProfiledCommand is how many bytes of a command a profile entry shows.
const maxProfiledCommand = 50 << 10

// profileEntry makes the document for system.profile.
func (op *Op) profileEntry(n noted) bson.Doc {
	s := &op.Stats
	b := new(bson.Builder).Reset(make([]byte, 0, 1024))
	b.String("op", op.Kind().String()).String("ns", op.NS).Doc("command", op.shortCommand(maxProfiledCommand))
	if s.OriginatingCommand != nil {
		b.Doc("originatingCommand", s.OriginatingCommand)
	}
	if s.CursorID != 0 {
		b.Int64("cursorid", s.CursorID)
	}
	if op.ExhaustAllowed {
		b.Bool("exhaust", true)
	}
	op.appendCounters(b)
	b.Int("numYield", op.active.yields.Load())
	if s.IsQuery && op.statement == nil {
		b.Int("nreturned", s.NReturned)
	}
	if s.QueryHash != "" {
		b.String("planCacheShapeHash", s.QueryHash).String("queryHash", s.QueryHash)
	}
	if s.PlanCacheKey != "" {
		b.String("planCacheKey", s.PlanCacheKey)
	}
	if op.PlanSummary() != "" {
		b.String("queryFramework", "classic")
	}
	b.OpenDoc("locks").Close().OpenDoc("flowControl").Close().OpenDoc("storage").Close()
	if n.err != nil {
		e := mongoerr.From(n.err)
		b.Double("ok", 0).String("errMsg", e.Message).String("errName", e.Code.String()).Int32("errCode", int32(e.Code))
	}
	b.Int("responseLength", int64(n.reply)).String("protocol", op.Client.protocol()).Int64("cpuNanos", 0)
	n.appendWaits(b)
	b.Int("workingMillis", n.working()).Int("millis", n.took.Milliseconds())
	if plan := op.PlanSummary(); plan != "" {
		b.String("planSummary", plan)
	}
	if s.ExecStats != nil {
		b.Doc("execStats", s.ExecStats.ExecStats())
	}
	b.Date("ts", time.Now().UnixMilli())
	if host := op.Client.RemoteHost(); host != "" {
		b.String("client", host)
	}
	if app := op.Client.AppName(); app != "" {
		b.String("appName", app)
	}
	if op.Client.Internal {
		b.String("desc", op.Client.Desc)
	}
	op.Client.writeUsers(b, "allUsers")
	user := ""
	if p := op.Client.Principal(); p != nil {
		user = p.User.Name.String()
	}
	return b.String("user", user).Finish()
}

// appendCounters writes the counters of the operation.
func (op *Op) appendCounters(b *bson.Builder) {
	s := &op.Stats
	if s.IsQuery {
		b.Int("keysExamined", s.KeysExamined).Int("docsExamined", s.DocsExamined)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"hasSortStage", s.HasSortStage}, {"usedDisk", s.UsedDisk}, {"fromMultiPlanner", s.FromMultiPlanner},
		{"fromPlanCache", s.FromPlanCache}, {"replanned", s.Replanned}, {"cursorExhausted", s.CursorExhausted},
	} {
		if f.set {
			b.Bool(f.name, true)
		}
	}
	kind := op.Kind()
	for _, f := range []struct {
		name   string
		n      int64
		always bool
	}{
		{"nMatched", s.NMatched, kind == KindUpdate}, {"nModified", s.NModified, kind == KindUpdate},
		{"nUpserted", s.NUpserted, kind == KindUpdate}, {"ninserted", s.NInserted, kind == KindInsert},
		{"ndeleted", s.NDeleted, kind == KindRemove}, {"keysInserted", s.KeysInserted, false},
		{"keysDeleted", s.KeysDeleted, false}, {"writeConflicts", s.WriteConflicts, false},
	} {
		if f.always || f.n > 0 {
			b.Int(f.name, f.n)
		}
	}
}

// appendWaits writes what the operation has waited for: by mongod's names what that has, and
// waits, in microseconds, by ours.
func (n *noted) appendWaits(b *bson.Builder) {
	if d := n.waits.Of(waits.Shards); d > 0 {
		b.Int("remoteOpWaitMillis", d.Milliseconds())
	}
	if d := n.waits.Of(waits.Majority); d > 0 {
		b.Int("waitForWriteConcernDurationMillis", d.Milliseconds())
	}
	if n.waits.All == 0 {
		return
	}
	b.OpenDoc("waits")
	for k, d := range n.waits.Each {
		b.Int(k.String(), d.Microseconds())
	}
	b.Close()
}

// working is how long the operation did not wait, in milliseconds.
func (n *noted) working() int64 { return max(0, n.took-n.waits.All).Milliseconds() }

// logSlow writes the line "Slow query".
func (d *Dispatcher) logSlow(ctx context.Context, op *Op, n noted) {
	s := &op.Stats
	attrs := []slog.Attr{
		slog.String("c", "COMMAND"), slog.Int("id", logSlowQuery), slog.String("type", op.Kind().String()),
		slog.Bool("isFromUserConnection", !op.Client.Internal), slog.String("ns", op.NS), slog.Any("command", op.loggedCommand()),
	}
	if app := op.Client.AppName(); app != "" {
		attrs = append(attrs, slog.String("appName", app))
	}
	if plan := op.PlanSummary(); plan != "" {
		attrs = append(attrs, slog.String("planSummary", d.loggedPlan(plan)))
	}
	attrs = appendAttrs(attrs, op.appendCounters)
	if s.IsQuery {
		attrs = append(attrs, slog.Int64("nreturned", s.NReturned))
	}
	if s.QueryHash != "" {
		attrs = append(attrs, slog.String("planCacheShapeHash", s.QueryHash), slog.String("queryHash", s.QueryHash))
	}
	if s.PlanCacheKey != "" {
		attrs = append(attrs, slog.String("planCacheKey", s.PlanCacheKey))
	}
	if op.PlanSummary() != "" {
		attrs = append(attrs, slog.String("queryFramework", "classic"))
	}
	if n.err != nil {
		e := mongoerr.From(n.err)
		attrs = append(attrs, slog.Int("ok", 0), slog.String("errMsg", d.loggedText(e.Message)),
			slog.String("errName", e.Code.String()), slog.Int("errCode", int(e.Code)))
	}
	attrs = append(attrs, slog.Int64("numYields", op.active.yields.Load()), slog.Int("reslen", n.reply),
		slog.String("remote", op.Client.Remote), slog.String("protocol", op.Client.protocol()))
	attrs = appendAttrs(attrs, n.appendWaits)
	attrs = append(attrs, slog.Int64("workingMillis", n.working()), slog.Int64("durationMillis", n.took.Milliseconds()))
	d.Log.LogAttrs(ctx, slog.LevelInfo, "Slow query", attrs...)
}

// appendAttrs appends the fields that a function writes.
func appendAttrs(attrs []slog.Attr, fill func(*bson.Builder)) []slog.Attr {
	var b bson.Builder
	fill(&b)
	for name, v := range b.Finish().All() {
		attrs = append(attrs, slog.Any(name, v))
	}
	return attrs
}

// Statement is one of several statements of a command, an element of updates or
// deletes, as the log and the profile show it.
type Statement struct {
	// Command is {q, u, multi, upsert}.
	Command bson.Doc
	Stats   Stats
	// PlanSummary is the plan that ran, or "".
	PlanSummary string
}

// NoteStatement logs and profiles a statement that began at start and ended
// with err or nil. The command itself is then not profiled. show fills what is
// shown; it is called only where something is.
func (op *Op) NoteStatement(ctx context.Context, kind OpKind, start time.Time, err error, show func(s *Statement)) {
	op.statements = true
	d, took := op.Dispatcher, time.Since(start)
	all := op.waits().Totals()
	waited := all.Since(&op.seen)
	op.seen = all
	if !d.Profiler.concerned(op.DB, took) {
		return
	}
	var s Statement
	show(&s)
	if comment := op.Generic.Comment; !comment.IsMissing() {
		s.Command = new(bson.Builder).Fields(s.Command).Value("comment", comment).Finish()
	}
	one := &Op{
		Client: op.Client, Dispatcher: d, Command: op.Command, Name: op.Name, DB: op.DB, NS: op.NS, Start: start,
		Stats: s.Stats, statement: &statement{kind: kind, command: s.Command},
	}
	if s.PlanSummary != "" {
		one.SetPlanSummary(s.PlanSummary)
	}
	d.note(ctx, one, noted{took: took, waits: waited, err: err})
}
