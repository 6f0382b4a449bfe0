package cosmos

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// container is one definition of a container, immutable except the live parts.
type container struct {
	db, id, rid, etag string
	seconds           int64 // _ts
	created           int64
	definition        bson.Doc // what the client sent, completed
	offer             bson.Doc
	key               partitionKey
	ttl               ttlPolicy
	unique            []uniqueKey
	indexing          indexPolicy
	queries           *queryCache

	ridBytes []byte // rid decoded
	selfLink string // the link by resource ids
	// The parent in responses about its items: its path, and its rid.
	parentPath, parentRID []string

	retention time.Duration // of the feed of all versions; 0 for none

	collection *catalog.Collection
	*numbers
	*blocks // on a shard

	raw bson.Doc // on a router: the definition as it is stored
}

// storedID is the _id of the definition.
func (c *container) storedID() bson.Value {
	return bson.Document(new(bson.Builder).String("d", c.db).String("c", c.id).Finish())
}

func (c *container) stored() bson.Doc {
	var b bson.Builder
	b.Value("_id", c.storedID()).String("rid", c.rid).String("etag", c.etag).Int64("ts", c.seconds).Int64("created", c.created).Doc("definition", c.definition)
	if c.offer != nil {
		b.Doc("offer", c.offer)
	}
	return b.Finish()
}

func loadContainer(d bson.Doc) (*container, error) {
	id := d.Lookup("_id").Doc()
	c := &container{
		db: id.Lookup("d").Str(), rid: d.Lookup("rid").Str(), etag: d.Lookup("etag").Str(), seconds: d.Lookup("ts").Int64(), created: d.Lookup("created").Int64(),
		numbers: &numbers{},
	}
	if o := d.Lookup("offer"); o.Type == bson.TypeDocument {
		c.offer = o.Doc()
	}
	return c, c.define(d.Lookup("definition").Doc())
}

// define reads a definition. Errors: 400.
func (c *container) define(d bson.Doc) error {
	var err error
	c.id = d.Lookup("id").Str()
	if c.key, err = parsePartitionKey(d.Lookup("partitionKey")); err != nil {
		return err
	}
	if c.ttl, err = parseTTL(d.Lookup("defaultTtl")); err != nil {
		return err
	}
	policy, err := completeIndexing(d.Lookup("indexingPolicy"), c.ttl.on)
	if err != nil {
		return err
	}
	if c.indexing, err = parseIndexPolicy(policy); err != nil {
		return err
	}
	computed, err := parseComputed(d.Lookup("computedProperties"))
	if err != nil {
		return err
	}
	c.queries = &queryCache{computed: computed}
	if c.unique, err = parseUniqueKeys(d.Lookup("uniqueKeyPolicy")); err != nil {
		return err
	}
	if err := checkGeospatial(d.Lookup("geospatialConfig")); err != nil {
		return err
	}
	if c.retention, err = parseRetention(d.Lookup("changeFeedPolicy")); err != nil {
		return err
	}
	c.definition = complete(d, policy)
	c.ridBytes = decodeRID(c.rid)
	c.parentPath, c.parentRID = []string{"dbs/" + headerText(c.db) + "/colls/" + headerText(c.id)}, []string{c.rid}
	c.selfLink = "dbs/" + encodeRID(c.ridBytes[:4]) + "/colls/" + c.rid + "/"
	return nil
}

// complete sorts a definition's fields like the service, adds its defaults, and removes
// the system's fields.
func complete(d, policy bson.Doc) bson.Doc {
	var b bson.Builder
	b.Value("id", d.Lookup("id")).Doc("indexingPolicy", policy)
	if v := d.Lookup("partitionKey"); v.Type == bson.TypeDocument {
		b.Value("partitionKey", v)
	} else {
		b.OpenDoc("partitionKey").Strings("paths", "/_partitionKey").String("kind", "Hash").Int32("version", 2).Bool("systemKey", true).Close()
	}
	if v := d.Lookup("defaultTtl"); v.IsNumber() {
		b.Value("defaultTtl", v)
	}
	if v := d.Lookup("uniqueKeyPolicy"); v.Type == bson.TypeDocument {
		b.Value("uniqueKeyPolicy", v)
	} else {
		b.OpenDoc("uniqueKeyPolicy").Array("uniqueKeys", bson.Empty).Close()
	}
	if v := d.Lookup("conflictResolutionPolicy"); v.Type == bson.TypeDocument {
		b.Value("conflictResolutionPolicy", v)
	} else {
		b.OpenDoc("conflictResolutionPolicy").String("mode", "LastWriterWins").String("conflictResolutionPath", "/_ts").String("conflictResolutionProcedure", "").Close()
	}
	if v := d.Lookup("geospatialConfig"); v.Type == bson.TypeDocument {
		b.Value("geospatialConfig", v)
	} else {
		b.OpenDoc("geospatialConfig").String("type", "Geography").Close()
	}
	done := b.Finish()
	var all bson.Builder
	all.Fields(done)
	for name, v := range d.All() {
		if !done.Has(name) && !systemOfContainer[name] && name != "defaultTtl" {
			all.Value(name, v)
		}
	}
	return all.Finish()
}

