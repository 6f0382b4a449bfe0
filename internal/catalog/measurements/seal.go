package measurements

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

const (
	// worthSealing is how many measurements a source must have received since it
	// was last sealed before the end of a bucket's span makes it sealed again:
	// otherwise late measurements would make a bucket each.
	worthSealing = 128
	// fewOpen is up to how many records of open measurements are removed one by one
	// rather than by a range tombstone, of which very many slow down reads.
	fewOpen = 32
	// maxIdleSealEvery is how long at most a source is left alone after it was sealed
	// for being idle: otherwise late measurements would make a bucket each.
	maxIdleSealEvery = time.Hour
	// oldestShare is the share of the sources that are chosen at once where there
	// are too many.
	oldestShare = 16

	minTime = math.MinInt64
	// always is after the end of all spans.
	always = math.MaxInt64
)

// SealAll puts all open measurements into buckets, for readers of the buckets.
// Errors: those of run.
func (t *Table) SealAll(ctx context.Context, run Run) error {
	if err := t.Flush(ctx, run); err != nil {
		return err
	}
	for _, s := range t.Sources() {
		if err := t.sealSource(ctx, run, s.Key, always); err != nil {
			return err
		}
	}
	return nil
}

// TooMany reports whether too many sources have open measurements.
func (t *Table) TooMany() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.open > t.limits.Sources
}

// SealOldest enforces the bound on sources with open measurements: where there
// are more, it seals those with the oldest ones, at most n of them. The caller
// must not have a unit that holds anything. Errors: those of run.
func (t *Table) SealOldest(ctx context.Context, run Run, n int) error {
	for n > 0 && t.TooMany() {
		keys := t.takeOldest(n)
		if len(keys) == 0 {
			return nil
		}
		if err := t.Flush(ctx, run); err != nil {
			return err
		}
		for _, key := range keys {
			if err := t.sealSource(ctx, run, key, always); err != nil {
				return err
			}
		}
		n -= len(keys)
	}
	return nil
}

// takeOldest returns the keys of sources beyond the bound, at most n.
func (t *Table) takeOldest(n int) [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.oldest) == 0 {
		t.chooseOldestLocked()
	}
	n = min(n, t.open-t.limits.Sources, len(t.oldest))
	if n <= 0 {
		return nil
	}
	keys := t.oldest[:n:n]
	t.oldest = t.oldest[n:]
	return keys
}

// chooseOldestLocked lists the sources with the oldest open measurements. REQUIRES:
// mu is held.
func (t *Table) chooseOldestLocked() {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
	all := make([]*source, 0, t.open)
	for _, s := range t.sources {
		if s.Count > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *source) int { return cmp.Compare(a.First, b.First) })
	t.oldest = nil
	for _, s := range all[:min(len(all), t.limits.Sources/oldestShare+1)] {
		t.oldest = append(t.oldest, s.Key)
	}
}

// idleSealEvery is how often a source may be sealed for being idle: once in the
// span of a bucket, or maxIdleSealEvery.
func idleSealEvery(o *schema.Timeseries) time.Duration {
	return time.Duration(min(o.MaxSpanSeconds, int64(maxIdleSealEvery/time.Second))) * time.Second
}

// spanOver reports whether a bucket that begins with a measurement of t accepts
// none of now or later.
func spanOver(t, now int64, o *schema.Timeseries) bool {
	return now == always || timeseries.Start(t, o) <= now-o.MaxSpanSeconds*1000
}

// Idle lists the keys of sources, at most n, that have open measurements of a bucket
// whose span is over at an instant, in milliseconds, except those that were sealed for
// being idle, or created, a short while ago. Each is for SealIdle.
func (t *Table) Idle(o *schema.Timeseries, now int64, n int) [][]byte {
	at := time.Since(t.made)
	var keys [][]byte
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.sources {
		if s.Count == 0 || s.idleSealAt > at || !spanOver(s.First, now, o) {
			continue
		}
		if keys = append(keys, s.Key); len(keys) == n {
			break
		}
	}
	return keys
}

// SealIdle seals the open measurements of a source, except those of a bucket whose
// span is not over at an instant, in milliseconds. Errors: those of run.
func (t *Table) SealIdle(ctx context.Context, run Run, o *schema.Timeseries, key []byte, now int64) error {
	if t.staged(key) {
		if err := t.Flush(ctx, run); err != nil {
			return err
		}
	}
	next := time.Since(t.made) + idleSealEvery(o)
	if err := t.sealSource(ctx, run, key, now); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sources[string(key)]; s != nil {
		s.idleSealAt = next
	}
	return nil
}

