package storage

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/invariant"
)

const (
	// idleAfter is how long there must have been no writes before idle compaction
	// begins.
	idleAfter = 5 * time.Second
	// idleNoise is up to how many bytes in that time count as no writes.
	idleNoise = 64 << 10
	// idleCompactionLeast is how many new bytes make it worthwhile, and
	// idleCompactionShare the least share of all tables that must be above the last
	// level, or removed by it: so what it writes is bounded by what was written.
	idleCompactionLeast = 16 << 20
	idleCompactionShare = 10
	// compactStep is about how many bytes of the last level one step rewrites.
	compactStep = 64 << 20
	// lastLevel is the lowest level of tables, where everything ends up.
	lastLevel = 6
)

// idleCompactor moves writes to the last level of tables once nobody
// writes. Until then it is in a memtable and on several levels, each of which a read
// has to search; among many documents that costs some cache misses each time.
type idleCompactor struct {
	e         *Engine
	written   atomic.Int64 // bytes of all units
	compacted atomic.Int64 // of those, at the last decision whether to compact
	armed     atomic.Bool  // the timer runs, or compactIdle does

	mu    sync.Mutex
	timer *time.Timer
	seen  int64 // written, when the timer was set
	over  bool  // the engine closes

	fresh bool // the store was opened since the last check; compactIdle's

	pauses atomic.Int64
	step   chan struct{} // capacity 1: full while idle compaction writes tables

	stopped context.Context
	cancel  context.CancelFunc
	looking sync.WaitGroup
}

func newIdleCompactor(e *Engine) *idleCompactor {
	s := &idleCompactor{e: e, step: make(chan struct{}, 1)}
	s.stopped, s.cancel = context.WithCancel(context.Background())
	return s
}

// opened starts a check of a store that may have been closed before idle
// compaction.
func (s *idleCompactor) opened() {
	s.fresh = true
	s.armed.Store(true)
	s.arm()
}

// wrote notes a unit of n bytes.
func (s *idleCompactor) wrote(n int) {
	if s.written.Add(int64(n))-s.compacted.Load() >= idleCompactionLeast && s.armed.CompareAndSwap(false, true) {
		s.arm()
	}
}

// arm schedules compactIdle. REQUIRES: armed is the caller's.
func (s *idleCompactor) arm() {
	invariant.Check(s.armed.Load(), "storage: the idleCompactor is armed")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = s.written.Load()
	switch {
	case s.over:
	case s.timer == nil:
		s.timer = time.AfterFunc(idleAfter, s.compactIdle)
	default:
		s.timer.Reset(idleAfter)
	}
}

// compactIdle compacts if there were no writes, and otherwise checks again later.
func (s *idleCompactor) compactIdle() {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.looking.Add(1)
	seen := s.seen
	s.mu.Unlock()
	defer s.looking.Done()
	written := s.written.Load()
	if written-seen > idleNoise || s.compact(written) {
		s.arm()
		return
	}
	s.compacted.Store(written) // what is too little waits for as much more, and so does what failed
	s.armed.Store(false)
	s.wrote(0) // writers in the meantime have left it to this check
}

// compact moves everything to the last level, if enough is new, given the bytes
// written so far; again says that something was written in the meantime.
func (s *idleCompactor) compact(written int64) (again bool) {
	begun := time.Now()
	fresh := s.fresh && written < idleCompactionLeast
	if s.fresh = false; fresh {
		if worth, err := s.e.worthCompacting(idleCompactionLeast); err != nil || !worth {
			return err != nil && s.failed(err)
		}
	}
	var flushed <-chan struct{}
	ran, err := s.unlessPaused(func() (err error) { flushed, err = s.e.db.AsyncFlush(); return err })
	if err != nil {
		return s.failed(err)
	}
	if !ran {
		return true
	}
	select {
	case <-flushed:
	case <-s.stopped.Done(): // on a full disk it may never end
		return false
	}
	if worth, err := s.e.worthCompacting(1); err != nil || !worth {
		return err != nil && s.failed(err)
	}
	var last []byte
	for tries := 0; ; tries++ {
		from, to, size, err := s.e.uncompacted()
		if err != nil {
			return s.failed(err)
		}
		if !slices.Equal(from, last) {
			last, tries = from, 0
		}
		// Tables on all levels above the last one may begin with one key.
		if from == nil || tries > lastLevel || !s.e.space.spare(size) {
			break
		}
		if s.written.Load()-written > idleNoise {
			return true
		}
		ran, err := s.unlessPaused(func() error { return s.e.db.Compact(s.stopped, from, to, false) })
		if err != nil {
			return s.failed(err)
		}
		if !ran {
			return true
		}
	}
	s.e.log.Infof("idle compaction finished in %v", time.Since(begun))
	return false
}