// systemOfContainer has the fields that the server sets.
var systemOfContainer = map[string]bool{
	"_rid": true, "_ts": true, "_self": true, "_etag": true, "_docs": true, "_sprocs": true, "_triggers": true, "_udfs": true, "_conflicts": true,
}

// doc returns the resource for clients.
func (c *container) doc() bson.Doc {
	var b bson.Builder
	b.Fields(c.definition).String("_rid", c.rid).Int64("_ts", c.seconds).String("_self", c.selfLink).String("_etag", c.etag)
	b.String("_docs", "docs/").String("_sprocs", "sprocs/").String("_triggers", "triggers/").String("_udfs", "udfs/").String("_conflicts", "conflicts/")
	return b.Finish()
}

// container returns the container that the path names.
func (r *request) container() (*container, error) {
	c, err := r.findContainer()
	if err == nil {
		r.lsn = c.writes.Latest()
		if r.path.kind == kindItem || r.path.kind == kindItems {
			h := r.w.Header()
			h["X-Ms-Alt-Content-Path"], h["X-Ms-Content-Path"] = c.parentPath, c.parentRID
		}
	}
	return c, err
}

func (r *request) findContainer() (c *container, err error) {
	switch {
	case r.cluster != nil && r.cluster.container != nil:
		return r.cluster.container, nil
	case r.s.o.Cluster != nil:
		c, err = r.s.known.container(r.Context(), r.s, r.path.db, r.path.container, "")
	default:
		c, err = r.s.registry.container(r.path.db, r.path.container)
	}
	if err == nil {
		err = r.mayUse(c.rid)
	}
	return c, err
}

// headerText returns an id for a header: non-ASCII characters are escaped.
func headerText(id string) string {
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return url.PathEscape(id)
		}
	}
	return id
}

func (r *request) containerDocs(d *database) []bson.Doc {
	var docs []bson.Doc
	for _, c := range r.s.registry.list(d) {
		docs = append(docs, c.doc())
	}
	return docs
}

func (r *request) listContainers() error {
	d, err := r.database()
	if err != nil {
		return err
	}
	return r.sendFeed(d.rid, "DocumentCollections", r.containerDocs(d))
}

// postContainers creates a container, or queries them.
func (r *request) postContainers() error {
	body, err := r.object()
	if err != nil {
		return err
	}
	g := r.s.registry
	if r.isQuery() {
		d, err := r.database()
		if err != nil {
			return err
		}
		return r.queryResources(body, d.rid, "DocumentCollections", r.containerDocs(d))
	}
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	d, err := r.database()
	if err != nil {
		return err
	}
	id, err := newID(body)
	if err != nil {
		return err
	}
	if _, err := g.container(d.id, id); err == nil {
		return errConflict
	}
	if len(d.containers) >= maxResources {
		return badRequest("The database has %d containers already.", maxResources)
	}
	c := &container{
		db: d.id, rid: newContainerRID(d.rid), etag: newETag(r.written), seconds: r.written, created: r.s.clock.At(r.now).UnixNano(), numbers: &numbers{},
	}
	if err := checkBoxes(body); err != nil {
		return err
	}
	if err := c.define(body); err != nil {
		return err
	}
	if err := r.s.keeper.check(c); err != nil {
		return err
	}
	if c.offer, err = r.newOffer(); err != nil {
		return err
	}
	// From here on nobody ends it: of what it does, others would remain undone.
	ctx := context.WithoutCancel(r.Context())
	if err := g.keeper.create(ctx, c); err != nil {
		return err
	}
	g.publish(d.with(c.id, c))
	if err := g.keeper.retain(ctx); err != nil {
		return err
	}
	r.charge = chargeDefinition
	r.contentPath(d)
	return r.resource(http.StatusCreated, c.doc())
}

