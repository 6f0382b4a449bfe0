package node

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxArchiveRows bounds the objects that an operation reads.
const maxArchiveRows = 100_000

// registerArchive adds the parameters of archives.
func (n *Node) registerArchive(p *command.Params) {
	places := p.String(command.StringSpec{Name: "archivePlaces", Startup: true, Valid: archive.ValidPlaces})
	n.Archives = archive.NewPlaces(places.Load)
	n.archiveRead = p.Int(command.IntSpec{Name: "archiveMaxBytesRead", Default: 64 << 30, HasMin: true, Long: true})
}

// ArchiveOwner is the id of this server, or of its replica set, in rows of system.archive.
func (n *Node) ArchiveOwner() (string, error) {
	if n.Dispatcher.Member == nil {
		return serverID(n.Process.DBPath)
	}
	st, err := n.setState()
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(st.Config.ID[:]), nil
}

// checkArchives refuses indexes that archive where the operator does not allow it. Errors: 72.
func (n *Node) checkArchives(specs []bson.Doc) error {
	for _, spec := range specs {
		v := spec.Lookup("storageEngine")
		if v.Type != bson.TypeDocument {
			continue
		}
		e, _, err := schema.ExpiryOf(v.Doc())
		if err == nil {
			err = n.checkArchive(e.Archive)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) checkArchive(a *schema.Archive) error {
	switch {
	case a == nil:
		return nil
	case n.shard:
		return mongoerr.New(mongoerr.InvalidOptions, "'storageEngine.mayfly.expiry.archive' is not supported on a cluster")
	}
	return n.Archives.Allow(a.To)
}

// checkArchiveMoves refuses the rename of a collection into another database if some of it is, or is
// about to be, archived: rows of objects are in the manifest of its database, under the UUID that it
// has there, and would be lost with that database. Errors: 20.
func (n *Node) checkArchiveMoves(ctx context.Context, c *catalog.Collection, to schema.Namespace) error {
	manifest := n.Catalog.Lookup(manifestOf(c.Namespace))
	if to.DB == c.Namespace.DB || manifest == nil && c.Archiving() == nil {
		return nil
	}
	refused := mongoerr.New(mongoerr.IllegalOperation, "Cannot rename '%s' to another database: documents of it are archived, and are found in its database only", c.Namespace)
	if c.Archiving() != nil {
		return refused
	}
	q := &exec.Query{}
	var err error
	if q.Filter, err = match.Parse(new(bson.Builder).Binary("collection", 4, c.UUID[:]).Finish(), nil); err != nil {
		return err
	}
	cur, err := n.Exec.Find(ctx, manifest, q)
	if err != nil {
		return err
	}
	defer cur.Close()
	if d, err := cur.Next(ctx); err != nil || d == nil {
		return err
	}
	return refused
}

// Archived opens the stage $archive.
func (w *world) Archived(ctx context.Context, a *pipeline.Archive, run *pipeline.Run) (pipeline.Iterator, error) {
	if w.n.shard {
		return nil, mongoerr.New(mongoerr.CommandNotSupported, "$archive is not supported on a cluster")
	}
	r := &archiveReader{n: w.n, filter: a.Filter, env: match.Env{Expr: run.Env}, bounds: archive.BoundsOf(a.Query, run.Env.Collator == nil)}
	manifest, err := w.n.lookupAt(w.query.At, manifestOf(w.ns), w.n.lookup(w.op, manifestOf(w.ns)))
	if err != nil {
		return nil, err
	}
	of := archivedOf{ns: w.ns, coll: w.coll, all: a.All, objects: a.Objects}
	if r.rows, err = w.n.archiveRows(ctx, manifest, w.query.At, of, func(row *archive.Row) bool { return !row.Writing && r.bounds.MayHave(row) }); err != nil {
		return nil, err
	}
	whole := int64(0) // of which row groups are read is counted as they are
	for i := range r.rows {
		if !r.bounds.Narrow(&r.rows[i]) {
			whole += r.rows[i].Bytes
		}
	}
	if err := w.n.mayReadArchived(whole); err != nil {
		return nil, err
	}
	r.memory.Open(w.n.Exec.Memory)
	r.holding = r.memory.Hold(r)
	return r, nil
}

// mayReadArchived refuses an operation that reads so many bytes of archives. Errors: 292.
func (n *Node) mayReadArchived(bytes int64) error {
	if most := n.archiveRead.Load(); most > 0 && bytes > most {
		return mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "the operation would read %d bytes of the archive, and archiveMaxBytesRead is %d: ask for fewer days", bytes, most)
	}
	return nil
}

// manifestOf is where the rows of the objects of a collection are.
func manifestOf(ns schema.Namespace) schema.Namespace {
	return schema.Namespace{DB: ns.DB, Coll: schema.ArchiveCollection}
}

// archivedOf says of which collection archived objects are asked for.
type archivedOf struct {
	ns      schema.Namespace
	coll    *catalog.Collection // of that name now; nil for none
	all     bool                // of all that had the name
	objects map[string]bool     // the _ids of their rows; nil for all
}

// filter finds the rows in the manifest.
func (of *archivedOf) filter() bson.Doc {
	b := new(bson.Builder)
	switch {
	case of.objects != nil:
		b.OpenDoc("_id").Strings("$in", slices.Sorted(maps.Keys(of.objects))...).Close()
	case of.all:
		b.OpenArray("$or").OpenDoc("0").String("ns", of.ns.String()).Close()
		if of.coll != nil { // it may have had another name
			b.OpenDoc("1").Binary("collection", 4, of.coll.UUID[:]).Close()
		}
		b.Close()
	default:
		b.Binary("collection", 4, of.coll.UUID[:])
	}
	return b.Finish()
}

// has reports whether an object is of the collection. One of a collection that has another name by now is
// found by that one only, and by those who may read it.
func (n *Node) has(of *archivedOf, row *archive.Row) bool {
	if of.coll != nil && row.Collection == of.coll.UUID {
		return true
	}
	if !of.all || row.Namespace != of.ns.String() {
		return false
	}
	c := n.Catalog.LookupUUID(catalog.UUID(row.Collection))
	return c == nil || c.Namespace == of.ns
}

// archiveRows returns the rows of a manifest, nil for none, of the objects of a collection which takes
// takes, in the order of their dates, as they are in a state; nil is the newest one. Errors: 96 for objects
// that were asked for by name and have no row: they were replaced, or have expired.
func (n *Node) archiveRows(ctx context.Context, manifest *catalog.Collection, at *exec.StoreState, of archivedOf, takes func(*archive.Row) bool) (rows []archive.Row, err error) {
	missing := maps.Clone(of.objects)
	if manifest != nil && (of.coll != nil || of.all || of.objects != nil) {
		rows, err = n.findArchiveRows(ctx, manifest, at, &of, missing, takes)
	}
	if err == nil && len(missing) > 0 {
		id := slices.Min(slices.Collect(maps.Keys(missing)))
		err = mongoerr.New(mongoerr.OperationFailed, "%s is no archived object of the database %s, or no longer: it was replaced, or has expired", id, of.ns.DB)
	}
	return rows, err
}

// findArchiveRows is archiveRows. It takes the _ids of rows out of missing.
func (n *Node) findArchiveRows(ctx context.Context, manifest *catalog.Collection, at *exec.StoreState, of *archivedOf, missing map[string]bool, takes func(*archive.Row) bool) (rows []archive.Row, err error) {
	q := &exec.Query{At: at}
	if q.Filter, err = match.Parse(of.filter(), nil); err != nil {
		return nil, err
	}
	cur, err := n.Exec.Find(ctx, manifest, q)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	for {
		d, err := cur.Next(ctx)
		if err != nil {
			return nil, err
		}
		if d == nil {
			break
		}
		row, ok := archive.ParseRow(d)
		if !ok {
			return nil, mongoerr.New(mongoerr.InternalError, "%s has a document that is no row of an archive: %s", manifest.Namespace, d.Lookup("_id"))
		}
		if !row.Writing {
			delete(missing, row.ID())
		}
		if !n.has(of, &row) || !takes(&row) {
			continue
		}
		if rows = append(rows, row); len(rows) > maxArchiveRows {
			return nil, mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "the operation would read more than %d archived objects: ask for fewer days", maxArchiveRows)
		}
	}
	slices.SortStableFunc(rows, func(a, b archive.Row) int {
		switch {
		case a.From < b.From:
			return -1
		case a.From > b.From:
			return 1
		}
		return 0
	})
	return rows, nil
}

