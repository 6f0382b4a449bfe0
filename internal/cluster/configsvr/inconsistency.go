package configsvr

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// descriptions says what each type of inconsistency means. (Manual: Inconsistency Types.)
var descriptions = map[string]string{
	"CollectionUUIDMismatch":                      "Found collection on non primary shard with mismatching UUID",
	"MisplacedCollection":                         "Found unsharded collection without the appropriate metadata on a shard different from the database primary shard",
	"HiddenShardedCollection":                     "Found sharded collection but relative database does not exist",
	"MissingLocalCollection":                      "Collection registered on the sharding catalog not found on the given shards",
	"MissingShardKeyIndex":                        "Found sharded collection without a shard key index",
	"InconsistentIndex":                           "Found an index of a sharded collection that is inconsistent between different shards",
	"CollectionOptionsMismatch":                   "Found collection with mismatching options across shards and/or config server",
	"MissingRoutingTable":                         "There is a sharded collection without routing table",
	"RoutingTableRangeGap":                        "Found a gap between two consecutive chunks",
	"RoutingTableRangeOverlap":                    "Found two overlapping consecutive chunks",
	"RoutingTableMissingMinKey":                   "Routing table has a gap because first chunk does not start from MinKey",
	"RoutingTableMissingMaxKey":                   "Routing table has a gap because last chunk boundary does not reach MaxKey",
	"CorruptedChunkShardKey":                      "Found chunk with a shard key pattern violation",
	"CorruptedZoneShardKey":                       "Found zone with a shard key pattern violation",
	"ZonesRangeOverlap":                           "Found two overlapping zones",
	"TrackedUnshardedCollectionHasInvalidKey":     "Found tracked unsharded collection with invalid shard-key",
	"TrackedUnshardedCollectionHasMultipleChunks": "Found tracked unsharded collection with more than one chunks",
	"ShardMissingCollectionRoutingInfo":           "Found a shard that has no routing information of a collection registered on the sharding catalog",
	"ShardCatalogCacheCollectionMetadataMismatch": "Shard's metadata of the collection differs from the sharding catalog",
	"MissingDatabaseMetadataInShardCatalog":       "The primary shard of the database has no metadata of it",
	"InconsistentDatabaseVersionInShardCatalog":   "The primary shard of the database has another version of it",
	"MisplacedDatabaseMetadataInShardCatalog":     "A shard that is not the primary shard of the database has metadata that say it is",
}

// inconsistent is the document that tells of one inconsistency.
func inconsistent(kind string, details *bson.Builder) bson.Doc {
	return new(bson.Builder).String("type", kind).String("description", descriptions[kind]).Doc("details", details.Finish()).Finish()
}

// metadata is what one state of config.* says of what is looked at.
type metadata struct {
	shards     []shardDoc
	databases  []databaseDoc
	tracked    []trackedDoc // in the order of their namespaces
	operations []step.Operation
	// found is what is wrong in config.* itself.
	found []bson.Doc
}

// trackedDoc is a collection of config.collections.
type trackedDoc struct {
	collectionDoc
	// owned has the highest lastmod of the chunks of each shard.
	owned  map[string]uint64
	chunks chunkWalk
}

