package cosmos

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// doc returns the resource for clients.
func (d *database) doc() bson.Doc {
	var b bson.Builder
	b.String("id", d.id).String("_rid", d.rid).String("_self", "dbs/"+d.rid+"/").String("_etag", d.etag)
	return b.String("_colls", "colls/").String("_users", "users/").Int64("_ts", d.seconds).Finish()
}

// stored returns the definition's document in config.cosmos.databases.
func (d *database) stored() bson.Doc {
	var b bson.Builder
	b.String("_id", d.id).String("rid", d.rid).String("etag", d.etag).Int64("ts", d.seconds)
	if d.offer != nil {
		b.Doc("offer", d.offer)
	}
	return b.Finish()
}

// database returns the database that the path names.
func (r *request) database() (*database, error) { return r.s.registry.database(r.path.db) }

// resource sends one resource with its etag.
func (r *request) resource(status int, d bson.Doc) error {
	r.w.Header().Set("Etag", d.Lookup("_etag").Str())
	if r.header("If-None-Match") == d.Lookup("_etag").Str() && r.Method == http.MethodGet {
		return r.send(http.StatusNotModified, nil)
	}
	return r.sendDoc(status, d)
}

// postDatabases creates a database, or queries them.
func (r *request) postDatabases() error {
	body, err := r.object()
	if err != nil {
		return err
	}
	if r.isQuery() {
		var docs []bson.Doc
		for _, d := range r.s.registry.databases() {
			docs = append(docs, d.doc())
		}
		return r.queryResources(body, "", "Databases", docs)
	}
	id, err := newID(body)
	if err != nil {
		return err
	}
	g := r.s.registry
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	if _, err := g.database(id); err == nil {
		return errConflict
	}
	if len(g.dbs) >= maxResources {
		return badRequest("The account has %d databases already.", maxResources)
	}
	d := &database{id: id, rid: newDatabaseRID(), etag: newETag(r.written), seconds: r.written, containers: map[string]*container{}}
	if d.offer, err = r.newOffer(); err != nil {
		return err
	}
	if err := g.put(r.Context(), databasesNamespace, d.stored()); err != nil {
		return err
	}
	g.publish(d)
	r.charge = chargeDefinition
	return r.resource(http.StatusCreated, d.doc())
}

// Charges in request units, near those of the service.
const (
	chargeRead       = 1
	chargeQuery      = 2.26
	chargeDefinition = 4.95
	chargeWrite      = 6.67
	chargeReplace    = 11.05
)

func (r *request) getDatabase() error {
	d, err := r.database()
	if err != nil {
		return err
	}
	return r.resource(http.StatusOK, d.doc())
}

func (r *request) listDatabases() error {
	var docs []bson.Doc
	for _, d := range r.s.registry.databases() {
		docs = append(docs, d.doc())
	}
	return r.sendFeed("", "Databases", docs)
}

func (r *request) deleteDatabase() error {
	g := r.s.registry
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	d, err := r.database()
	if err != nil {
		return err
	}
	if err := r.ifMatch(d.etag); err != nil {
		return err
	}
	if err := g.ownsAll(r.Context(), d); err != nil {
		return err
	}
	for _, c := range g.list(d) {
		if err := g.drop(r.Context(), c); err != nil {
			return err
		}
		d = d.with(c.id, nil)
		g.publish(d)
	}
	_, us, err := r.users()
	if err != nil {
		return err
	}
	for _, u := range us {
		if err := g.remove(r.Context(), usersNamespace, userID(u.db, u.id)); err != nil {
			return err
		}
	}
	if err := g.remove(r.Context(), databasesNamespace, bson.String(d.id)); err != nil {
		return err
	}
	g.mu.Lock()
	delete(g.dbs, d.id)
	g.mu.Unlock()
	r.charge = chargeDefinition
	return r.send(http.StatusNoContent, nil)
}

// maxNamed bounds the names in an error.
const maxNamed = 10

// ownsAll rejects the deletion of a database with collections or views that MongoDB
// clients have created: no feed of the endpoint shows them. Errors: 403. Later ones are
// kept: only collections of containers are dropped.
func (g *registry) ownsAll(ctx context.Context, d *database) error {
	own := map[string]bool{}
	for _, c := range g.list(d) {
		own[namespace(c.db, c.id).Coll] = true
	}
	var others []string
	all, err := g.keeper.names(ctx, databaseName(d.id))
	if err != nil {
		return err
	}
	for _, ns := range all {
		if name := ns.Coll; !own[name] && !ns.IsSystem() {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	names := strings.Join(others[:min(len(others), maxNamed)], ", ")
	return newError(http.StatusForbidden, "Database '%s' has %d MongoDB collections or views that are not containers (%s). Drop them with a MongoDB client first.", d.id, len(others), names)
}

// ifMatch checks If-Match against an etag. Errors: 412.
func (r *request) ifMatch(etag string) error {
	if m := r.header("If-Match"); m != "" && m != "*" && m != etag {
		return errMatch
	}
	return nil
}

// sendFeed sends a page of a list of resources.
func (r *request) sendFeed(rid, name string, docs []bson.Doc) error {
	values := make([]bson.Value, len(docs))
	for i, d := range docs {
		values[i] = bson.Document(d)
	}
	return r.sendPage(rid, name, values)
}

// sendPage sends the page of rows that the request's continuation and page size select.
// Errors: 400.
func (r *request) sendPage(rid, name string, all []bson.Value) error {
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	from, err := r.continuation()
	if err != nil {
		return err
	}
	rows := all[min(from.rows, int64(len(all))):]
	if len(rows) > size {
		rows = rows[:size]
		r.w.Header().Set("X-Ms-Continuation", place{rows: from.rows + int64(size)}.token())
	}
	return r.sendRows(rid, name, rows)
}

func (r *request) sendRows(rid, name string, values []bson.Value) error {
	var rows rowWriter
	for _, v := range values {
		rows.add(v)
	}
	return r.sendFeedOf(rid, name, &rows)
}

// rowWriter writes the rows of a feed as JSON.
type rowWriter struct {
	out  []byte // the elements of an array
	n    int
	hold memory.Holding
}

// pageCopies is the number of copies of a page in memory: while it is written, and while
// it is sent.
const pageCopies = 2

// full reports whether the page is full: by its number of rows, by its bytes, or because
// there is no memory for more.
func (w *rowWriter) full(size int) bool {
	if w.n >= size || len(w.out) >= maxPageBytes {
		return true
	}
	fits, err := w.hold.Spilling(pageCopies * len(w.out))
	return err != nil || !fits
}

func (w *rowWriter) next() {
	if w.n++; w.n > 1 {
		w.out = append(w.out, ',')
	}
}

func (w *rowWriter) add(v bson.Value) {
	w.next()
	w.out = nosql.AppendJSON(w.out, v)
}

// sendFeedOf sends {_rid, name: rows, _count}.
func (r *request) sendFeedOf(rid, name string, rows *rowWriter) error {
	head := append(nosql.AppendJSONText([]byte(`{"_rid":`), rid), ',')
	head = append(nosql.AppendJSONText(head, name), ":["...)
	n := strconv.Itoa(rows.n)
	tail := `],"_count":` + n + "}"
	r.w.Header().Set("X-Ms-Item-Count", n)
	return r.send(http.StatusOK, head, rows.out, []byte(tail))
}
