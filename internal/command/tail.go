package command

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// tailBits is how many bits of a duration in microseconds, after the leading one,
// select its bucket: each is at most an eighth wide.
const tailBits = 3

// TailBuckets is the number of buckets of a Tail; the last begins at half an
// hour.
const TailBuckets = 29 << tailBits

// Tail counts operations by their duration, in buckets narrow enough for percentiles.
type Tail [TailBuckets]int64

// TailBound is the least duration of a bucket, in microseconds.
func TailBound(bucket int) int64 {
	if bucket < 1<<tailBits {
		return int64(bucket)
	}
	return int64(1<<tailBits+bucket&(1<<tailBits-1)) << (bucket>>tailBits - 1)
}

func tailBucket(took time.Duration) int {
	us := uint64(max(0, took.Microseconds()))
	if us < 1<<tailBits {
		return int(us)
	}
	shift := bits.Len64(us) - 1 - tailBits
	return min(TailBuckets-1, (shift+1)<<tailBits+int(us>>shift)&(1<<tailBits-1))
}

// tail is a Tail that grows.
type tail [TailBuckets]atomic.Int64

func (t *tail) add(took time.Duration) { t[tailBucket(took)].Add(1) }

// Foreground is the durations of clients' reads and writes since the start.
type Foreground struct {
	Micros, Ops int64
	Tail        Tail
}

// Since returns the durations recorded after before was.
func (f Foreground) Since(before *Foreground) Foreground {
	f.Micros -= before.Micros
	f.Ops -= before.Ops
	for i := range f.Tail {
		f.Tail[i] -= before.Tail[i]
	}
	return f
}

// Foreground returns the durations of clients' reads and writes.
func (m *Metrics) Foreground() (f Foreground) {
	f.Micros, f.Ops = m.reads.micros.Load()+m.writes.micros.Load(), m.reads.ops.Load()+m.writes.ops.Load()
	for i := range f.Tail {
		f.Tail[i] = m.tail[i].Load()
	}
	return f
}