// archiveReader reads archived documents, one object after the other.
type archiveReader struct {
	n       *Node
	filter  *match.Filter
	env     match.Env
	bounds  archive.Bounds
	rows    []archive.Row // what is left
	docs    []bson.Doc    // of the object that was read last, what is left
	size    int           // bytes that are booked for that
	memory  memory.Account
	holding memory.Holding
	ctx     context.Context // of the current call
	stats   pipeline.ArchiveStats
}

// ArchiveStats is what was read.
func (r *archiveReader) ArchiveStats() *pipeline.ArchiveStats { return &r.stats }

// Context implements memory.Waiter.
func (r *archiveReader) Context() context.Context { return r.ctx }

// Next implements pipeline.Iterator. Errors: 96 for an object that is not what was written, or
// that the store does not give.
func (r *archiveReader) Next(ctx context.Context) (bson.Doc, error) {
	r.ctx = ctx
	for len(r.docs) == 0 {
		if len(r.rows) == 0 {
			return nil, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := r.object(ctx, &r.rows[0]); err != nil {
			return nil, readError(ctx, err)
		}
		r.rows = r.rows[1:]
	}
	d := r.docs[0]
	r.docs = r.docs[1:]
	return d, nil
}

// readError is the user's error for one met while an object was read: what has ended the operation,
// or what is not the store's fault, is said as it is.
func readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e := (*mongoerr.Error)(nil); errors.As(err, &e) {
		return e
	}
	return mongoerr.New(mongoerr.OperationFailed, "%s", err)
}

