package repl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Streams are the change streams of a member. As long as there are some, an idle set
// writes a noop each second, so that their marks move and a resume finds its place.
type Streams struct {
	mu     sync.Mutex
	open   map[*Stream]struct{}
	recent []*Stream // that were closed, the oldest first
	lost   int64
	opened chan struct{} // capacity 1: there are some
}

// Stream is the position of one stream.
type Stream struct {
	of     *Streams
	at     atomic.Uint64 // the time up to which it was read
	closed time.Time
}

const (
	// recentStreams is how long, after a stream was closed, its position counts: its
	// reader may resume it.
	recentStreams = 10 * time.Minute
	// maxRecent bounds how many of them are remembered.
	maxRecent = 1000
	// followTick is how often a set with streams writes something.
	followTick = time.Second
)

// Follow notes a stream whose reader has read up to a time.
func (m *Member) Follow(at uint64) *Stream {
	s := &m.streams
	f := &Stream{of: s}
	f.at.Store(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Stream]struct{}{}
	}
	s.open[f] = struct{}{}
	select {
	case s.opened <- struct{}{}:
	default:
	}
	return f
}

// Read notes how far the stream was read.
func (f *Stream) Read(at uint64) { f.at.Store(at) }

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

// AppendStreams writes serverStatus().metrics.changeStreams: how many streams are open,
// the oldest of their positions, how far that is behind, and how many were lost.
func (m *Member) AppendStreams(b *bson.Builder) {
	s := &m.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := uint64(0)
	for f := range s.open {
		if at := f.at.Load(); oldest == 0 || at < oldest {
			oldest = at
		}
	}
	b.Int64("open", int64(len(s.open))).Int64("lost", s.lost).Timestamp("oldestResumable", uint64(m.replica.State().Base.Time))
	if oldest != 0 {
		b.Timestamp("oldestPosition", oldest).Int64("behindSecs", max(0, int64(uint64(m.Applied().Time)>>32)-int64(oldest>>32)))
	}
}

// warn logs that streams lose their place because the log is truncated up to a position.
func (m *Member) warn(upTo Position) {
	s := &m.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	open, recent := 0, 0
	for f := range s.open {
		if f.at.Load() < uint64(upTo.Time) {
			open++
		}
	}
	s.forgetLocked()
	for _, f := range s.recent {
		if f.at.Load() < uint64(upTo.Time) {
			recent++
		}
	}
	if open+recent > 0 {
		m.o.Log.Warn("replication: the log is truncated past the position of change streams, which cannot be resumed (286): raise oplogSizeMB or oplogMinRetentionHours", "open", open, "closedLately", recent)
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
			m.replica.tryPost(func(g *Group) { g.want(now) })
		}
	}
}