// collect sets coll as the container's collection.
func (c *container) collect(coll *catalog.Collection) {
	c.collection, c.writes = coll, coll.Numbering()
}

// indexes returns the indexes that every container has, and those of its unique keys.
func (c *container) indexes() (own, unique []bson.Doc) {
	own = []bson.Doc{indexSpec(fieldNumber, false, fieldNumber), indexSpec(fieldLSN, false, fieldLSN)}
	for _, u := range c.unique {
		unique = append(unique, u.index())
	}
	return own, unique
}

func indexSpec(name string, unique bool, paths ...string) bson.Doc {
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key")
	for _, p := range paths {
		b.Int32(p, 1)
	}
	b.Close().String("name", name)
	if unique {
		b.Bool("unique", true)
	}
	return b.Finish()
}

// contentPath names the parent, without which the JavaScript SDK stores no
// session token.
func (r *request) contentPath(d *database) {
	r.w.Header().Set("X-Ms-Alt-Content-Path", "dbs/"+headerText(d.id))
	r.w.Header().Set("X-Ms-Content-Path", d.rid)
}

func (r *request) getContainer() error {
	d, err := r.database()
	if err != nil {
		return err
	}
	c, err := r.container()
	if err != nil {
		return err
	}
	r.contentPath(d)
	if r.flag("X-Ms-Documentdb-Populatequotainfo") {
		r.w.Header().Set("X-Ms-Documentdb-Collection-Index-Transformation-Progress", "100")
	}
	return r.resource(http.StatusOK, c.doc())
}

// toChange returns the container that the path names, with its database, if its etag
// matches the request's. Errors: 404, 412.
func (r *request) toChange() (*database, *container, error) {
	d, err := r.database()
	if err != nil {
		return nil, nil, err
	}
	c, err := r.container()
	if err != nil {
		return nil, nil, err
	}
	return d, c, r.ifMatch(c.etag)
}

// putContainer replaces a definition, except its id, its partition key and its unique
// keys.
func (r *request) putContainer(body bson.Doc) error {
	g := r.s.registry
	d, c, err := r.toChange()
	if err != nil {
		return err
	}
	if id := body.Lookup("id"); id.Type != bson.TypeString || id.Str() != c.id {
		return badRequest("Replacing the id of a container is not allowed.")
	}
	n := *c
	n.etag, n.seconds = newETag(r.written), r.written
	if err := checkBoxes(body); err != nil {
		return err
	}
	if err := n.define(body); err != nil {
		return err
	}
	if !n.key.equal(c.key) {
		return badRequest("Document collection partition key cannot be changed.")
	}
	if !sameUniqueKeys(n.unique, c.unique) {
		return newError(http.StatusForbidden, "Unique keys of a container cannot be changed.")
	}
	if err := g.keeper.check(&n); err != nil {
		return err
	}
	// From here on nobody ends it: the rule would be another one than the definition's.
	ctx := context.WithoutCancel(r.Context())
	if err := g.keeper.change(ctx, &n); err != nil {
		return err
	}
	if err := g.put(ctx, containersNamespace, n.stored()); err != nil {
		return errors.Join(err, g.keeper.change(ctx, c))
	}
	g.publish(d.with(n.id, &n))
	if err := g.keeper.retain(ctx); err != nil {
		return err
	}
	if err := g.keeper.dropExcluded(ctx, &n); err != nil {
		return err
	}
	r.charge = chargeDefinition
	r.contentPath(d)
	return r.resource(http.StatusOK, n.doc())
}

func (r *request) deleteContainer() error {
	g := r.s.registry
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	d, c, err := r.toChange()
	if err != nil {
		return err
	}
	if err := g.drop(r.Context(), c); err != nil {
		return err
	}
	g.publish(d.with(c.id, nil))
	r.charge = chargeDefinition
	return r.send(http.StatusNoContent, nil)
}

// drop removes a container with all its items. It ignores what MongoDB clients have
// dropped already.
func (g *registry) drop(ctx context.Context, c *container) error {
	ctx = context.WithoutCancel(ctx)
	if err := g.keeper.drop(ctx, c); err != nil {
		return err
	}
	if err := g.remove(ctx, containersNamespace, c.storedID()); err != nil {
		return err
	}
	return g.remove(ctx, numbersNamespace, bson.String(c.rid))
}
