package expire

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// An object is intended before it is stored: system.archive has its row, marked as writing. The
// unit that removes the documents makes a row of it. What is only intended, and not under way in
// this process, is of a server that has died or was deposed, or of a batch that was given up. It is
// marked as given up first, which no unit makes a row of any more; then the object is removed, then
// what was intended. So an object with a row is never removed, whoever does what at the same time.

const (
	// orphansAfter is how long after its start the monitor looks for such objects first, and
	// orphansEvery how often after that.
	orphansAfter = 30 * time.Second
	orphansEvery = time.Hour
)

// archives are what archiving has done since the start, and the objects that are under way.
type archives struct {
	mu       sync.Mutex
	underWay map[string]bool // by the _id of the row
	docs     int             // archiveDocs, but for tests
	// forgetting has one entry, of who removes documents from objects.
	forgetting chan struct{}

	objects, documents, bytes, windows, failures, orphans atomic.Int64
}

func (s *archives) begin(rows []archive.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay == nil {
		s.underWay = map[string]bool{}
	}
	for i := range rows {
		s.underWay[rows[i].ID()] = true
	}
}

func (s *archives) end(rows []archive.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		delete(s.underWay, rows[i].ID())
	}
}

func (s *archives) isUnderWay(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay[id]
}

func (s *archives) count(rows []archive.Row) {
	for i := range rows {
		s.objects.Add(1)
		s.documents.Add(rows[i].Rows)
		s.bytes.Add(rows[i].Bytes)
	}
}

// Archived writes the section about archiving of serverStatus.
func (m *Monitor) Archived() bson.Doc {
	s := &m.archives
	away := int64(0)
	for _, r := range m.rules() {
		c := m.o.Catalog.LookupUUID(r.collection)
		if c == nil {
			continue
		}
		if in := ruleOf(c, r); in != nil {
			if record := m.Status(c, r.index); record.archiveAway(in.Rule) != nil {
				away++
			}
		}
	}
	return new(bson.Builder).Int64("documents", s.documents.Load()).Int64("objects", s.objects.Load()).Int64("bytes", s.bytes.Load()).Int64("windows", s.windows.Load()).
		Int64("failures", s.failures.Load()).Int64("orphansRemoved", s.orphans.Load()).Int64("rulesAway", away).Finish()
}

// giveUp removes the objects of a batch that was not removed, outside of the gate. What it leaves, the
// collector finds. uncommitted says that no unit has made rows of them for sure: then one without what was
// intended is removed, too, which another primary may have collected before it was stored.
func (m *Monitor) giveUp(ctx context.Context, coll *catalog.Collection, rows []archive.Row, uncommitted bool) error {
	defer m.archives.end(rows)
	if m.o.Dispatcher.TakesWrites() != nil || ctx.Err() != nil {
		return nil
	}
	for i := range rows {
		_, missing, err := m.collect(ctx, coll, rows[i].ID())
		if err == nil && missing && uncommitted {
			err = m.removeObject(ctx, &rows[i])
		}
		switch away := (storeError{}); {
		case errors.As(err, &away), mongoerr.Is(err, mongoerr.UserWritesBlocked):
			return nil // the collector tries again
		case err != nil:
			return err
		}
	}
	return nil
}

// collect removes an object that is only intended. It reports whether there was one, and whether there is
// no row at all. It is outside of the gate while it asks the store.
func (m *Monitor) collect(ctx context.Context, coll *catalog.Collection, id string) (found, missing bool, err error) {
	var row archive.Row
	change := func(next func(u *catalog.Unit, key catalog.RecordKey, old bson.Doc) error) error {
		pass, err := m.enter(ctx, coll.Namespace.DB)
		if err != nil {
			return err
		}
		defer pass.leave()
		return m.o.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
			found, missing = false, false
			key, old, err := u.LockID(ctx, coll, bson.String(id))
			missing = old == nil
			if err != nil || old == nil {
				return err
			}
			if row, found = archive.ParseRow(old); !found || !row.Writing {
				found = false
				return nil
			}
			return next(u, key, old)
		})
	}
	err = change(func(u *catalog.Unit, key catalog.RecordKey, old bson.Doc) error {
		row.GivenUp = true
		return u.Update(ctx, coll, key, old, row.Doc())
	})
	if err != nil || !found {
		return false, missing, err
	}
	owner, err := m.owner()
	if err != nil {
		return false, missing, err
	}
	if row.Owner == owner { // else the data were restored, or copied: the object may be another server's
		if err := m.removeObject(ctx, &row); err != nil {
			return false, missing, err
		}
	}
	return true, false, change(func(u *catalog.Unit, key catalog.RecordKey, old bson.Doc) error { return u.Delete(ctx, coll, key, old) })
}

// owner is the id of this server or its replica set; "" for none.
func (m *Monitor) owner() (string, error) {
	if m.o.Owner == nil {
		return "", nil
	}
	return m.o.Owner()
}

func (m *Monitor) removeObject(ctx context.Context, row *archive.Row) error {
	s, err := m.o.Archives.Open(ctx, row.To)
	if err == nil {
		err = archive.Remove(ctx, s, row.Path)
	}
	if err != nil {
		return storeError{err}
	}
	return nil
}

