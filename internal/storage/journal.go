package storage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/waits"
)

// DefaultJournalInterval is MongoDB's storage.journal.commitIntervalMs.
const DefaultJournalInterval = 100 * time.Millisecond

// journal makes the newest log file durable: an interval after it became dirty at the
// latest, or at once when a commit waits; all commits that wait when a sync
// begins share it. It owns one goroutine, from start to stop.
type journal struct {
	interval atomic.Int64 // nanoseconds
	stall    stallWatch
	fatal    func(error)

	syncing sync.Mutex // held by who syncs

	mu    sync.Mutex
	file  *walFile   // the newest open log, or nil
	round *syncRound // what the next sync will release, or nil
	err   error      // the first failed sync; nothing is durable after it

	armed   atomic.Bool   // a sync will come within the interval
	dirtied chan struct{} // the file became dirty while none would
	wanted  chan struct{} // a commit waits
	broken  chan error    // of a sync that a caller of wait did, the first that failed
	stopc   chan struct{}
	done    chan struct{}

	syncs  atomic.Int64
	nanos  atomic.Int64
	waited atomic.Int64
}

// syncRound is a group of commits that one sync releases.
type syncRound struct {
	done chan struct{}
	err  error
}

func newJournal(interval time.Duration, fatal func(error)) *journal {
	j := &journal{
		fatal:   fatal,
		dirtied: make(chan struct{}, 1),
		wanted:  make(chan struct{}, 1),
		broken:  make(chan error, 1),
		stopc:   make(chan struct{}),
		done:    make(chan struct{}),
	}
	j.interval.Store(int64(interval))
	return j
}

// attach makes f the file to sync. The former one was closed, so it is durable.
func (j *journal) attach(f *walFile) {
	j.mu.Lock()
	j.file = f
	j.mu.Unlock()
}

// closed releases a file, whose last sync ended with err.
func (j *journal) closed(f *walFile, err error) {
	j.mu.Lock()
	if j.file == f {
		j.file = nil
	}
	if j.err == nil {
		j.err = err
	}
	j.mu.Unlock()
}

// markDirty is called when the file became dirty. Where a sync is due within the interval
// anyway, nobody is woken.
func (j *journal) markDirty() {
	if !j.armed.Swap(true) {
		signal(j.dirtied)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run is the goroutine.
func (j *journal) run() {
	defer close(j.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-j.dirtied:
			timer.Reset(time.Duration(j.interval.Load()))
		case <-timer.C:
			j.armed.Store(false)
			j.sync()
		case <-j.wanted:
			j.sync()
		case err := <-j.broken:
			j.fail(err)
		case <-j.stopc:
			j.sync()
			return
		}
	}
}

func (j *journal) stop() {
	close(j.stopc)
	<-j.done
}

// sync is syncLocked for the goroutine.
func (j *journal) sync() {
	j.syncing.Lock()
	err := j.syncLocked()
	j.syncing.Unlock()
	j.fail(err)
}

// fail ends the process after a sync that failed: the kernel may have dropped the pages,
// so what is on disk is unknown, and a later sync that succeeds proves nothing.
func (j *journal) fail(err error) {
	if err != nil {
		j.fatal(errors.Join(errors.New("sync of the write-ahead log failed"), err))
	}
}

// syncLocked makes the file durable and releases the round that waited before it. The
// caller holds syncing. Errors: that of the sync.
func (j *journal) syncLocked() error {
	j.mu.Lock()
	f, r := j.file, j.round
	j.round = nil
	j.mu.Unlock()
	var err error
	if f != nil && !f.durable() {
		start := time.Now()
		j.stall.begin(f.name)
		err = f.syncNow()
		j.stall.end()
		j.syncs.Add(1)
		j.nanos.Add(int64(time.Since(start)))
	}
	j.mu.Lock()
	if j.err == nil {
		j.err = err
	}
	if r != nil {
		r.err = j.err
		close(r.done)
	}
	j.mu.Unlock()
	return err
}

// wait returns when all that was committed before the call is durable.
func (j *journal) wait(ctx context.Context) error {
	j.mu.Lock()
	if j.err != nil {
		defer j.mu.Unlock()
		return j.err
	}
	// Positions, not flags: a file that is being closed is durable once its sync has
	// ended, and not before.
	if j.file == nil || j.file.durable() {
		j.mu.Unlock()
		return nil
	}
	if j.round == nil {
		j.round = &syncRound{done: make(chan struct{})}
	}
	r := j.round
	j.mu.Unlock()
	w := waits.Of(ctx)
	w.Begin(waits.Disk)
	defer w.End(waits.Disk)
	j.waited.Add(1)
	if ctx.Done() == nil && j.syncing.TryLock() {
		// Nobody syncs, and the caller has no need to leave early: it syncs itself, which
		// saves two switches between goroutines.
		err := j.syncLocked()
		j.syncing.Unlock()
		if err != nil {
			select {
			case j.broken <- err:
			default:
			}
		}
	} else {
		signal(j.wanted)
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stallWatch reports a sync that takes too long, again and again until it has ended.
type stallWatch struct {
	after  time.Duration
	report func(path string, took time.Duration)
	timer  *time.Timer
	now    atomic.Pointer[stalledSync] // nil while nothing is synced
}

// stalledSync is a sync that has not ended. How long it takes is counted in looks: a process
// that was stopped for a while has not waited for its disk.
type stalledSync struct {
	path  string
	looks atomic.Int64
}

func (w *stallWatch) begin(path string) {
	if w.report == nil || w.after <= 0 {
		return
	}
	w.now.Store(&stalledSync{path: path})
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, w.look)
		return
	}
	w.timer.Reset(w.after)
}

// look is called by the timer, possibly for a sync that has ended.
func (w *stallWatch) look() {
	s := w.now.Load()
	if s == nil {
		return
	}
	w.report(s.path, time.Duration(s.looks.Add(1))*w.after)
	w.timer.Reset(w.after)
}

func (w *stallWatch) end() {
	w.now.Store(nil)
	if w.timer != nil {
		w.timer.Stop()
	}
}
