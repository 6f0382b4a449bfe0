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
	// spaceInterval is how long a measurement of the disk is used, and spaceDoubt
	// how long one that found it full.
	spaceInterval = 250 * time.Millisecond
	spaceDoubt    = 10 * time.Millisecond
	// refusalInterval is the least time between two log lines about writes that
	// are refused.
	refusalInterval = 10 * time.Second
	// spaceWriteFactor is the bytes of disk that a byte of a unit takes: in the
	// log and in a table.
	spaceWriteFactor = 2
	// recoveryShare is the least share of the logs' size that their tables take.
	recoveryShare = 4
)

// space protects a full disk from writes. A unit is admitted only while the
// disk has room above a floor; the floor is reserved for what is in memory and
// must reach its tables, and for deletions. If the disk fills up anyway, vital
// writes wait, Pebble retries tables, and new units get code 14031: nothing is
// lost, reads continue.
type space struct {
	fs  vfs.FS
	dir string
	log logger
	// floor is the free space below which writes are refused, in bytes.
	floor int64

	headroom   atomic.Int64 // bytes above the floor, less what was admitted since the last measurement
	full       atomic.Bool  // the file system has answered "no space"
	measuredAt atomic.Int64 // UnixNano of the last measurement
	refusedAt  atomic.Int64 // UnixNano of the last log line about a refusal
	mu         sync.Mutex   // one measurement at a time
	stopped    chan struct{}
}

func newSpace(fs vfs.FS, dir string, floor int64, log logger) *space {
	return &space{fs: fs, dir: dir, floor: floor, log: log, stopped: make(chan struct{})}
}

// admit accounts for n bytes of a unit, or refuses with 14031. A unit that only
// deletes may go below the floor.
func (s *space) admit(n int, deletes bool) error {
	s.measure(spaceInterval)
	need := int64(n) * spaceWriteFactor
	for range 2 {
		if left := s.headroom.Add(-need); !s.full.Load() && (left >= 0 || deletes) {
			return nil
		}
		s.headroom.Add(need)
		s.measure(spaceDoubt)
	}
	s.tellRefusal()
	return mongoerr.New(mongoerr.OutOfDiskSpace,
		"Not enough disk space for writes in %s: free space is below the required minimum of %d bytes. Free space, or delete data; reads continue.", s.dir, s.floor)
}

// tellRefusal logs that writes are refused, now and then.
func (s *space) tellRefusal() {
	now, last := time.Now().UnixNano(), s.refusedAt.Load()
	if now-last >= int64(refusalInterval) && s.refusedAt.CompareAndSwap(last, now) {
		s.log.Errorf("disk full: less than %d bytes are free in %s: writes are refused, reads continue", s.floor, s.dir)
	}
}

// measure measures the free space, if the last measurement is older than age.
func (s *space) measure(age time.Duration) {
	if time.Now().UnixNano()-s.measuredAt.Load() <= int64(age) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixNano()
	if now-s.measuredAt.Load() <= int64(age) {
		return
	}
	headroom := int64(math.MaxInt64 / 2)
	if u, err := s.fs.GetDiskUsage(s.dir); err == nil {
		headroom = int64(u.AvailBytes) - s.floor
	}
	s.headroom.Store(headroom)
	// Not before: others that find the measurement recent take the headroom for its
	// result.
	s.measuredAt.Store(now)
	if headroom > 0 && s.full.Swap(false) {
		s.log.Infof("disk in %s has space again: writes are accepted", s.dir)
	}
}

// spare reports whether n bytes can be set aside without coming near the floor.
func (s *space) spare(n int64) bool {
	u, err := s.fs.GetDiskUsage(s.dir)
	return err != nil || int64(u.AvailBytes)-n > 2*s.floor
}

// Spare reports whether n bytes can be written without coming near the free space below
// which writes are refused.
func (e *Engine) Spare(n int64) bool { return e.space.spare(n) }

// Room is how many bytes can be written until the free space is below that at which
// writes are refused; math.MaxInt64 if unknown.
func (e *Engine) Room() int64 {
	u, err := e.space.fs.GetDiskUsage(e.space.dir)
	if err != nil {
		return math.MaxInt64
	}
	return int64(u.AvailBytes) - e.space.floor
}

// recoverable refuses to open a store if there is no space to write its logs to
// tables: Pebble would try forever.
func recoverable(fs vfs.FS, dir string) error {
	u, err := fs.GetDiskUsage(dir)
	if err != nil {
		return nil // it is not known
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	need := uint64(0)
	for _, name := range names {
		if f, ok := parseControlled(name); ok && !f.manifest {
			if i, err := fs.Stat(fs.PathJoin(dir, name)); err == nil {
				need += uint64(i.Size()) / recoveryShare
			}
		}
	}
	if u.AvailBytes < need {
		return mongoerr.New(mongoerr.OutOfDiskSpace,
			"Not enough disk space to recover the data in %s: %d bytes are free, and about %d are needed. Free space and start again.", dir, u.AvailBytes, need)
	}
	return nil
}

// markFull notes that the file system has no space.
func (s *space) markFull(err error) {
	s.measuredAt.Store(time.Now().UnixNano())
	if !s.full.Swap(true) {
		s.log.Errorf("disk full: %v: writes are refused, reads continue", err)
	}
}

// retry runs f; when the disk is full it marks that for later writers, and
// tries again for vital writes until there is space or the engine closes.
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