// collectOrphans removes, from time to time, what servers that have died have left in archives.
func (m *Monitor) collectOrphans(ctx context.Context) {
	for wait := orphansAfter; ; wait = orphansEvery {
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		if m.o.Archives == nil || m.o.Dispatcher.TakesWrites() != nil {
			continue
		}
		if n, err := m.CollectOrphans(ctx); err != nil && ctx.Err() == nil {
			m.say(ctx, slog.LevelWarn, logOrphans, "archived objects without a row could not be removed", slog.String("error", err.Error()))
		} else if n > 0 {
			m.say(ctx, slog.LevelInfo, logOrphans, "removed archived objects without a row", slog.Int64("objects", n))
		}
	}
}

// CollectOrphans removes the objects that are intended only, and not under way here, and gives up those
// that have expired. It returns how many the first were. What fails does not keep it from the rest.
func (m *Monitor) CollectOrphans(ctx context.Context) (n int64, err error) {
	if m.o.Shares != nil {
		return 0, nil // a shard may have the rows of another, whose objects those are
	}
	away := map[string]error{} // of the places that have failed: the rest of theirs waits for the next time
	for _, db := range m.o.Catalog.Databases() {
		coll := m.o.Catalog.Lookup(schema.Namespace{DB: db, Coll: schema.ArchiveCollection})
		if coll == nil {
			continue
		}
		found, failed := m.collectIn(ctx, coll, away)
		n += found
		err = errors.Join(err, failed, m.expireArchive(ctx, coll))
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
	}
	return n, errors.Join(append(slices.Collect(maps.Values(away)), err)...)
}

// collectIn is CollectOrphans of a database, but for the places that are away, to which it adds.
func (m *Monitor) collectIn(ctx context.Context, coll *catalog.Collection, away map[string]error) (n int64, err error) {
	rows, err := m.intended(ctx, coll)
	if err != nil {
		return 0, err
	}
	n, _, err = m.collectRows(ctx, coll, rows, away)
	return n, err
}

// collectRows collects objects that are intended only, but for those in places that are away, to which it
// adds. It returns how many there were, and how many wait for their place.
func (m *Monitor) collectRows(ctx context.Context, coll *catalog.Collection, rows []archive.Row, away map[string]error) (n, waiting int64, err error) {
	for i := range rows {
		r := &rows[i]
		if away[r.To] != nil {
			waiting++
			continue
		}
		found, _, err := m.collect(ctx, coll, r.ID())
		if store := (storeError{}); errors.As(err, &store) {
			away[r.To] = err
			waiting++
			continue
		}
		if err != nil {
			return n, waiting, err
		}
		if found {
			n++
			m.archives.orphans.Add(1)
		}
	}
	return n, waiting, nil
}

// expireArchive gives up the objects whose documents have been archived long enough, by their rule
// as it is now. They are removed an hour later: what reads them by then goes on.
func (m *Monitor) expireArchive(ctx context.Context, coll *catalog.Collection) error {
	ids, err := m.expiredObjects(ctx, coll)
	if err != nil || len(ids) == 0 {
		return err
	}
	pass, err := m.enter(ctx, coll.Namespace.DB)
	if err != nil {
		return err
	}
	defer pass.leave()
	for _, id := range ids {
		err := m.o.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
			key, old, err := u.LockID(ctx, coll, bson.String(id))
			if err != nil || old == nil {
				return err
			}
			row, ok := archive.ParseRow(old)
			if !ok || !m.archiveExpired(&row) {
				return nil
			}
			row.Writing, row.GivenUp = true, true
			return u.Update(ctx, coll, key, old, row.Doc())
		})
		if err != nil {
			return err
		}
	}
	m.say(ctx, slog.LevelInfo, logArchiveExpired, "archived objects have expired", slog.String("namespace", coll.Namespace.String()), slog.Int("objects", len(ids)))
	return nil
}

// archiveExpired reports whether an object has been kept as long as its rule says.
func (m *Monitor) archiveExpired(row *archive.Row) bool {
	c := m.o.Catalog.LookupUUID(catalog.UUID(row.Collection))
	if row.Writing || c == nil {
		return false
	}
	for _, r := range c.Archiving() {
		if keep := r.Settings.Archive.ExpireAfterSeconds; r.Name() == row.Rule && keep > 0 && !r.Settings.Paused {
			return row.Gone <= m.o.Catalog.Clock.ExpiryTime()-1000*keep
		}
	}
	return false
}

func (m *Monitor) expiredObjects(ctx context.Context, coll *catalog.Collection) (ids []string, err error) {
	q := &exec.Query{}
	if q.Filter, err = match.Parse(bson.Empty, nil); err != nil {
		return nil, err
	}
	cur, err := m.o.Exec.Find(ctx, coll, q)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	for len(ids) < maxIntended {
		d, err := cur.Next(ctx)
		if err != nil || d == nil {
			return ids, err
		}
		if row, ok := archive.ParseRow(d); ok && m.archiveExpired(&row) {
			ids = append(ids, row.ID())
		}
	}
	return ids, nil
}

// maxIntended bounds the objects that are given up or collected at once.
const maxIntended = 10_000

// intended lists what is intended only, and not under way here.
func (m *Monitor) intended(ctx context.Context, coll *catalog.Collection) (rows []archive.Row, err error) {
	q := &exec.Query{}
	if q.Filter, err = match.Parse(new(bson.Builder).Bool("writing", true).Finish(), nil); err != nil {
		return nil, err
	}
	cur, err := m.o.Exec.Find(ctx, coll, q)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	for len(rows) < maxIntended {
		d, err := cur.Next(ctx)
		if err != nil || d == nil {
			return rows, err
		}
		if row, ok := archive.ParseRow(d); ok && !m.archives.isUnderWay(row.ID()) {
			rows = append(rows, archive.Row{To: row.To, Path: row.Path})
		}
	}
	return rows, nil
}