// sealSource seals, in a separate unit, the open measurements of a source, except
// those of buckets whose span is not over at an instant.
func (t *Table) sealSource(ctx context.Context, run Run, key []byte, now int64) error {
	return run(ctx, storage.Buffered, func(u Unit) error {
		w := writer{t: t, u: u}
		s, err := w.lockSource(ctx, key)
		if err != nil || s == nil {
			return err
		}
		ms, size, records, err := w.openOf(s)
		if err != nil || len(ms) == 0 {
			return err
		}
		pieces := timeseries.Cut(ms, u.Options())
		over, n := 0, 0
		for over < len(pieces) && spanOver(pieces[over][0].Time, now, u.Options()) {
			n += len(pieces[over])
			over++
		}
		if over == 0 {
			return nil
		}
		return w.seal(ctx, s, pieces[:over], ms[n:], records, size, t.numbers(1)+1)
	})
}

// sealWith puts the open measurements of a source and those being flushed into
// buckets. The newest stay open unless they fill one.
func (w *writer) sealWith(ctx context.Context, g *group, seq uint64) error {
	all, old, records, err := w.openOf(g.source)
	if err != nil {
		return err
	}
	pieces := timeseries.Cut(mergeByTime(all, g.ms), w.u.Options())
	var rest []timeseries.Measurement
	if last := pieces[len(pieces)-1]; !timeseries.IsFull(last) {
		rest, pieces = last, pieces[:len(pieces)-1]
	}
	return w.seal(ctx, g.source, pieces, rest, records, old+g.size, seq)
}

// seal puts measurements of a locked source into buckets, one for each piece, and
// stores the rest as open. The arguments include how many records and bytes were
// open before.
func (w *writer) seal(ctx context.Context, s *source, pieces [][]timeseries.Measurement, rest []timeseries.Measurement, records, size int, seq uint64) error {
	o := w.u.Options()
	for _, piece := range pieces {
		docs := make([]bson.Doc, len(piece))
		for i, m := range piece {
			docs[i] = m.Doc
		}
		start := timeseries.Start(piece[0].Time, o)
		if err := w.u.AddBucket(ctx, timeseries.Pack(timeseries.ID(start), start, piece[0].Meta, docs, o)); err != nil {
			return err
		}
	}
	if err := w.dropOpen(s.Key, records); err != nil {
		return err
	}
	if len(rest) > 0 {
		if err := w.setOpen(s.Key, rest, seq); err != nil {
			return err
		}
	}
	w.add(0, sizeOf(rest)-size)
	w.noteRest(s, rest, seq, len(pieces))
	return nil
}

// noteRest notes what is still open of a source, in records with numbers up to seq,
// after some buckets of it were sealed.
func (w *writer) noteRest(s *source, open []timeseries.Measurement, seq uint64, buckets int) {
	n := &Rest{Key: s.Key, Count: len(open), Size: sizeOf(open), Seq: seq, Buckets: buckets}
	if n.Count > 0 {
		n.First, n.Last = open[0].Time, open[n.Count-1].Time
	}
	w.u.Note(n)
}

// Edit changes the open measurements of one source: f gets them, by time, under the
// source's lock, and returns those that stay: possibly none, or with another meta
// value. It is called again where the unit has to start over. flush makes the units that
// flush what is staged, run the one of the change. Errors: those of both, and f's.
func (t *Table) Edit(ctx context.Context, flush, run Run, key []byte, d storage.Durability, f func([]timeseries.Measurement) ([]timeseries.Measurement, error)) error {
	if t.staged(key) {
		if err := t.Flush(ctx, flush); err != nil {
			return err
		}
	}
	return run(ctx, d, func(u Unit) error {
		w := writer{t: t, u: u}
		s, err := w.lockSource(ctx, key)
		if err != nil || s == nil {
			return err
		}
		ms, size, records, err := w.openOf(s)
		if err != nil || len(ms) == 0 {
			return err
		}
		n := len(ms)
		keep, err := f(ms)
		if err != nil || len(keep) == n && &keep[0] == &ms[0] {
			return err
		}
		if err := w.dropOpen(key, records); err != nil {
			return err
		}
		w.add(-n, -size)
		var same []timeseries.Measurement
		for _, m := range keep {
			if isOf(m, key) {
				same = append(same, m)
			}
		}
		w.noteRest(s, same, 0, 0)
		return w.reopen(ctx, keep)
	})
}

// reopen stores measurements, in the order of time, again as open ones under
// their sources; none is sealed.
func (w *writer) reopen(ctx context.Context, ms []timeseries.Measurement) error {
	if len(ms) == 0 {
		return nil
	}
	groups := bySource(ms)
	if err := w.lock(ctx, groups); err != nil {
		return err
	}
	seq := w.t.numbers(len(groups))
	note := &Reopened{Seq: seq + uint64(len(groups))}
	w.u.Note(note)
	size := 0
	for _, g := range groups {
		seq++
		size += g.size
		note.Sources = append(note.Sources, ReopenedSource{g.key, g.ms[0].Meta.Clone(), len(g.ms), g.size, g.first, g.last})
		if err := w.setOpen(g.key, g.ms, seq); err != nil {
			return err
		}
	}
	w.add(len(ms), size)
	return nil
}
