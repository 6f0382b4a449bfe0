package repl

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Window is how much of its log a member keeps, for others to catch up from.
type Window struct {
	// Bytes is how large the log may become.
	Bytes uint64
	// Retention is how long entries stay, whatever the size. Where it is Soft it gives way to
	// the size, and the member says so (docs/rfcs/0020-oplog.md).
	Retention time.Duration
	Soft      bool
}

// kept is how long entries stay, whatever the size.
func (w *Window) kept() time.Duration {
	if w.Soft {
		return 0
	}
	return w.Retention
}

// short reports whether a log whose last truncated entry has a time has less than the
// Retention of w, which gives way.
func (w *Window) short(truncated Timestamp, now time.Time) bool {
	return w.Soft && int64(truncated.Seconds()) > now.Add(-w.Retention).Unix()
}

// The bounds of the default size of a log, MongoDB's: a share of the free disk.
const (
	windowShare    = 20
	minWindowBytes = 990 << 20
	maxWindowBytes = 50 << 30
)

// DefaultWindow returns the default window of a log in a directory, from the size of
// its disk.
func DefaultWindow(fs storage.FS, dir string) Window {
	w := Window{Bytes: minWindowBytes}
	if u, err := fs.GetDiskUsage(dir); err == nil {
		w.Bytes = min(max(u.AvailBytes/windowShare, minWindowBytes), maxWindowBytes)
	}
	return w
}

// trimShare is the share of its size by which a log may exceed its window before it
// is truncated, so that one large range is removed instead of many small ones.
const trimShare = 16

// trimTicks is how many of the group's ticks lie between two checks of a log that
// is too large: where entries are too young to be removed, each check is a search.
const trimTicks = electionTicks

// SetWindow sets how much of the log is kept.
func (m *Replica) SetWindow(w Window) { m.window.Store(&w) }

// Retain makes the member keep entries at least as long as d, in addition to its window:
// somebody else than the set needs them.
func (m *Member) Retain(d time.Duration) { m.replica.retain.Store(int64(d)) }

// trim truncates the log where it has grown beyond its window, and never past what is
// applied durably (invariant kept-log). A member that lacks truncated entries gets a
// snapshot.
func (m *Replica) trim() error {
	w := m.window.Load()
	if w == nil {
		return nil
	}
	if err := m.foresee(w); err != nil {
		return err
	}
	if m.store.Bytes() <= w.Bytes+w.Bytes/trimShare || m.g.ticks-m.trimmed < trimTicks {
		return nil
	}
	m.trimmed = m.g.ticks
	if m.sending > 0 && m.store.engine.Spare(int64(w.Bytes)) {
		return nil // who receives a snapshot will need what has been written since
	}
	index, err := m.store.Excess(w.Bytes, m.keptSince(w, 0))
	if err != nil || index <= m.store.Base().Index {
		return err
	}
	upTo, err := position(m.store, index)
	if err != nil {
		return err
	}
	if m.truncates != nil {
		m.truncates(upTo)
	}
	m.noteShort(w, upTo.Time)
	m.truncations.Add(1)
	return m.g.Truncate(index)
}

// noteShort logs that the log will have less than its retention, once it is so: its entries
// up to a time are about to go.
func (m *Replica) noteShort(w *Window, upTo Timestamp) {
	now := m.g.Clock.wall()
	was := m.short
	if m.short = w.short(upTo, now); m.short && !was {
		m.log.Warn("replication: the log is full before it has as much history as it should, and older entries go: change streams and members that were away can go on from later than that only. Raise oplogSizeMB, or set oplogMinRetentionHours for the size to give way",
			"hours", now.Sub(time.Unix(int64(upTo.Seconds()), 0)).Hours(), "oplogMinRetentionHours", w.Retention.Hours(), "oplogSizeMB", w.Bytes>>20)
	}
}

// keptSince returns since when all entries stay, when some time has passed.
func (m *Replica) keptSince(w *Window, ahead time.Duration) Timestamp {
	retention := max(w.kept(), time.Duration(m.retain.Load()))
	if retention == 0 {
		return Timestamp(1<<64 - 1)
	}
	return Timestamp(max(0, m.g.Clock.wall().Add(ahead-retention).Unix())) << 32
}