// object reads what matches of an object.
func (r *archiveReader) object(ctx context.Context, row *archive.Row) error {
	s, err := r.n.Archives.Open(ctx, row.To)
	if err != nil {
		return err
	}
	r.docs, r.size = nil, 0
	r.stats.Objects++
	if r.bounds.Narrow(row) {
		return r.partly(ctx, s, row)
	}
	if err := r.count(row.Bytes); err != nil {
		return err
	}
	r.stats.RowGroups += int64(max(1, len(row.Parts)-1))
	content, err := archive.Fetch(ctx, s, row)
	if err != nil {
		return err
	}
	return archive.Documents(bytes.NewReader(content), row.Bytes, r.take)
}

// partly reads what matches of the row groups that may have it.
func (r *archiveReader) partly(ctx context.Context, s objectstore.Store, row *archive.Row) error {
	if err := r.count(row.Parts[len(row.Parts)-1].Bytes); err != nil {
		return err
	}
	p, err := archive.OpenPartly(ctx, s, row)
	if err != nil {
		return err
	}
	groups, size, err := p.Groups(r.bounds)
	if err == nil {
		err = r.count(size)
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := p.Documents(ctx, g, r.take); err != nil {
			return err
		}
	}
	r.stats.RowGroups += int64(len(groups))
	return nil
}

// count counts and books bytes that are about to be read. Errors: 292 if they are more than an operation
// may read.
func (r *archiveReader) count(bytes int64) error {
	if err := r.n.mayReadArchived(r.stats.Bytes + bytes); err != nil {
		return err
	}
	r.stats.Bytes += bytes
	return r.hold(bytes)
}

// hold books bytes in addition to those that are.
func (r *archiveReader) hold(bytes int64) error {
	r.size += int(bytes)
	return r.holding.Set(r.size)
}

// take keeps a document that matches.
func (r *archiveReader) take(d bson.Doc) (bool, error) {
	ok, err := r.filter.MatchEnv(d, &r.env)
	if err != nil || !ok {
		return true, err
	}
	if err := r.hold(int64(len(d))); err != nil {
		return false, err
	}
	r.docs = append(r.docs, d.Clone())
	return true, nil
}

// Close implements pipeline.Iterator.
func (r *archiveReader) Close() {
	r.rows, r.docs = nil, nil
	r.memory.Close()
}
