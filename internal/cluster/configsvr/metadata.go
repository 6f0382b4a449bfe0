package configsvr

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// shardDoc is a document of config.shards.
type shardDoc struct {
	ID, Host string
	Draining bool
	Zones    []string
	doc      bson.Doc
}

// shards returns all shards, ordered by id.
func (s *Server) shards() ([]shardDoc, error) {
	docs, err := s.all(shards)
	var out []shardDoc
	for _, d := range docs {
		out = append(out, s.parseShard(d))
	}
	return out, err
}

func (s *Server) parseShard(d bson.Doc) shardDoc {
	sh := shardDoc{ID: text(d, "_id"), Host: text(d, "host"), Draining: d.Lookup("draining").Truthy(), doc: d}
	if v := d.Lookup("tags"); v.Type == bson.TypeArray {
		for t := range v.Doc().Values() {
			if t.Type == bson.TypeString {
				sh.Zones = append(sh.Zones, t.Str())
			}
		}
	}
	if sh.ID == configShard { // whatever their members were when they became a shard
		sh.Host = s.ConfigDB()
	}
	return sh
}

// text returns a field that is a string, "" if it is not one.
func text(d bson.Doc, name string) string {
	if v := d.Lookup(name); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// shard returns the shard with an id. Errors: 70.
func (s *Server) shard(id string) (shardDoc, error) {
	d, err := s.stored(shards, bson.String(id))
	if err == nil && d == nil {
		err = mongoerr.New(mongoerr.ShardNotFound, "Shard %s not found", id)
	}
	return s.parseShard(d), err
}

func ids(of []shardDoc) []string {
	out := make([]string, 0, len(of))
	for _, sh := range of {
		out = append(out, sh.ID)
	}
	return out
}

// databaseDoc is a document of config.databases.
type databaseDoc struct {
	Name, Primary string
	Version       bson.Doc
}

func (d *databaseDoc) put() write {
	return put(databases, new(bson.Builder).String("_id", d.Name).String("primary", d.Primary).Doc("version", d.Version).Finish())
}

// next returns the version that follows when the primary shard changes.
func (d *databaseDoc) next() bson.Doc {
	n, _ := bson.ExactInt64(d.Version.Lookup("lastMod"))
	return new(bson.Builder).Value("uuid", d.Version.Lookup("uuid")).Value("timestamp", d.Version.Lookup("timestamp")).Int32("lastMod", int32(n+1)).Finish()
}

// newDatabase returns a database that is created now.
func (s *Server) newDatabase(name, primary string) databaseDoc {
	id := newUUID()
	return databaseDoc{name, primary, new(bson.Builder).Binary("uuid", 4, id[:]).Timestamp("timestamp", s.ClusterTime()).Int32("lastMod", 1).Finish()}
}

func parseDatabase(d bson.Doc) databaseDoc {
	db := databaseDoc{Name: text(d, "_id"), Primary: text(d, "primary")}
	if v := d.Lookup("version"); v.Type == bson.TypeDocument {
		db.Version = v.Doc()
	}
	return db
}

// database returns the database with a name, or one with an empty name.
func (s *Server) database(name string) (databaseDoc, error) {
	d, err := s.stored(databases, bson.String(name))
	return parseDatabase(d), err
}

// existing returns the database with a name. Errors: 26.
func (s *Server) existing(name string) (databaseDoc, error) {
	d, err := s.database(name)
	if err == nil && d.Name == "" {
		err = mongoerr.New(mongoerr.NamespaceNotFound, "database %s not found", name)
	}
	return d, err
}

// collectionDoc is a document of config.collections.
type collectionDoc struct {
	Namespace string
	UUID      bson.UUID
	Key       *shard.Key
	Unique    bool
	// Unsplittable: it is not sharded, and lies on a shard of its own choice, as one chunk.
	Unsplittable bool
	// Timeseries are the options of a time series, whose key is that of its buckets; nil for
	// any other. Its document has the namespace of the buckets.
	Timeseries *schema.Timeseries
	shard.Generation
	doc bson.Doc
}

func parseCollection(d bson.Doc) (collectionDoc, error) {
	c := collectionDoc{Namespace: text(d, "_id"), Unique: d.Lookup("unique").Truthy(), Unsplittable: d.Lookup("unsplittable").Truthy(), doc: d}
	epoch, at, id, key := d.Lookup("lastmodEpoch"), d.Lookup("timestamp"), d.Lookup("uuid"), d.Lookup("key")
	if epoch.Type != bson.TypeObjectID || at.Type != bson.TypeTimestamp || id.Type != bson.TypeBinary || key.Type != bson.TypeDocument {
		return c, mongoerr.New(mongoerr.BadValue, "invalid document in config.collections: %s", d)
	}
	if fields := d.Lookup("timeseriesFields"); fields.Type == bson.TypeDocument {
		c.Namespace, c.Timeseries = ofBuckets(c.Namespace), schema.LoadTimeseries(fields.Doc())
	}
	_, content := id.Binary()
	copy(c.UUID[:], content)
	c.Generation = shard.Generation{Epoch: epoch.ObjectID(), Timestamp: at.Timestamp()}
	var err error
	c.Key, err = shard.ParseKey(key.Doc())
	return c, err
}

// collection returns a sharded collection, or one with an empty name.
func (s *Server) collection(ns string) (collectionDoc, error) {
	d, err := s.stored(collections, bson.String(ns))
	if d == nil && err == nil {
		d, err = s.stored(collections, bson.String(bucketsOf(ns)))
	}
	if d == nil || err != nil {
		return collectionDoc{}, err
	}
	return parseCollection(d)
}

// id is the _id of a collection's document, which its zones have as well.
func (c *collectionDoc) id() string {
	if c.Timeseries != nil {
		return bucketsOf(c.Namespace)
	}
	return c.Namespace
}

// noSeries rejects what cannot be done to a sharded time series. Error 20.
func (c *collectionDoc) noSeries(what string) error {
	if c.Timeseries == nil {
		return nil
	}
	return mongoerr.New(mongoerr.IllegalOperation, "%s is not supported for a sharded time-series collection: %s", what, c.Namespace)
}

// tracked returns a collection that config.collections has, sharded or not. Errors: 118.
func (s *Server) tracked(ns string) (collectionDoc, error) {
	c, err := s.collection(ns)
	if err == nil && c.Namespace == "" {
		err = notSharded(ns)
	}
	return c, err
}

// sharded returns a sharded collection. Errors: 118.
func (s *Server) sharded(ns string) (collectionDoc, error) {
	c, err := s.tracked(ns)
	if err == nil && c.Unsplittable {
		err = notSharded(ns)
	}
	return c, err
}

func notSharded(ns string) error {
	return mongoerr.New(mongoerr.NamespaceNotSharded, "Namespace %s is not sharded", ns)
}

// allTracked returns all collections that config.collections has.
func (s *Server) allTracked() ([]collectionDoc, error) {
	docs, err := s.all(collections)
	if err != nil {
		return nil, err
	}
	var out []collectionDoc
	for _, d := range docs {
		c, err := parseCollection(d)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// in reports whether a collection is in a database.
func (c *collectionDoc) in(db string) bool { return strings.HasPrefix(c.Namespace, db+".") }

// databaseOf returns the database of a namespace.
func databaseOf(ns string) string {
	db, _, _ := strings.Cut(ns, ".")
	return db
}

// with returns a copy of d with fields set; a Missing value removes the field.
func with(d bson.Doc, fields ...field) bson.Doc {
	var b bson.Builder
	done := make([]bool, len(fields))
	for name, v := range d.All() {
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); i >= 0 {
			done[i], v = true, fields[i].value
		}
		b.Value(name, v)
	}
	for i, f := range fields {
		if !done[i] {
			b.Value(f.name, f.value)
		}
	}
	return b.Finish()
}

// field is one field of a document.
type field struct {
	name  string
	value bson.Value
}

// shardedMap is mapOf for sharded collections only. Errors: 118.
func (s *Server) shardedMap(ns string) (*collectionDoc, *shard.Map, error) {
	c, m, err := s.mapOf(ns)
	if err == nil && c.Unsplittable {
		err = notSharded(ns)
	}
	return c, m, err
}

// mapOf returns a sharded collection and its chunks. The caller holds s.mu.
func (s *Server) mapOf(ns string) (*collectionDoc, *shard.Map, error) {
	c, err := s.tracked(ns)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.chunkMap(&c)
	return &c, m, err
}

// chunkMap returns all chunks of a collection. The caller holds s.mu.
func (s *Server) chunkMap(c *collectionDoc) (*shard.Map, error) {
	if m := s.maps[c.UUID]; m != nil && m.Namespace == c.Namespace && m.Version().ShardGeneration == c.Generation {
		return m, nil
	}
	var list []shard.Chunk
	err := s.each(chunks, func(d bson.Doc) error {
		if _, id := d.Lookup("uuid").Binary(); string(id) != string(c.UUID[:]) {
			return nil
		}
		one, err := c.Key.ParseChunk(c.Generation, d)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	m, err := shard.NewMap(c.Namespace, c.Key, c.Generation, list)
	if err == nil {
		s.keep(c.UUID, m)
	}
	return m, err
}

// chunkWrites returns the writes of a change of chunks.
func (c *collectionDoc) chunkWrites(change shard.Change) []write {
	var out []write
	for _, id := range change.Removed { // first: bounds and versions are unique
		out = append(out, remove(chunks, bson.ObjectID(id)))
	}
	for i := range change.Put {
		out = append(out, put(chunks, c.Key.ChunkDoc(c.UUID, &change.Put[i])))
	}
	return out
}

// zones returns the zone ranges of a collection. Errors: 72.
func (s *Server) zones(ns string, key *shard.Key) (*shard.Zones, error) {
	var ranges []shard.Zone
	err := s.each(tags, func(d bson.Doc) error {
		if ofBuckets(text(d, "ns")) != ns {
			return nil
		}
		z, err := key.ParseZone(d.Clone())
		ranges = append(ranges, z)
		return err
	})
	if err != nil {
		return nil, err
	}
	return shard.NewZones(key, ranges...)
}

// tagDocs returns the documents in config.tags of a namespace.
func (s *Server) tagDocs(ns string) (out []bson.Doc, err error) {
	err = s.each(tags, func(d bson.Doc) error {
		if ofBuckets(text(d, "ns")) == ns {
			out = append(out, d.Clone())
		}
		return nil
	})
	return out, err
}

// owners returns the shards with chunks of a collection and the primary shard of its
// database, sorted. The caller holds s.mu.
func (s *Server) owners(c *collectionDoc) ([]string, error) {
	m, err := s.chunkMap(c)
	if err != nil {
		return nil, err
	}
	db, err := s.existing(databaseOf(c.Namespace))
	if err != nil {
		return nil, err
	}
	out := append(slices.Clone(m.Owners()), db.Primary)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// versionsOf writes the versions of shards in the form of Operation.Told.
func versionsOf(b *bson.Builder, m *shard.Map, of []string) {
	b.OpenDoc("versions")
	for _, id := range of {
		m.ShardVersion(id).Append(b, id)
	}
	b.Close()
}

// settingsNow returns the balancer's settings. Invalid ones turn the balancer off.
func (s *Server) settingsNow() (shard.Settings, error) {
	set := shard.DefaultSettings()
	docs, err := s.all(settings)
	for _, d := range docs {
		if set, err = set.With(d); err != nil {
			set.Off = true
			return set, err
		}
	}
	return set, err
}