func (m *metadata) database(name string) *databaseDoc {
	i, ok := slices.BinarySearchFunc(m.databases, name, func(d databaseDoc, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil
	}
	return &m.databases[i]
}

func (m *metadata) collection(ns string) *trackedDoc {
	i, ok := slices.BinarySearchFunc(m.tracked, ns, func(c trackedDoc, ns string) int { return strings.Compare(c.Namespace, ns) })
	if !ok {
		return nil
	}
	return &m.tracked[i]
}

// operates reports whether an operation on a collection is under way.
func (m *metadata) operates(ns string) bool {
	return slices.ContainsFunc(m.operations, func(o step.Operation) bool { return o.Namespace == ns })
}

// metadata reads what the scope has, and checks it.
func (s *Server) metadata(sc scope) (m *metadata, err error) {
	if _, err := s.term(); err != nil {
		return nil, err
	}
	state := s.Catalog.Engine().NewSnapshot()
	defer func() { err = errors.Join(err, state.Close()) }()
	m = &metadata{}
	err = cmp.Or(
		s.eachIn(state, shards, func(d bson.Doc) error { m.shards = append(m.shards, s.parseShard(d.Clone())); return nil }),
		s.eachIn(state, databases, func(d bson.Doc) error {
			if sc.has(text(d, "_id")) {
				m.databases = append(m.databases, parseDatabase(d.Clone()))
			}
			return nil
		}),
		s.eachIn(state, operations, func(d bson.Doc) error {
			if d.Lookup("_id").Type != bson.TypeInt64 {
				return nil
			}
			o, err := step.Parse(d)
			m.operations = append(m.operations, o)
			return err
		}),
		s.eachIn(state, collections, func(d bson.Doc) error {
			if !sc.names(ofBuckets(text(d, "_id"))) || databaseOf(text(d, "_id")) == "config" {
				return nil
			}
			c, err := parseCollection(d.Clone())
			m.tracked = append(m.tracked, trackedDoc{collectionDoc: c, owned: map[string]uint64{}})
			return err
		}))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(m.tracked, func(a, b trackedDoc) int { return strings.Compare(a.Namespace, b.Namespace) })
	for i := range m.tracked {
		m.checkEntry(&m.tracked[i])
	}
	return m, cmp.Or(s.checkChunks(state, m), s.checkZones(state, m))
}

// checkEntry checks a document of config.collections.
func (m *metadata) checkEntry(c *trackedDoc) {
	if m.database(databaseOf(c.Namespace)) == nil {
		m.found = append(m.found, inconsistent("HiddenShardedCollection", new(bson.Builder).String("namespace", c.Namespace).Doc("collection", c.doc)))
	}
	if c.Unsplittable && !c.Key.Same(unsplittableKey) {
		m.found = append(m.found, inconsistent("TrackedUnshardedCollectionHasInvalidKey", c.named("uuid").Doc("shardKey", c.Key.Pattern())))
	}
}

// named begins the details of an inconsistency of a collection.
func (c *trackedDoc) named(uuid string) *bson.Builder {
	return new(bson.Builder).String("namespace", c.id()).Binary(uuid, 4, c.UUID[:])
}

func (c *trackedDoc) uuidValue() bson.Value {
	return new(bson.Builder).Binary("uuid", 4, c.UUID[:]).Finish().Lookup("uuid")
}

// isKey reports whether a document has exactly the fields of the shard key, in order.
func (c *trackedDoc) isKey(v bson.Value) bool {
	if v.Type != bson.TypeDocument || v.Doc().Len() != len(c.Key.Parts) {
		return false
	}
	i := 0
	for name := range v.Doc().All() {
		if name != c.Key.Parts[i].Path {
			return false
		}
		i++
	}
	return true
}

// chunkWalk is how far a walk over the chunks of a collection is, which come in the order of
// their lower bounds.
type chunkWalk struct {
	n     int
	last  bson.Doc
	found []bson.Doc
}

// checkChunks walks over the chunks of all collections once.
func (s *Server) checkChunks(state storage.Reader, m *metadata) error {
	of := map[bson.UUID]*trackedDoc{}
	for i := range m.tracked {
		of[m.tracked[i].UUID] = &m.tracked[i]
	}
	err := s.eachChunk(state, func(d bson.Doc) {
		var id bson.UUID
		_, content := d.Lookup("uuid").Binary()
		copy(id[:], content)
		if c := of[id]; c != nil {
			c.chunk(d)
		}
	})
	for i := range m.tracked {
		c := &m.tracked[i]
		c.lastChunk()
		m.found = append(m.found, c.chunks.found...)
	}
	return err
}

// eachChunk calls f with the chunks of one collection after the other, in the order of their
// lower bounds.
func (s *Server) eachChunk(state storage.Reader, f func(bson.Doc)) (err error) {
	c := s.Catalog.Lookup(namespace(chunks))
	if c == nil {
		return nil
	}
	ix := c.Index("uuid_1_min_1")
	it, err := c.EntryIter(state, ix, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var room []byte
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		_, record, _, _ := c.SplitEntry(room[:0], ix, it, v)
		doc, closer, err := state.Get(c.Ident, record)
		if err != nil {
			return err
		}
		f(doc)
		if err := closer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// chunk checks the next chunk of a collection.
func (c *trackedDoc) chunk(d bson.Doc) {
	w := &c.chunks
	w.n++
	if at := d.Lookup("lastmod"); at.Type == bson.TypeTimestamp {
		owner := strings.Clone(text(d, "shard"))
		c.owned[owner] = max(c.owned[owner], at.Timestamp())
	}
	say := func(kind string, details *bson.Builder) { w.found = append(w.found, inconsistent(kind, details)) }
	if !c.isKey(d.Lookup("min")) || !c.isKey(d.Lookup("max")) {
		say("CorruptedChunkShardKey", c.named("collectionUUID").Doc("chunk", d).Doc("shardKeyPattern", c.Key.Pattern()))
	}
	if w.n == 1 {
		if least := c.Key.Doc(c.Key.Min()); !sameBound(d.Lookup("min"), least) {
			say("RoutingTableMissingMinKey", c.named("collectionUUID").Value("minKeyObj", d.Lookup("min")).Doc("globalMin", least))
		}
	} else if order := bson.Compare(w.last.Lookup("max"), d.Lookup("min")); order != 0 {
		kind := "RoutingTableRangeGap"
		if order > 0 {
			kind = "RoutingTableRangeOverlap"
		}
		say(kind, c.named("collectionUUID").Doc("chunkA", w.last).Doc("chunkB", d))
	}
	w.last = append(w.last[:0], d...)
}

func sameBound(v bson.Value, bound bson.Doc) bool {
	return bson.Compare(v, bson.Document(bound)) == 0
}

// lastChunk checks what can be said when all chunks of a collection were seen.
func (c *trackedDoc) lastChunk() {
	w := &c.chunks
	say := func(kind string, details *bson.Builder) { w.found = append(w.found, inconsistent(kind, details)) }
	if w.n == 0 {
		say("MissingRoutingTable", c.named("collectionUUID"))
		return
	}
	if most := c.Key.Doc(c.Key.Max()); !sameBound(w.last.Lookup("max"), most) {
		say("RoutingTableMissingMaxKey", c.named("collectionUUID").Value("maxKeyObj", w.last.Lookup("max")).Doc("globalMax", most))
	}
	if c.Unsplittable && w.n > 1 {
		say("TrackedUnshardedCollectionHasMultipleChunks", c.named("uuid").Int32("numChunks", int32(w.n)))
	}
}

// checkZones checks the zones of all collections.
func (s *Server) checkZones(state storage.Reader, m *metadata) error {
	of := map[string][]bson.Doc{}
	err := s.eachIn(state, tags, func(d bson.Doc) error {
		if ns := ofBuckets(text(d, "ns")); m.collection(ns) != nil {
			of[ns] = append(of[ns], d.Clone())
		}
		return nil
	})
	for i := range m.tracked {
		c := &m.tracked[i]
		zones := of[c.Namespace]
		slices.SortFunc(zones, func(a, b bson.Doc) int { return bson.Compare(a.Lookup("min"), b.Lookup("min")) })
		for j, z := range zones {
			if !c.isKey(z.Lookup("min")) || !c.isKey(z.Lookup("max")) {
				m.found = append(m.found, inconsistent("CorruptedZoneShardKey", c.named("collectionUUID").Doc("zone", z).Doc("shardKeyPattern", c.Key.Pattern())))
			}
			if j > 0 && bson.Compare(zones[j-1].Lookup("max"), z.Lookup("min")) > 0 {
				m.found = append(m.found, inconsistent("ZonesRangeOverlap", c.named("collectionUUID").Doc("zoneA", zones[j-1]).Doc("zoneB", z)))
			}
		}
	}
	return err
}

// judgement compares what shards know with what config.* said before and after they were asked.
type judgement struct {
	sc            scope
	before, after *metadata
	has           map[string]*catalogOf
	found         []bson.Doc
}

func (j *judgement) say(kind string, details *bson.Builder) {
	j.found = append(j.found, inconsistent(kind, details))
}

func (j *judgement) all() {
	for _, db := range j.before.databases {
		if now := j.after.database(db.Name); now == nil || !bytes.Equal(now.Version, db.Version) {
			continue // it has changed meanwhile
		}
		if j.sc.of == "" || j.sc.of == db.Name {
			j.databaseEntries(&db)
		}
		j.strangers(&db)
	}
	for i := range j.before.tracked {
		c := &j.before.tracked[i]
		db, now := j.before.database(databaseOf(c.Namespace)), j.after.collection(c.Namespace)
		if db == nil || now == nil || !bytes.Equal(now.doc, c.doc) {
			continue
		}
		if later := j.after.database(db.Name); later != nil && bytes.Equal(later.Version, db.Version) {
			j.collection(c, now, db)
		}
	}
}

// databaseEntries compares what shards know of a database.
func (j *judgement) databaseEntries(db *databaseDoc) {
	for _, sh := range j.before.shards {
		entry := j.has[sh.ID].databases[db.Name]
		details := new(bson.Builder).String("dbName", db.Name).String("primaryShard", db.Primary)
		switch is := entry != nil && entry.Lookup("primary").Truthy(); {
		case sh.ID != db.Primary && is:
			j.say("MisplacedDatabaseMetadataInShardCatalog", details.String("shardInLocalCatalog", sh.ID))
		case sh.ID != db.Primary:
		case !is:
			j.say("MissingDatabaseMetadataInShardCatalog", details.Doc("dbVersionInGlobalCatalog", db.Version))
		case bson.Compare(entry.Lookup("version"), bson.Document(db.Version)) != 0:
			j.say("InconsistentDatabaseVersionInShardCatalog", details.Doc("dbVersionInGlobalCatalog", db.Version).Value("dbVersionInShardCatalog", entry.Lookup("version")))
		}
	}
}

// strangers finds what shards have of a database and config.collections has not.
func (j *judgement) strangers(db *databaseDoc) {
	for _, sh := range j.before.shards {
		has := j.has[sh.ID].collections
		for _, ns := range slices.Sorted(maps.Keys(has)) {
			l := has[ns]
			name := schema.ParseNamespace(ns)
			if name.DB != db.Name || !j.sc.names(ns) || l.view || strings.HasPrefix(name.Coll, "system.") || l.options.Lookup("temp").Truthy() ||
				j.before.collection(ns) != nil || j.after.collection(ns) != nil || j.before.operates(ns) || j.after.operates(ns) {
				continue
			}
			switch {
			case sh.ID != db.Primary:
				j.say("MisplacedCollection", new(bson.Builder).String("namespace", ns).String("shard", sh.ID).Value("localUUID", l.uuid))
			case l.sharding != nil:
				j.mismatch(ns, l.uuid, sh.ID, new(bson.Builder).Bool("tracked", true).Finish(), new(bson.Builder).Bool("tracked", false).Finish())
			}
		}
	}
}

// mismatch tells that a shard knows something else of a collection than the config servers.
func (j *judgement) mismatch(ns string, uuid bson.Value, id string, knows, says bson.Doc) {
	b := new(bson.Builder).String("namespace", ns).Value("collectionUUID", uuid).OpenArray("details")
	b.OpenDoc("0").Doc("metadata", knows).Strings("shards", id).Close()
	b.OpenDoc("1").Doc("metadata", says).Strings("shards", configShard).Close()
	j.say("ShardCatalogCacheCollectionMetadataMismatch", b.Close())
}

// collection compares what shards know of a collection and have of it.
func (j *judgement) collection(c, now *trackedDoc, db *databaseDoc) {
	moving := j.before.operates(c.Namespace) || j.after.operates(c.Namespace)
	var places, owners []part
	for _, sh := range j.before.shards {
		version, owned := c.owned[sh.ID]
		later, still := now.owned[sh.ID]
		if owned != still { // a chunk has come or gone
			continue
		}
		l := j.has[sh.ID].collections[c.Namespace]
		must := owned || sh.ID == db.Primary
		switch {
		case l == nil || l.view:
			if must {
				j.say("MissingLocalCollection", c.named("uuid").String("shard", sh.ID))
			}
			continue
		case bson.Compare(l.uuid, c.uuidValue()) != 0:
			j.say("CollectionUUIDMismatch", new(bson.Builder).String("namespace", c.id()).String("shard", sh.ID).Value("localUUID", l.uuid).Binary("uuid", 4, c.UUID[:]))
			continue
		case !must:
			continue
		case l.sharding == nil:
			j.say("ShardMissingCollectionRoutingInfo", c.named("collectionUUID").String("shard", sh.ID))
			continue
		}
		places = append(places, part{sh.ID, l})
		if owned {
			owners = append(owners, part{sh.ID, l})
		}
		j.options(c, sh.ID, l)
		if !moving && version == later {
			j.version(c, sh.ID, l, version)
		}
		if owned && !c.Unsplittable && c.Key.Hashed < 0 && !l.sharding.Lookup("keyIndex").Truthy() {
			j.say("MissingShardKeyIndex", new(bson.Builder).String("namespace", c.id()).String("shard", sh.ID).Doc("shardKey", c.Key.Pattern()))
		}
	}
	j.optionsOver(c, places)
	if j.sc.indexes && !c.Unsplittable {
		j.indexesOver(c, owners)
	}
}

// part is a collection on a shard.
type part struct {
	id string
	*local
}

// version compares the version that a shard has of a collection.
func (j *judgement) version(c *trackedDoc, id string, l *local, lastmod uint64) {
	v, err := schema.ParseShardVersion(l.sharding.Lookup("version").Doc())
	want := c.Generation.At(lastmod)
	if err != nil || v == want || lastmod == 0 && v.Lastmod() == 0 {
		return
	}
	j.mismatch(c.id(), c.uuidValue(), id, new(bson.Builder).String("version", v.String()).Finish(), new(bson.Builder).String("version", want.String()).Finish())
}

// options compares the options that config.collections has.
func (j *judgement) options(c *trackedDoc, id string, l *local) {
	say := func(shards, config *bson.Builder) {
		b := c.namedOptions()
		b.OpenDoc("0").Doc("options", shards.Finish()).Strings("shards", id).Close()
		b.OpenDoc("1").Doc("options", config.Finish()).Strings("shards", configShard).Close()
		j.say("CollectionOptionsMismatch", b.Close())
	}
	if l.options.Lookup("capped").Truthy() && !c.Unsplittable {
		say(new(bson.Builder).Bool("capped", true), new(bson.Builder).Bool("capped", false).Bool("unsplittable", false))
	}
	has, want := l.options.Lookup("timeseries"), c.doc.Lookup("timeseriesFields")
	if has.IsMissing() != want.IsMissing() || !has.IsMissing() && !bson.Equal(bson.Document(schema.LoadTimeseries(has.Doc()).Doc()), bson.Document(c.Timeseries.Doc())) {
		series := func(v bson.Value) *bson.Builder {
			if v.IsMissing() {
				v = bson.Document(bson.Empty)
			}
			return new(bson.Builder).Value("timeseriesFields", v)
		}
		say(series(has), series(want))
	}
}

func (c *trackedDoc) namedOptions() *bson.Builder {
	return new(bson.Builder).String("namespace", c.id()).OpenArray("options")
}

// sorted is a document with its fields in the order of their names.
func sorted(d bson.Doc) bson.Doc {
	b := new(bson.Builder)
	b.Reset(nil)
	for _, name := range slices.Sorted(maps.Keys(maps.Collect(d.All()))) {
		b.Value(name, d.Lookup(name))
	}
	return b.Finish()
}

// optionsOver compares the options of a collection on several shards.
func (j *judgement) optionsOver(c *trackedDoc, places []part) {
	of := map[string][]string{}
	for _, p := range places {
		options := string(sorted(p.options))
		of[options] = append(of[options], p.id)
	}
	if len(of) < 2 {
		return
	}
	b := c.namedOptions()
	for i, options := range slices.Sorted(maps.Keys(of)) {
		b.OpenDoc(bson.Index(i)).Doc("options", bson.Doc(options)).Strings("shards", of[options]...).Close()
	}
	j.say("CollectionOptionsMismatch", b.Close())
}

// indexesOver compares the indexes of a collection on its owners.
func (j *judgement) indexesOver(c *trackedDoc, owners []part) {
	specs := map[string]map[string]bson.Doc{} // by index, then by shard
	for _, p := range owners {
		for v := range p.indexes.Values() {
			name := text(v.Doc(), "name")
			if specs[name] == nil {
				specs[name] = map[string]bson.Doc{}
			}
			specs[name][p.id] = v.Doc()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		var missing []string
		properties := map[string]int{} // of how many shards
		for _, p := range owners {
			spec, ok := specs[name][p.id]
			if !ok {
				missing = append(missing, p.id)
			}
			for field, v := range spec.All() {
				properties[string(new(bson.Builder).String("k", field).Value("v", v).Finish())]++
			}
		}
		maps.DeleteFunc(properties, func(_ string, n int) bool { return n == len(specs[name]) })
		if len(missing) == 0 && len(properties) == 0 {
			continue
		}
		b := new(bson.Builder).String("namespace", c.id()).OpenDoc("info").Strings("missingFromShards", missing...).OpenArray("inconsistentProperties")
		for i, property := range slices.Sorted(maps.Keys(properties)) {
			b.Doc(bson.Index(i), bson.Doc(property))
		}
		j.say("InconsistentIndex", b.Close().String("indexName", name).Close())
	}
}
