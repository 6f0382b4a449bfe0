package storage

import (
	"bytes"
	"context"
	"time"
)

const (
	// reclaimShare is the part of a keyspace's space that must be to give back for
	// Reclaim to rewrite it, and reclaimLeast how many bytes.
	reclaimShare = 20
	reclaimLeast = 1 << 20
)

// Reclaim gives back what deletions have left of a keyspace on disk, where that
// is worth it; live is as for Reclaimable. It rewrites some 64 MB at a time, and
// then calls pause with the time that took; an error of pause ends it.
func (e *Engine) Reclaim(ctx context.Context, id Ident, live int64, pause func(time.Duration) error) error {
	free, err := e.Reclaimable(id, live)
	if err != nil {
		return err
	}
	used, err := e.DiskUsage(id)
	if err != nil || free < reclaimLeast || free < used/reclaimShare || !e.space.spare(int64(used)) {
		return err
	}
	b, n := rangeBounds(nil, id, nil, nil)
	for from, end := b[:n], b[n:]; ; {
		to, err := e.reclaimTo(from, end)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := e.db.Compact(ctx, from, to, false); err != nil {
			return mapError(err)
		}
		if bytes.Equal(to, end) {
			return nil
		}
		if err := pause(time.Since(begun)); err != nil {
			return err
		}
		from = to
	}
}

// reclaimTo is where a step of Reclaim from a key on ends.
func (e *Engine) reclaimTo(from, end []byte) ([]byte, error) {
	levels, err := e.db.SSTables()
	if err != nil {
		return nil, mapError(err)
	}
	size := int64(0)
	for i := range levels[lastLevel] {
		t := &levels[lastLevel][i]
		if bytes.Compare(t.Largest.UserKey, from) <= 0 {
			continue
		}
		if bytes.Compare(t.Largest.UserKey, end) >= 0 {
			break
		}
		if size += int64(t.Size); size >= settleStep {
			return t.Largest.UserKey, nil
		}
	}
	return end, nil
}
