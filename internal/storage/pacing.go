package storage

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The categories under which Pebble 2.1 opens the tables that it writes by itself.
const (
	categoryFlush      vfs.DiskWriteCategory = "pebble-memtable-flush"
	categoryCompaction vfs.DiskWriteCategory = "pebble-compaction"
)

const (
	// pacedFor is how long after a drop of ranges tables are written with rests: until the
	// memtable with its tombstones is flushed, and what follows is compacted.
	pacedFor = rangeDeleteFlush + 5*time.Second
	// pacedWork is about how long who writes a table works between two rests, pacedRest how
	// much longer a rest is than the work before it, and pacedRestMax how long one is at most.
	pacedWork    = 500 * time.Microsecond
	pacedRest    = 4
	pacedRestMax = 20 * time.Millisecond
	// pacedLook is how often it is checked whether there is time for rests: there is none
	// with more memtables than pacedMemtables (writers wait for flushes at memtablesMax), more
	// tables above one another on the first level than pacedDepth (a read searches them all),
	// or more bytes to compact than pacedDebt.
	pacedLook      = 100 * time.Millisecond
	pacedMemtables = 2
	pacedDepth     = 6
	pacedDebt      = 1 << 30
)

// pacing makes flushes and compactions rest after ranges were dropped. Pebble flushes the
// memtable with the tombstones soon after a drop, and compacts what it flushed, as fast as
// one processor can; on a replica set all members do at the same time. With rests clients
// have the processors in between. Reads are worse off only while more tables are left.
type pacing struct {
	metrics func() *pebble.Metrics
	since   time.Time
	until   atomic.Int64 // nanoseconds after since
	look    atomic.Int64 // when to check again, nanoseconds after since
	urgent  atomic.Bool  // by the last check there is no time for rests
	over    atomic.Bool  // the engine closes
}

// RangesDropped says that ranges with many records were dropped just now.
func (e *Engine) RangesDropped() {
	e.pacing.until.Store(int64(time.Since(e.pacing.since) + pacedFor))
}

// rests reports whether who writes a table rests now.
func (p *pacing) rests() bool {
	now := int64(time.Since(p.since))
	if now >= p.until.Load() || p.over.Load() {
		return false
	}
	if look := p.look.Load(); now >= look && p.look.CompareAndSwap(look, now+int64(pacedLook)) {
		m := p.metrics()
		p.urgent.Store(m.MemTable.Count > pacedMemtables || m.Levels[0].Sublevels > pacedDepth || m.Compact.EstimatedDebt > pacedDebt)
	}
	return !p.urgent.Load()
}

// pacedFile is a table that Pebble writes in the background. One goroutine at a time writes
// it, and what makes its blocks waits for that one.
type pacedFile struct {
	*spaceFile
	pacing *pacing
	rested time.Time // when the last rest ended
}

func (f *pacedFile) Write(p []byte) (int, error) {
	n, err := f.spaceFile.Write(p)
	if worked := time.Since(f.rested); worked >= pacedWork {
		if f.pacing.rests() {
			time.Sleep(min(pacedRest*worked, pacedRestMax))
		}
		f.rested = time.Now()
	}
	return n, err
}
