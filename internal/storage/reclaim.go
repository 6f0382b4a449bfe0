package storage

import (
	"bytes"
	"context"
	"errors"
	"time"
)

const (
	// reclaimShare is the share of a keyspace's space that must be reclaimable for
	// Reclaim to rewrite it, and reclaimLeast how many bytes.
	reclaimShare = 20
	reclaimLeast = 1 << 20
	// compactPatience is how long about 64 MB of a keyspace may take to be
	// rewritten, including the wait for other compactions of the same tables.
	compactPatience = time.Minute
)

// Reclaim frees the disk space that deletions have left in a keyspace, where that
// is worth it; live is as for Reclaimable. It rewrites some 64 MB at a time, and then
// calls pause with the time that took. It ends with an error of pause, and where a step
// does not get its turn within compactPatience.
func (e *Engine) Reclaim(ctx context.Context, id Ident, live int64, pause func(time.Duration) error) error {
	free, err := e.Reclaimable(id, live)
	if err != nil {
		return err
	}
	used, err := e.DiskUsage(id)
	if err != nil || free < reclaimLeast || free < used/reclaimShare || !e.space.spare(int64(used)) {
		return err
	}
	_, err = e.rewrite(ctx, id, pause)
	return err
}

// Compact rewrites the keyspace's tables so that deleted data gives its space
// back, but for what readers still see. whole is false if it has ended before
// the last table, because none could be rewritten for compactPatience.
func (e *Engine) Compact(ctx context.Context, id Ident) (whole bool, err error) {
	if err := errors.Join(e.views.letGo(), e.retired.letGo()); err != nil {
		return false, mapError(err)
	}
	return e.rewrite(ctx, id, func(time.Duration) error { return nil })
}

// rewrite compacts a keyspace in steps, each of which may take compactPatience:
// Pebble prefers its own compactions to manual ones, and postpones these while
// others use tables of the same range. Under a load that always causes new ones that
// lasts as long as the load.
func (e *Engine) rewrite(ctx context.Context, id Ident, pause func(time.Duration) error) (whole bool, err error) {
	b, n := rangeBounds(nil, id, nil, nil)
	for from, end := b[:n], b[n:]; ; {
		to, err := e.stepEnd(from, end)
		if err != nil {
			return false, err
		}
		begun := time.Now()
		patient, cancel := context.WithTimeout(ctx, e.opts.patience)
		err = e.db.Compact(patient, from, to, false)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return false, nil
		case err != nil:
			return false, mapError(err)
		case bytes.Equal(to, end):
			return true, nil
		}
		if err := pause(time.Since(begun)); err != nil {
			return false, err
		}
		from = to
	}
}

// stepEnd returns where a step of rewrite from a key on ends.
func (e *Engine) stepEnd(from, end []byte) ([]byte, error) {
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
		if size += int64(t.Size); size >= compactStep {
			return t.Largest.UserKey, nil
		}
	}
	return end, nil
}
