package storage

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// spaceFloorMax is the free space below which writes are refused: what the
	// memtables in flight need to reach their tables.
	spaceFloorMax = 256 << 20
	// spaceFloorShare is the floor on small disks, as a part of the whole.
	spaceFloorShare = 20
	// spaceInterval is how long a look at the disk is believed.
	spaceInterval = 250 * time.Millisecond
	// spaceWriteFactor is the bytes of disk that a byte of a unit takes: in the
	// log and in a table.
	spaceWriteFactor = 2
)

// space keeps writes away from a full disk. A unit is admitted only while the
// disk has room above a floor; the floor is for what Pebble must write without
// being asked, and for deletions. Where the disk fills all the same, vital
// writes wait, tables are retried by Pebble, and new units get code 14031:
// nothing is lost, reads go on.
type space struct {
	fs  vfs.FS
	dir string
	log logger

	headroom atomic.Int64 // bytes above the floor, less what was admitted since the last look
	full     atomic.Bool  // the file system has answered "no space"
	lookedAt atomic.Int64 // UnixNano of the last look
	mu       sync.Mutex   // one look at a time
	stopped  chan struct{}
}

func newSpace(fs vfs.FS, dir string, log logger) *space {
	return &space{fs: fs, dir: dir, log: log, stopped: make(chan struct{})}
}

// admit takes n bytes of a unit into account, or refuses with 14031. A unit
// that only deletes may go below the floor.
func (s *space) admit(n int, deletes bool) error {
	if time.Now().UnixNano()-s.lookedAt.Load() > int64(spaceInterval) {
		s.look()
	}
	need := int64(n) * spaceWriteFactor
	left := s.headroom.Add(-need)
	if !s.full.Load() && (left >= 0 || deletes) {
		return nil
	}
	s.headroom.Add(need)
	return mongoerr.New(mongoerr.OutOfDiskSpace,
		"Not enough disk space for writes in %s: free space is below the required minimum. Free space, or delete data; reads continue.", s.dir)
}

// look measures the free space again.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixNano()
	if now-s.lookedAt.Load() <= int64(spaceInterval) {
		return
	}
	headroom := int64(math.MaxInt64 / 2)
	if u, err := s.fs.GetDiskUsage(s.dir); err == nil {
		floor := min(spaceFloorMax, u.TotalBytes/spaceFloorShare)
		headroom = int64(u.AvailBytes) - int64(floor)
	}
	// The time last: whoever sees it fresh relies on the headroom.
	s.headroom.Store(headroom)
	s.lookedAt.Store(now)
	if headroom > 0 && s.full.Swap(false) {
		s.log.Infof("disk in %s has space again: writes are accepted", s.dir)
	}
}

// markFull notes that the file system has no space.
func (s *space) markFull(err error) {
	s.lookedAt.Store(time.Now().UnixNano())
	if !s.full.Swap(true) {
		s.log.Errorf("disk full: %v: writes are refused, reads continue", err)
	}
}

// retry runs f; when the disk is full it says so to later writers, and for
// vital writes tries again until there is space or the engine closes.
func (s *space) retry(vital bool, f func() error) error {
	for {
		err := f()
		if err == nil || !vfs.IsNoSpaceError(err) {
			return err
		}
		s.markFull(err)
		// Pebble tries again without a pause, so it is made here.
		select {
		case <-s.stopped:
			return err
		case <-time.After(noSpaceRetry):
		}
		if !vital {
			return err
		}
	}
}

// stop ends the waits of retry.
func (s *space) stop() { close(s.stopped) }