const (
	// nearShare is the share of a window in which the entries lie that are told of as those
	// that go next.
	nearShare = 8
	// nearTicks is how many ticks lie between two looks at them.
	nearTicks = electionTicks
)

// foresee tells which entries go next, if the log is about to be truncated: those that
// would go if it had grown by a nearShare, and were that much older.
func (m *Replica) foresee(w *Window) error {
	bytes := w.Bytes - w.Bytes/nearShare
	if m.nears == nil || m.store.Bytes() <= bytes || m.g.ticks-m.foreseen < nearTicks {
		return nil
	}
	m.foreseen = m.g.ticks
	index, err := m.store.Excess(bytes, m.keptSince(w, w.kept()/nearShare))
	if err != nil || index <= m.store.Base().Index {
		return err
	}
	upTo, err := position(m.store, index)
	if err == nil {
		m.nears(upTo)
	}
	return err
}

// The window that SetWindow has stored, in the database that each member has of its own:
// {_id: "window", size: bytes, minRetentionHours: n}, without hours where those of the options
// count.
var (
	windowNamespace = schema.Namespace{DB: "local", Coll: "replset.oplogWindow"}
	windowID        = bson.String("window")
)

// The bounds of a window that can be set.
const (
	MinWindowBytes = minWindowBytes
	MaxWindowBytes = 1 << 50
)

// SetWindow sets how much of its log the member keeps, also when it is opened again.
func (m *Member) SetWindow(ctx context.Context, w Window) error {
	ctx, leave, err := m.door.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	b := new(bson.Builder).Value("_id", windowID).Int64("size", int64(w.Bytes))
	if !w.Soft {
		b.Double("minRetentionHours", w.Retention.Hours())
	}
	if err := replaceOnly(ctx, m.catalog, windowNamespace, b.Finish(), storage.Journaled); err != nil {
		return err
	}
	m.replica.SetWindow(w)
	return m.catalog.ShowOplog()
}

// Window returns how much of its log the member keeps.
func (m *Member) Window() Window { return *m.replica.window.Load() }

// History says how far back the member's log reaches.
type History struct {
	// Seconds are from the last entry that was truncated to the newest one; Truncated is false
	// where none was, and all is there since the set was founded.
	Seconds   int64
	Truncated bool
	// Short says that it is less than the retention of the window, which is Soft.
	Short       bool
	Truncations int64 // since the start
}

// History returns how far back the log reaches.
func (m *Member) History() History {
	s, w := m.replica.State(), m.Window()
	h := History{Truncations: m.replica.truncations.Load(), Truncated: s.truncated()}
	if h.Truncated {
		h.Seconds = max(0, int64(s.Applied.Time.Seconds())-int64(s.Base.Time.Seconds()))
		h.Short = w.short(s.Base.Time, m.o.Wall())
	}
	return h
}

// AppendTruncation writes serverStatus().oplogTruncation.
func (m *Member) AppendTruncation(b *bson.Builder) {
	h := m.History()
	b.Double("oplogMinRetentionHours", m.Window().Retention.Hours()).Int64("truncateCount", h.Truncations)
	if h.Truncated {
		b.Int64("historySecs", h.Seconds)
	}
	b.Bool("shorterThanRetention", h.Short)
}

// storedWindow returns the window that SetWindow has stored, or w if there is none.
// Clients can write in its database: what cannot be is left out.
func (m *Member) storedWindow(w Window) (Window, error) {
	doc, err := m.catalog.Kept(windowNamespace, windowID)
	if err != nil || doc == nil {
		return w, err
	}
	size, ok := bson.ExactInt64(doc.Lookup("size"))
	hours := doc.Lookup("minRetentionHours")
	given := !hours.IsMissing()
	if !ok || size < MinWindowBytes || size > MaxWindowBytes || given && !(hours.IsNumber() && bson.ToDouble(hours) >= 0 && bson.ToDouble(hours) <= MaxRetentionHours) {
		m.o.Log.Warn("replication: the window of the log that was stored cannot be, and the options count", "window", doc.String())
		return w, nil
	}
	if w.Bytes = uint64(size); given {
		w.Retention, w.Soft = Hours(bson.ToDouble(hours)), false
	}
	return w, nil
}

// MaxRetentionHours bounds how long entries may have to stay: a time that a Duration
// can hold.
const MaxRetentionHours = 1 << 20

// Hours is a number of hours.
func Hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }
