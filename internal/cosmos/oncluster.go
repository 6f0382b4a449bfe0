package cosmos

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The endpoint of a router. Who may do what is checked here. What is on definitions goes to
// the config servers (onConfig), what is on one partition to the shard that owns it
// (onPartition), and what spans partitions runs here, over the items that a find of this
// router returns (findInCluster).

// Cluster is what the endpoint of a router needs of the router.
type Cluster interface {
	// AskConfig runs a command on the primary of the config servers; retry if its answer may
	// have been lost and the command may run twice.
	AskConfig(ctx context.Context, db string, body bson.Doc, retry bool) (bson.Doc, error)
	// ReadConfig reads what a majority of the config servers has of a collection.
	ReadConfig(ctx context.Context, coll string, filter bson.Doc) ([]bson.Doc, error)
	// AskOwner runs a command on the shard that owns the documents with the fields of the
	// shard key that doc has, and adds the versions of its route. statement is called for each
	// route that is tried, with its generation and its shard key. retry is as for AskConfig.
	// Errors: 26 if the collection is not sharded.
	AskOwner(ctx context.Context, ns string, retry bool, statement func(generation string, key bson.Doc) (doc bson.Doc, body *bson.Builder, err error)) (bson.Doc, error)
	// AskRange is AskOwner of a range of a hash, nil for no bound: whole is false, and nobody was
	// asked, if the range is in no chunk.
	AskRange(ctx context.Context, ns string, low, high *int64, statement func(generation string, key bson.Doc) (*bson.Builder, error)) (reply bson.Doc, whole bool, err error)
	// Bounds returns where the chunks of a collection that is sharded by a hash end, but for
	// the last, and a text that is another one whenever they change: as the router knows them,
	// or as they are now.
	Bounds(ctx context.Context, ns string, now bool) (bounds []int64, version string, err error)
	// Feed opens the changes of a collection behind a token, nil for now, that match is true of,
	// nil for all.
	Feed(ctx context.Context, ns string, after, match bson.Doc) (changestream.Feed, error)
}

// answerInCluster answers a request to a router.
func (r *request) answerInCluster() error {
	switch r.path.kind {
	case kindAccount, kindRanges, kindScripts, kindScript:
		return r.answers(r)
	case kindItem, kindPartitionDelete:
		return r.onPartition(r.itemKey)
	case kindItems:
		return r.itemsInCluster()
	}
	return r.onConfig()
}

func (r *request) itemsInCluster() error {
	switch {
	case r.Method == http.MethodPost && r.isBatch() && !r.flag("X-Ms-Cosmos-Batch-Atomic"):
		return r.bulkInCluster()
	case r.Method == http.MethodPost && (r.isBatch() || !r.isQuery()):
		return r.onPartition(r.itemKey)
	case r.Method == http.MethodGet && r.header("A-Im") != "":
		return r.changesInCluster()
	}
	return r.answers(r)
}

// changesInCluster has the shard answer a change feed: of a partition, or of a range.
func (r *request) changesInCluster() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	if strings.EqualFold(r.header("A-Im"), "Full-Fidelity Feed") {
		return r.versionsInCluster(c, key)
	}
	if len(key) == len(c.key.paths) {
		return r.onPartition(func(*container) ([]bson.Value, error) { return key, nil })
	}
	k, err := r.scope()
	if err != nil {
		return err
	}
	ns := namespace(r.path.db, r.path.container)
	reply, whole, err := r.s.o.Cluster.AskRange(r.Context(), ns.String(), k.low, k.high, func(generation string, shardKey bson.Doc) (*bson.Builder, error) {
		b, err := r.statement(readOnShard, generation, shardKey, nil, func(*container, *bson.Builder) error { return nil })
		if err == nil {
			k.append(b)
		}
		return b, err
	})
	switch {
	case mongoerr.Is(err, mongoerr.NamespaceNotFound):
		return errNotFound
	case err != nil:
		return r.unanswered(err)
	case !whole && r.header(rangeHeader) == "":
		return badRequest("The container has several partition key ranges: a change feed is that of one of them (x-ms-documentdb-partitionkeyrangeid), or of one partition.")
	case !whole:
		return errGone
	}
	return r.pass(reply)
}

// statement is the command by which a shard runs the request with a body.
func (r *request) statement(name, generation string, shardKey bson.Doc, body []byte, add func(*container, *bson.Builder) error) (*bson.Builder, error) {
	c, err := r.s.known.container(r.Context(), r.s, r.path.db, r.path.container, generation)
	if err != nil {
		return nil, err
	}
	if err := r.mayUse(c.rid); err != nil {
		return nil, err
	}
	if bson.CompareDocs(shardKey, containerKey, nil) != 0 {
		return nil, badRequest("The collection of the container has another shard key than %s: it was resharded by a MongoDB client.", containerKey)
	}
	b := new(bson.Builder).String(name, namespace(r.path.db, r.path.container).Coll).Doc("container", c.raw)
	r.appendRequest(b, r.canonicalPath(), body)
	return b, add(c, b)
}

// onConfig has the config servers answer.
func (r *request) onConfig() error {
	body, err := r.body()
	if err != nil {
		return err
	}
	b := new(bson.Builder).Int32(onConfig, 1).Binary("tokenKey", 0, r.s.tokenKey)
	r.appendRequest(b, r.escapedPath(), body)
	b.Doc("writeConcern", majority)
	reply, err := r.s.o.Cluster.AskConfig(r.Context(), adminDB, b.Finish(), r.onlyReads())
	if err != nil {
		return r.unanswered(err)
	}
	r.s.known.forget(r.path.db, r.path.container)
	return r.pass(reply)
}

// unanswered is the error for the client where a server of the cluster did not answer: a
// router is no region of its own, so there is no other one to go to.
func (r *request) unanswered(err error) error {
	if e := asError(err); e.Substatus == substatusNotWritable {
		return newError(http.StatusServiceUnavailable, "%s", mongoerr.From(err).Message)
	}
	return err
}

// onPartition has the shard answer that owns the partition of the request.
func (r *request) onPartition(key func(*container) ([]bson.Value, error)) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	reply, err := r.askPartition(body, key)
	if err != nil {
		return err
	}
	return r.pass(reply)
}

// askPartition runs the request, with a body, on the shard that owns a partition.
func (r *request) askPartition(body []byte, key func(*container) ([]bson.Value, error)) (bson.Doc, error) {
	name, reads := writeOnShard, r.onlyReads()
	if reads {
		name = readOnShard
	}
	ns := namespace(r.path.db, r.path.container)
	reply, err := r.s.o.Cluster.AskOwner(r.Context(), ns.String(), reads, func(generation string, shardKey bson.Doc) (doc bson.Doc, b *bson.Builder, err error) {
		b, err = r.statement(name, generation, shardKey, body, func(c *container, b *bson.Builder) error {
			values, err := key(c)
			doc = new(bson.Builder).OpenDoc("_id").Doc("p", keyDocument(values...)).Close().Finish()
			if !reads {
				b.Doc("writeConcern", majority)
			}
			return err
		})
		return doc, b, err
	})
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, r.unanswered(err)
	}
	return reply, nil
}

// canonicalPath is the request's path by names, escaped. An item that is named by its resource
// id is still.
func (r *request) canonicalPath() string {
	p := "/dbs/" + url.PathEscape(r.path.db) + "/colls/" + url.PathEscape(r.path.container)
	switch r.path.kind {
	case kindPartitionDelete:
		return p + "/operations/partitionkeydelete"
	case kindItem:
		return p + "/docs/" + url.PathEscape(r.path.item)
	}
	return p + "/docs"
}

// bulkInCluster runs operations each by itself, those of one partition together.
func (r *request) bulkInCluster() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	ops, err := r.operations()
	if err != nil {
		return err
	}
	b := &bulk{r: r, results: make([]bson.Value, len(ops)), status: http.StatusOK}
	stops := strings.EqualFold(r.header("X-Ms-Cosmos-Batch-Continue-On-Error"), "false")
	groups, order := map[string]*group{}, []string(nil)
	for i, v := range ops {
		key, err := r.bulkKey(c, v)
		if err != nil {
			b.fail(i, asError(err))
			if stops {
				break
			}
			continue
		}
		text := string(keyDocument(key...))
		g := groups[text]
		if g == nil {
			g = &group{key: key}
			groups[text], order = g, append(order, text)
		}
		g.indexes, g.ops = append(g.indexes, i), append(g.ops, v)
		if stops && !b.run(&group{key: key, indexes: []int{i}, ops: []bson.Value{v}}) {
			break
		}
	}
	for _, text := range order {
		if !stops {
			b.run(groups[text])
		}
	}
	switch b.err {
	case nil:
		return b.send()
	case errSent:
		return nil
	}
	return b.err
}

