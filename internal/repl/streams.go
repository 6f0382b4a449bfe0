package repl

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"golang.org/x/time/rate"
)

// Streams are the change streams of a member. As long as there are some, an idle set
// writes a noop each second, so that their marks move and a resume finds its place.
type Streams struct {
	// max is how many may be open.
	max atomic.Int64
	// answers are those that told of something.
	answers rate.Limiter
	mu      sync.Mutex
	open    map[*Stream]struct{}
	recent  []*Stream // that were closed, the oldest first
	lost    int64
	opened  chan struct{} // capacity 1: there are some
}

// Stream is the position of one stream.
type Stream struct {
	of     *Streams
	at     atomic.Uint64 // the time up to which it was read
	closed time.Time
	warned bool // that it is about to lose its place; guarded by of.mu
}

const (
	// DefaultMaxStreams is how many change streams may be open unless SetMaxStreams says
	// otherwise. Each that waits is woken by each write.
	DefaultMaxStreams = 10_000
	// recentStreams is how long, after a stream was closed, its position counts: its
	// reader may resume it.
	recentStreams = 10 * time.Minute
	// answersEach is how often in a second, for each processor, streams are answered unless
	// SetAnswers says otherwise: so answers take a quarter of the processors at most, beside what
	// their events do (one is some 25 µs).
	answersEach = 10_000
	// answersAtOnce is for which part of a second streams may be answered at once.
	answersAtOnce = 100
	// maxRecent bounds how many of them are remembered.
	maxRecent = 1000
	// followTick is how often a set with streams writes something.
	followTick = time.Second
)

// SetMaxStreams bounds how many streams may be open. Those that are stay open.
func (m *Member) SetMaxStreams(n int64) { m.streams.max.Store(n) }

// DefaultAnswers is the bound of SetAnswers unless that is called.
func DefaultAnswers() int64 { return answersEach * int64(runtime.GOMAXPROCS(0)) }

// SetAnswers bounds how often in a second streams are answered, all together, with what has
// just come: with more of them, more comes together in each answer.
func (m *Member) SetAnswers(n int64) {
	m.streams.answers.SetLimit(rate.Limit(n))
	m.streams.answers.SetBurst(int(max(1, n/answersAtOnce)))
}

// Follow notes a stream whose reader has read up to a time. Errors: 146 if too many are
// open.
func (m *Member) Follow(at uint64) (*Stream, error) {
	s := &m.streams
	f := &Stream{of: s}
	f.at.Store(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.open); int64(n) >= s.max.Load() {
		return nil, mongoerr.New(mongoerr.ExceededMemoryLimit, "%d change streams are open, and maxOpenChangeStreams allows no more", n)
	}
	if s.open == nil {
		s.open = map[*Stream]struct{}{}
	}
	s.open[f] = struct{}{}
	select {
	case s.opened <- struct{}{}:
	default:
	}
	return f, nil
}

// Read notes how far the stream was read.
func (f *Stream) Read(at uint64) { f.at.Store(at) }

// longestRest bounds how long a stream rests. Streams that do not rest, as their readers do not
// wait for that long, would put the others off for ever.
const longestRest = time.Second

// Answered notes that the stream told of all that there was, and returns until when it rests.
func (f *Stream) Answered(now time.Time) (until time.Time) {
	place := f.of.answers.ReserveN(now, 1)
	rest := place.DelayFrom(now)
	if rest > longestRest {
		place.CancelAt(now)
		rest = longestRest
	}
	return now.Add(rest)
}

// Close notes that the stream was closed.
func (f *Stream) Close() {
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[f]; !ok {
		return
	}
	delete(s.open, f)
	f.closed = time.Now()
	s.forgetLocked()
	s.recent = append(s.recent, f)
}

// forgetLocked forgets the streams that were closed long ago.
func (s *Streams) forgetLocked() {
	for len(s.recent) > 0 && (len(s.recent) >= maxRecent || time.Since(s.recent[0].closed) > recentStreams) {
		s.recent = s.recent[1:]
	}
}

// LostStream counts a stream that could not go on: 286.
func (m *Member) LostStream() {
	m.streams.mu.Lock()
	m.streams.lost++
	m.streams.mu.Unlock()
}

