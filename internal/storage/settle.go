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
	// settleCalm is how long nobody must have written before the store settles.
	settleCalm = 5 * time.Second
	// settleNoise is how many bytes within that count as nobody.
	settleNoise = 64 << 10
	// settleLeast is how many bytes must be new for the store to settle, and
	// settleShare the part of all tables that must be above the last level, or go
	// with it, at the least: so what settling writes is bounded by what was written.
	settleLeast = 16 << 20
	settleShare = 10
	// settleStep is about how many bytes of the last level one step rewrites.
	settleStep = 64 << 20
	// lastLevel is the lowest level of tables, where everything ends up.
	lastLevel = 6
)

// settler brings what was written down to the last level of tables when nobody
// writes any more. Until then it lies in a memtable and on several levels, each
// of which a read has to look into; among many documents that is some cache
// misses each time.
type settler struct {
	e       *Engine
	written atomic.Int64 // bytes of all units
	settled atomic.Int64 // of those, as many were there when it looked last whether to settle
	armed   atomic.Bool  // the timer runs, or look does

	mu    sync.Mutex
	timer *time.Timer
	seen  int64 // written, when the timer was set
	over  bool  // the engine closes

	fresh bool // the store was opened since it was looked at last; look's

	pauses atomic.Int64
	step   chan struct{} // capacity 1: full while settling writes tables

	stopped context.Context
	cancel  context.CancelFunc
	looking sync.WaitGroup
}

func newSettler(e *Engine) *settler {
	s := &settler{e: e, step: make(chan struct{}, 1)}
	s.stopped, s.cancel = context.WithCancel(context.Background())
	return s
}

// opened has a store looked at that may have been closed before it settled.
func (s *settler) opened() {
	s.fresh = true
	s.armed.Store(true)
	s.arm()
}

// wrote takes note of a unit of n bytes.
func (s *settler) wrote(n int) {
	if s.written.Add(int64(n))-s.settled.Load() >= settleLeast && s.armed.CompareAndSwap(false, true) {
		s.arm()
	}
}

// arm has look called in a while. REQUIRES: armed is the caller's.
func (s *settler) arm() {
	invariant.Check(s.armed.Load(), "storage: the settler is armed")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = s.written.Load()
	switch {
	case s.over:
	case s.timer == nil:
		s.timer = time.AfterFunc(settleCalm, s.look)
	default:
		s.timer.Reset(settleCalm)
	}
}

// look settles if nobody has written, and else looks again later.
func (s *settler) look() {
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
	if written-seen > settleNoise || s.settle(written) {
		s.arm()
		return
	}
	s.settled.Store(written) // what is too little waits for as much more, and so does what failed
	s.armed.Store(false)
	s.wrote(0) // who wrote meanwhile has left it to this look
}

// settle moves everything to the last level, where enough is new, when so much
// was written; again says that somebody wrote meanwhile.
func (s *settler) settle(written int64) (again bool) {
	begun := time.Now()
	fresh := s.fresh && written < settleLeast
	if s.fresh = false; fresh {
		if worth, err := s.e.worthSettling(settleLeast); err != nil || !worth {
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
	if worth, err := s.e.worthSettling(1); err != nil || !worth {
		return err != nil && s.failed(err)
	}
	var last []byte
	for tries := 0; ; tries++ {
		from, to, size, err := s.e.unsettled()
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
		if s.written.Load()-written > settleNoise {
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
	s.e.log.Infof("settled in %v", time.Since(begun))
	return false
}

// unlessPaused runs a step of settling, or says that it is paused.
func (s *settler) unlessPaused(f func() error) (ran bool, err error) {
	s.step <- struct{}{}
	defer func() { <-s.step }()
	if s.pauses.Load() > 0 {
		return false, nil
	}
	return true, f()
}

// PauseSettling keeps the engine from rewriting tables of its own accord where
// nobody writes, until ResumeSettling is called as often. It waits for the step
// under way; where ctx ends before, it returns the cause, and nothing is paused.
func (e *Engine) PauseSettling(ctx context.Context) error {
	s := e.settler
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

// ResumeSettling ends one PauseSettling.
func (e *Engine) ResumeSettling() { e.settler.pauses.Add(-1) }

// failed ends an attempt to settle; the next one comes with new writes.
func (s *settler) failed(err error) (again bool) {
	if s.stopped.Err() == nil {
		s.e.log.Infof("cannot settle: %v", err)
	}
	return false
}

// worthSettling says whether so much is above the last level of tables, with what
// deletions there let go below, that it is worth rewriting the rest.
// least is how many bytes that must be.
func (e *Engine) worthSettling(least uint64) (bool, error) {
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
	return above >= max(least, total/settleShare), nil
}

// unsettled returns the keys between which the next step of settling goes,
// both included, and how many bytes it rewrites at the most; nil where all is
// on the last level. Each step begins where the lowest table above that level
// does, and ends where it has enough of the level to rewrite.
func (e *Engine) unsettled() (from, to []byte, size int64, err error) {
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
		if enough += int64(t.Size); enough >= settleStep {
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

// stop ends settling, and waits for it.
func (s *settler) stop() {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.looking.Wait()
}