// group is the operations of one partition.
type group struct {
	key     []bson.Value
	indexes []int // in the request
	ops     []bson.Value
}

// bulk collects the results of operations.
type bulk struct {
	r       *request
	results []bson.Value
	status  int
	charge  float64
	err     error // why the request ends
}

// fail sets the result of an operation that failed here.
func (b *bulk) fail(i int, e *Error) {
	d := new(bson.Builder).Int("statusCode", int64(e.Status))
	if e.Substatus != 0 {
		d.Int("subStatusCode", int64(e.Substatus))
	}
	b.results[i], b.status = bson.Document(d.Double("requestCharge", 1).Finish()), http.StatusMultiStatus
	b.charge++
}

// run runs a group, and reports whether all went well. A shard that finds its range gone
// answers for the operations before that; the others are sent to who owns it now.
func (b *bulk) run(g *group) bool {
	well := true
	for len(g.ops) > 0 && b.err == nil {
		body := nosql.AppendJSON(nil, bson.Array(g.ops...))
		reply, err := b.r.askPartition(body, func(*container) ([]bson.Value, error) { return g.key, nil })
		if err != nil {
			if e := asError(err); e.Status < http.StatusInternalServerError && b.r.ctx.Err() == nil {
				for _, i := range g.indexes {
					b.fail(i, e)
				}
				return false
			}
			b.err = err
			return false
		}
		_, text := reply.Lookup("body").Binary()
		v, err := nosql.ParseJSON(text)
		if err != nil || v.Type != bson.TypeArray || reply.Lookup("writeConcernError").Type == bson.TypeDocument {
			b.err = b.r.pass(reply) // an error of the whole request
			if b.err == nil {
				b.err = errSent
			}
			return false
		}
		done := v.Doc().Slice()
		for i, res := range done {
			b.results[g.indexes[i]] = res
			b.charge += bson.ToDouble(res.Doc().Lookup("requestCharge"))
			if bson.ClampToInt64(res.Doc().Lookup("statusCode")) >= http.StatusBadRequest {
				b.status, well = http.StatusMultiStatus, false
			}
		}
		g.ops, g.indexes = g.ops[len(done):], g.indexes[len(done):]
		if len(done) == 0 {
			b.err = newError(http.StatusServiceUnavailable, "The shard answered for no operation.")
		}
	}
	return well
}

// errSent says that the response has been sent.
var errSent = newError(0, "sent")

func (b *bulk) send() error {
	out := []byte{'['}
	for i, v := range b.results {
		if i > 0 {
			out = append(out, ',')
		}
		if v.IsMissing() {
			b.fail(i, newError(http.StatusFailedDependency, "An operation before it failed."))
			v = b.results[i]
		}
		out = nosql.AppendJSON(out, v)
	}
	b.r.charge = b.charge
	return b.r.send(b.status, append(out, ']'))
}

// findInCluster calls f for the items of the request's container that match a filter, in the
// order of sort, nil for any, until f returns false. The shards leave out what has expired.
func (r *request) findInCluster(filter, sort bson.Doc, f func(bson.Doc) (bool, error)) (docs int64, err error) {
	ns := namespace(r.path.db, r.path.container)
	b := new(bson.Builder).String("find", ns.Coll).Doc("filter", filter).Int32("batchSize", defaultPage+1).Bool("allowDiskUse", true)
	if sort != nil {
		b.Doc("sort", sort)
	}
	ctx := r.Context()
	reply, err := r.s.run(ctx, ns.DB, b.Finish())
	for name := "firstBatch"; err == nil; name = "nextBatch" {
		cursor := reply.Lookup("cursor").Doc()
		id := bson.ClampToInt64(cursor.Lookup("id"))
		for v := range cursor.Lookup(name).Doc().Values() {
			docs++
			more, err := f(v.Doc())
			if err == nil && more {
				continue
			}
			if id != 0 {
				kill := new(bson.Builder).String("killCursors", ns.Coll).OpenArray("cursors").Int64("0", id).Close().Finish()
				_, _ = r.s.run(context.WithoutCancel(ctx), ns.DB, kill) // else its time runs out
			}
			return docs, err
		}
		if id == 0 {
			break
		}
		reply, err = r.s.run(ctx, ns.DB, new(bson.Builder).Int64("getMore", id).String("collection", ns.Coll).Finish())
	}
	if err != nil {
		return docs, r.unanswered(err)
	}
	r.op.Stats.IsQuery, r.op.Stats.DocsExamined = true, r.op.Stats.DocsExamined+docs
	return docs, nil
}

// buildInCluster has the config servers make an index on all shards.
func (s *Server) buildInCluster(ctx context.Context, w wantedIndex) error {
	body := new(bson.Builder).String(indexOnConfig, w.name).String("database", w.db).String("container", w.container).Finish()
	if s.shard == nil {
		_, err := s.o.Cluster.AskConfig(ctx, adminDB, body, true)
		return err
	}
	if now := s.o.Catalog.Lookup(namespace(w.db, w.container)); now == nil || hasIndex(now, w.name) || len(pathIndexes(now)) >= maxPathIndexes {
		return nil
	}
	_, err := s.shard.AskConfig(ctx, adminDB, body)
	return err
}

const (
	// definitionAge is how long a router takes a definition for the newest. What must never be
	// older than a change of it, the time to live, the shards have themselves.
	definitionAge = time.Second
	// definitionWait is how long it waits for a newer one if it has one.
	definitionWait = 500 * time.Millisecond
	// maxDefinitions bounds the definitions that a router keeps. One more empties the map.
	maxDefinitions = 10000
)

// definitions are the containers that a router knows.
type definitions struct {
	mu  sync.Mutex
	all map[schema.Namespace]*definition
}

// definition is one, as it was read at a time under a route of a generation, "" for none.
type definition struct {
	c          *container
	generation string
	at         time.Time
}

// container returns a container. With a generation its definition was read while the
// collection had that generation, if the shard that is asked by that route still has: so it is
// that of this collection and not of an earlier one with the name. Errors: 404.
func (d *definitions) container(ctx context.Context, s *Server, db, id, generation string) (*container, error) {
	ns := schema.Namespace{DB: db, Coll: id}
	d.mu.Lock()
	e := d.all[ns]
	d.mu.Unlock()
	if e != nil && time.Since(e.at) < definitionAge && (generation == "" || e.generation == generation) {
		return e.c, nil
	}
	at := time.Now()
	filter := new(bson.Builder).OpenDoc("_id").String("d", db).String("c", id).Close().Finish()
	usable := e != nil && (generation == "" || e.generation == generation)
	asking, stop := ctx, func() {}
	if usable {
		asking, stop = context.WithTimeout(ctx, definitionWait)
	}
	docs, err := s.o.Cluster.ReadConfig(asking, containersNamespace.Coll, filter)
	stop()
	if err != nil && usable && ctx.Err() == nil {
		docs, at = []bson.Doc{e.c.raw}, time.Now() // the config servers do not answer
	} else if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		d.forget(db, id)
		return nil, errNotFound
	}
	raw := docs[0].Clone()
	same := e != nil && string(e.c.raw) == string(raw)
	if same && generation == "" {
		generation = e.generation // the container is the one that it was then
	}
	if !same {
		c, err := loadContainer(raw)
		if err != nil {
			return nil, err
		}
		c.raw, c.writes, c.ttl = raw, &catalog.Numbering{}, ttlPolicy{}
		e = &definition{c: c}
	}
	e = &definition{e.c, generation, at}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil || len(d.all) >= maxDefinitions {
		d.all = map[schema.Namespace]*definition{}
	}
	d.all[ns] = e
	return e.c, nil
}

// forget drops what is known of a container, or of all of a database.
func (d *definitions) forget(db, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ns := range d.all {
		if ns.DB == db && (id == "" || ns.Coll == id) {
			delete(d.all, ns)
		}
	}
}