// StreamStats say how change streams are doing. Times are cluster times.
type StreamStats struct {
	Open, Lost int64
	// OldestPosition is the least position of an open stream, 0 for none; Behind how many
	// seconds that is behind what was applied, and Left how many before it is lost: behind
	// the oldest entry of the log. Truncated is false where that is the set's first.
	OldestPosition, OldestResumable uint64
	Behind, Left                    int64
	Truncated                       bool
}

// StreamStats returns how the member's change streams are doing.
func (m *Member) StreamStats() StreamStats {
	s := &m.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.replica.State()
	st := StreamStats{Open: int64(len(s.open)), Lost: s.lost, OldestResumable: uint64(now.Base.Time), Truncated: now.truncated()}
	for f := range s.open {
		if at := f.at.Load(); st.OldestPosition == 0 || at < st.OldestPosition {
			st.OldestPosition = at
		}
	}
	if at := st.OldestPosition; at != 0 {
		st.Behind = max(0, int64(uint64(m.Applied().Time)>>32)-int64(at>>32))
		st.Left = max(0, int64(at>>32)-int64(st.OldestResumable>>32))
	}
	return st
}

// AppendStreams writes serverStatus().metrics.changeStreams: how many streams are open,
// the oldest of their positions, how far that is behind, and how many were lost.
func (m *Member) AppendStreams(b *bson.Builder) {
	st := m.StreamStats()
	b.Int64("open", st.Open).Int64("lost", st.Lost).Timestamp("oldestResumable", st.OldestResumable)
	if st.OldestPosition != 0 {
		b.Timestamp("oldestPosition", st.OldestPosition).Int64("behindSecs", st.Behind)
	}
}

// behindLocked returns the streams, open and closed lately, whose position is before another one.
func (s *Streams) behindLocked(upTo Position) (open, recent []*Stream) {
	for f := range s.open {
		if f.at.Load() < uint64(upTo.Time) {
			open = append(open, f)
		}
	}
	s.forgetLocked()
	for _, f := range s.recent {
		if f.at.Load() < uint64(upTo.Time) {
			recent = append(recent, f)
		}
	}
	return open, recent
}

// warn logs that streams are about to lose their place, once of each: the log is truncated
// up to a position next.
func (m *Member) warn(upTo Position) {
	s := &m.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	open, recent := s.behindLocked(upTo)
	warned := func(f *Stream) bool {
		was := f.warned
		f.warned = true
		return was
	}
	if open, recent = slices.DeleteFunc(open, warned), slices.DeleteFunc(recent, warned); len(open)+len(recent) > 0 {
		m.o.Log.Warn("replication: change streams are about to lose their place in the log, and cannot be resumed then (286): raise oplogSizeMB or oplogMinRetentionHours, or read them faster", "open", len(open), "closedLately", len(recent))
	}
}

// lose logs that streams lose their place because the log is truncated up to a position.
func (m *Member) lose(upTo Position) {
	s := &m.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if open, recent := s.behindLocked(upTo); len(open)+len(recent) > 0 {
		m.o.Log.Warn("replication: the log is truncated past the position of change streams, which cannot be resumed (286): raise oplogSizeMB or oplogMinRetentionHours", "open", len(open), "closedLately", len(recent))
	}
}

// Advance makes the set's log pass a time soon, by a noop if nothing is written: a router
// waits for it. It does not wait.
func (m *Member) Advance(t Timestamp) {
	if m.Applied().Time < t {
		m.replica.tryPost(func(g *Group) { _ = g.want(t) }) // too far ahead: nobody can pass it
	}
}

// keepMoving is the goroutine that makes idle sets write while there are streams.
func (m *Member) keepMoving(ctx context.Context) {
	s := &m.streams
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.opened:
		}
		for t := time.NewTicker(followTick); ; {
			s.mu.Lock()
			n := len(s.open)
			s.mu.Unlock()
			if n == 0 {
				t.Stop()
				break
			}
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			now := Timestamp(m.o.Wall().Unix()) << 32
			m.replica.tryPost(func(g *Group) { _ = g.want(now) }) // it is the clock's own time
		}
	}
}