// unlessPaused runs a step of idle compaction, or returns that it is paused.
func (s *idleCompactor) unlessPaused(f func() error) (ran bool, err error) {
	s.step <- struct{}{}
	defer func() { <-s.step }()
	if s.pauses.Load() > 0 {
		return false, nil
	}
	return true, f()
}

// PauseIdleCompaction keeps the engine from rewriting tables while there are no writes,
// until ResumeIdleCompaction is called as often. It waits for the running step; where
// ctx ends before, it returns the cause, and nothing is paused.
func (e *Engine) PauseIdleCompaction(ctx context.Context) error {
	s := e.idleCompactor
	s.pauses.Add(1)
	select {
	case s.step <- struct{}{}:
		<-s.step
		return nil
	case <-ctx.Done():
		s.pauses.Add(-1)
		return context.Cause(ctx)
	}
}

// ResumeIdleCompaction ends one PauseIdleCompaction.
func (e *Engine) ResumeIdleCompaction() { e.idleCompactor.pauses.Add(-1) }

// failed ends an attempt; the next one comes with new writes.
func (s *idleCompactor) failed(err error) (again bool) {
	if s.stopped.Err() == nil {
		s.e.log.Infof("idle compaction failed: %v", err)
	}
	return false
}

// worthCompacting reports whether enough is above the last level of tables, counting
// what deletions there remove below, to be worth rewriting the rest. least is how
// many bytes that must be.
func (e *Engine) worthCompacting(least uint64) (bool, error) {
	levels, err := e.db.SSTables()
	if err != nil {
		return false, err
	}
	var above, total uint64
	for level, tables := range levels {
		for i := range tables {
			t := &tables[i]
			total += t.Size
			if level < lastLevel {
				above += t.Size + t.TableStats.PointDeletionsBytesEstimate + t.TableStats.RangeDeletionsBytesEstimate
			}
		}
	}
	return above >= max(least, total/idleCompactionShare), nil
}

// uncompacted returns the keys between which the next step of idle compaction
// works, both included, and how many bytes it rewrites at most; nil where
// everything is on the last level. Each step begins where the lowest table above
// that level does, and ends where it has enough of the level to rewrite.
func (e *Engine) uncompacted() (from, to []byte, size int64, err error) {
	levels, err := e.db.SSTables()
	if err != nil {
		return nil, nil, 0, err
	}
	var first *pebble.SSTableInfo
	for _, tables := range levels[:lastLevel] {
		for i := range tables {
			t := &tables[i]
			size += int64(t.Size)
			if first == nil || bytes.Compare(t.Smallest.UserKey, first.Smallest.UserKey) < 0 {
				first = t
			}
		}
	}
	if first == nil {
		return nil, nil, 0, nil
	}
	from, to = first.Smallest.UserKey, first.Largest.UserKey
	enough := int64(0)
	for i := range levels[lastLevel] {
		t := &levels[lastLevel][i]
		if bytes.Compare(t.Largest.UserKey, from) < 0 {
			continue
		}
		if enough += int64(t.Size); enough >= compactStep {
			if bytes.Compare(t.Largest.UserKey, to) < 0 {
				to = t.Largest.UserKey
			}
			break
		}
	}
	if bytes.Compare(from, to) >= 0 {
		to = append(append([]byte{}, from...), 0)
	}
	return from, to, size + enough, nil
}

// stop ends idle compaction, and waits for it.
func (s *idleCompactor) stop() {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.looking.Wait()
}
