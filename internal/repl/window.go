package repl

import (
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
)

// Window is how much of its log a member keeps, for others to catch up from.
type Window struct {
	// Bytes is how large the log may become.
	Bytes uint64
	// Retention is how long entries stay, whatever the size.
	Retention time.Duration
}

// The bounds of the size of a log that nobody has chosen, MongoDB's: a part of the
// free disk.
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

// trimShare is the part of its size by which a log grows beyond its window before it
// is truncated, so that one range goes and not many small ones.
const trimShare = 16

// trimTicks is how many of the group's ticks lie between two looks at a log that is
// too large: what is too young to go makes each look a search.
const trimTicks = electionTicks

// SetWindow sets how much of the log is kept.
func (m *Replica) SetWindow(w Window) { m.window.Store(&w) }

// trim truncates the log where it has grown beyond its window, and never past what is
// applied durably (invariant kept-log). A member that then lacks what is gone gets a
// snapshot.
func (m *Replica) trim() error {
	w := m.window.Load()
	if w == nil || m.store.Bytes() <= w.Bytes+w.Bytes/trimShare || m.g.ticks-m.trimmed < trimTicks {
		return nil
	}
	m.trimmed = m.g.ticks
	if m.sending > 0 && m.store.engine.Spare(int64(w.Bytes)) {
		return nil // who receives a snapshot will need what has been written since
	}
	since := Timestamp(1<<64 - 1)
	if w.Retention > 0 {
		since = Timestamp(max(0, m.g.Clock.wall().Add(-w.Retention).Unix())) << 32
	}
	index, err := m.store.Excess(w.Bytes, since)
	if err != nil || index <= m.store.Base().Index {
		return err
	}
	return m.g.Truncate(index)
}
