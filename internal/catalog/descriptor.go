package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A descriptor is stored as one document under its ident:
//
//	{v: 1, db, coll, uuid: Binary(4), ident: long, open?: long, options: {…},
//	 indexes: [{spec: {…}, ident: long, ready: bool}, …]}
//
// Where the collection is clustered by windows of expiry, v is 2, and there is
// windows: {path: string, width: long}, in milliseconds. Where those depend on more
// than a path, v is 3, and there is also spec: the index that they were made for.
// The descriptor of a time-series collection has v 4. Where the collection lies by a shard
// key, v is 6, and there is hashed: {key: the pattern}; v is 7 where the records are the
// entries of an index on that key, whose ident is then the collection's. During a relayout v is 5, and
// windows has relayout: "windows" or "id", where documents go (layout.Relay). Where it lies by
// slots, v is 8, during a relayout, too, and windows has key: the pattern of the shard key.
// Where it lies by a shard key whose first field is not hashed, v is 9, and there is byKey: {key:
// the pattern}; an index has served: true where it is on that key, and its entries are the records
// and what is set apart.
//
// v is increased by askedVersion if there is an index {_ts: 1} with
// expireAfterSeconds; such an index expires by last writes only if its settings say so.
// In descriptors without that, each such index does, and decoding adds the setting.
// Where the collection is sharded, v is shardedVersion more, and there is sharding: see
// schema.Sharding.Doc.
//
// Multikey paths are under their index's ident in another keyspace, so that
// writers can set them without touching the descriptor.

// descriptorVersion rises with a migration, never otherwise.
const (
	descriptorVersion = 1
	// windowedVersion keeps out builds that do not know windows.
	windowedVersion = 2
	// predicateVersion keeps out builds that know only windows by dates.
	predicateVersion = 3
	// seriesVersion keeps out builds that expect buckets in another place.
	seriesVersion = 4
	// relayVersion keeps out builds that expect all documents in one place.
	relayVersion = 5
	// hashedVersion keeps out builds that do not know layouts by a shard key.
	hashedVersion = 6
	// placeVersion keeps out builds that expect entries of each index on a shard key.
	placeVersion = 7
	// slotsVersion keeps out builds that expect windows at the beginning of record keys.
	slotsVersion = 8
	// rangedVersion keeps out builds that expect a hash at the beginning of record keys by a
	// shard key, and no document that is set apart.
	rangedVersion = 9
	// askedVersion, added to another, keeps out builds that take each {_ts: 1} with
	// expireAfterSeconds for a rule by last writes.
	askedVersion = 10
	// shardedVersion, added to another, keeps out builds that would show hidden ranges,
	// and write to blocked ones.
	shardedVersion = 20
)

const uuidSubtype = 4

func identKey(id storage.Ident) []byte { return storage.AppendIdent(nil, id) }

// encode returns the stored form of c.
func (c *Collection) encode() bson.Doc {
	var b bson.Builder
	b.Int32("v", c.version()).String("db", c.Namespace.DB).String("coll", c.Namespace.Coll).
		Binary("uuid", uuidSubtype, c.UUID[:]).Int64("ident", int64(c.Ident))
	if c.Open != 0 {
		b.Int64("open", int64(c.Open))
	}
	b.Doc("options", c.Options)
	b.OpenArray("indexes")
	for i, ix := range c.indexes {
		b.OpenDoc(bson.Index(i)).Doc("spec", ix.Spec).Int64("ident", int64(ix.Ident)).Bool("ready", ix.Ready)
		if ix.OnPlace != nil && !ix.Records {
			b.Bool("served", true)
		}
		b.Close()
	}
	b.Close()
	switch s := c.stored(); {
	case s == nil:
	case c.setsApart():
		b.Doc("byKey", s)
	case c.sections == nil:
		b.Doc("hashed", s)
	default:
		b.Doc("windows", s)
	}
	if c.sharding != nil {
		b.Doc("sharding", c.sharding.Doc())
	}
	return b.Finish()
}

// version returns the version of the descriptor's stored form.
func (c *Collection) version() int32 {
	v := c.shapeVersion()
	if c.sharding != nil {
		v += shardedVersion
	}
	for _, ix := range c.indexes {
		if schema.MayCountFromWrite(ix.Spec) {
			return v + askedVersion
		}
	}
	if spec := c.stored().Lookup("spec"); !spec.IsMissing() && schema.MayCountFromWrite(spec.Doc()) {
		return v + askedVersion
	}
	return v
}

// stored returns what the descriptor stores of the layout; nil if it follows
// from the options.
func (c *Collection) stored() bson.Doc {
	if c.layout == nil {
		return nil
	}
	return c.layout.Stored()
}

// shapeVersion returns the version by the kind of the collection.
func (c *Collection) shapeVersion() int32 {
	switch {
	case c.Settings.Timeseries != nil && c.Open != 0:
		return seriesVersion
	case c.stored() == nil:
		return descriptorVersion
	case c.setsApart():
		return rangedVersion
	case slices.ContainsFunc(c.indexes, func(ix *Index) bool { return ix.OnPlace != nil }):
		return placeVersion
	case c.sections == nil:
		return hashedVersion
	case c.stored().Has("key"):
		return slotsVersion
	case c.relay != nil:
		return relayVersion
	case !c.stored().Lookup("spec").IsMissing():
		return predicateVersion
	}
	return windowedVersion
}

// setsApart reports whether the collection lies by a shard key in which documents with arrays
// have no place.
func (c *Collection) setsApart() bool {
	l, is := c.layout.(*layout.ByKey)
	return is && l.SetsApart()
}

// decode reads a stored descriptor; its live state is left empty.
func decode(id storage.Ident, d bson.Doc) (*Collection, error) {
	bad := func(what string) error {
		return fmt.Errorf("%w: catalog entry %d has no valid %s: %s", storage.ErrCorruption, id, what, d)
	}
	if err := bson.Validate(d, maxDescriptorDepth); err != nil {
		return nil, fmt.Errorf("%w: catalog entry %d: %w", storage.ErrCorruption, id, err)
	}
	v, load := d.Lookup("v"), loadAsked
	sharded := v.Type == bson.TypeInt32 && v.Int32() > shardedVersion
	if sharded {
		v = bson.Int32(v.Int32() - shardedVersion)
	}
	if v.Type == bson.TypeInt32 && v.Int32() > askedVersion {
		v, load = bson.Int32(v.Int32()-askedVersion), schema.LoadIndex
	}
	if v.Type != bson.TypeInt32 || v.Int32() < descriptorVersion || v.Int32() > rangedVersion {
		return nil, bad("version")
	}
	c := &Collection{id: id, Options: bson.Empty, live: &live{id: id}, derived: &derived{}}
	db, coll, uuid, ident := d.Lookup("db"), d.Lookup("coll"), d.Lookup("uuid"), d.Lookup("ident")
	if db.Type != bson.TypeString || coll.Type != bson.TypeString {
		return nil, bad("name")
	}
	c.Namespace = schema.Namespace{DB: db.Str(), Coll: coll.Str()}
	if uuid.Type != bson.TypeBinary {
		return nil, bad("uuid")
	}
	if _, u := uuid.Binary(); copy(c.UUID[:], u) != len(c.UUID) {
		return nil, bad("uuid")
	}
	if ident.Type != bson.TypeInt64 {
		return nil, bad("ident")
	}
	c.Ident = storage.Ident(ident.Int64())
	if v := d.Lookup("open"); v.Type == bson.TypeInt64 {
		c.Open = storage.Ident(v.Int64())
	}
	if o := d.Lookup("options"); o.Type == bson.TypeDocument {
		c.Options = o.Doc()
	}
	if err := c.applyOptions(); err != nil {
		return nil, fmt.Errorf("options of %s: %w", c.Namespace, err)
	}
	// One that a client has created under the name of buckets is none; earlier builds
	// gave it the version of a time series.
	single := c.Settings.Timeseries != nil && c.Namespace.IsBuckets()
	if series := c.Settings.Timeseries != nil && c.Open != 0; (v.Int32() == seriesVersion) != series && !single {
		return nil, bad("version for time series")
	}
	byKey := true
	switch v.Int32() {
	case hashedVersion, placeVersion:
		byKey = c.decodeByKey(d.Lookup("hashed"))
	case rangedVersion:
		byKey = c.decodeByKey(d.Lookup("byKey"))
	}
	if _, is := c.layout.(*layout.ByKey); !byKey || is && c.setsApart() != (v.Int32() == rangedVersion) {
		return nil, bad("layout by a shard key")
	}
	if v.Int32() != seriesVersion && v.Int32() >= windowedVersion && (v.Int32() < hashedVersion || v.Int32() == slotsVersion) && !c.decodeWindows(d.Lookup("windows"), v.Int32(), load) {
		return nil, bad("windows")
	}
	if err := c.decodeSharding(d.Lookup("sharding"), sharded); err != nil {
		return nil, fmt.Errorf("%w: catalog entry %d: %w", storage.ErrCorruption, id, err)
	}
	indexes := d.Lookup("indexes")
	if indexes.Type != bson.TypeArray {
		return nil, bad("indexes")
	}
	for v := range indexes.Doc().Values() {
		ix, err := decodeIndex(c, v, load)
		if err != nil {
			return nil, err
		}
		c.indexes = append(c.indexes, ix)
	}
	if v.Int32() >= hashedVersion && c.shapeVersion() != v.Int32() {
		return nil, bad("version for its indexes")
	}
	return c, nil
}

// indexLoader parses a stored specification.
type indexLoader func(spec bson.Doc) (*schema.Index, error)

// loadAsked is for old descriptors, in which rules by last writes need no
// setting.
func loadAsked(spec bson.Doc) (*schema.Index, error) {
	return schema.LoadIndex(schema.AskedLastWrite(spec))
}

// decodeWindows reads the windows of a descriptor of a version.
func (c *Collection) decodeWindows(v bson.Value, version int32, load indexLoader) bool {
	if v.Type != bson.TypeDocument || version < relayVersion && v.Doc().Has("spec") != (version == predicateVersion) || v.Doc().Has("key") != (version == slotsVersion) {
		return false
	}
	w := layout.LoadWindowed(v.Doc(), load)
	if w == nil {
		return false
	}
	l, ok := layout.Relaying(w, v.Doc())
	if !ok {
		return false
	}
	c.setLayout(l)
	return version == slotsVersion || (c.relay != nil) == (version == relayVersion)
}

// decodeByKey reads the layout by a shard key.
func (c *Collection) decodeByKey(v bson.Value) bool {
	if v.Type != bson.TypeDocument {
		return false
	}
	l := layout.LoadByKey(v.Doc())
	if l != nil {
		c.setLayout(l)
	}
	return l != nil
}

// maxDescriptorDepth bounds the nesting of a descriptor: a validator or a view's
// pipeline may be as deep as a document, and is two levels down.
const maxDescriptorDepth = 300

func decodeIndex(c *Collection, v bson.Value, load indexLoader) (*Index, error) {
	bad := fmt.Errorf("%w: an index of %s cannot be read: %s", storage.ErrCorruption, c.Namespace, v)
	if v.Type != bson.TypeDocument {
		return nil, bad
	}
	spec, ident, ready := v.Doc().Lookup("spec"), v.Doc().Lookup("ident"), v.Doc().Lookup("ready")
	if spec.Type != bson.TypeDocument || ident.Type != bson.TypeInt64 || ready.Type != bson.TypeBool {
		return nil, bad
	}
	ix, err := load(spec.Doc())
	if err != nil {
		return nil, fmt.Errorf("index of %s: %w", c.Namespace, err)
	}
	id := storage.Ident(ident.Int64())
	// The records are the entries also of an index on _id, in its order.
	served := c.setsApart() && v.Doc().Lookup("served").Truthy() || id == c.Ident && !ix.IsID() && c.Settings.Clustered == nil
	if served && !c.layout.Serves(ix) {
		return nil, bad
	}
	n, err := newIndex(c, ix, id, served, ready.Bool())
	switch {
	case err != nil:
		return nil, err
	case c.entersIDs() && ix.IsID():
		n.ByPrefix = c.layout
	}
	return n, nil
}

// applyOptions sets what follows from c.Options.
func (c *Collection) applyOptions() error {
	s, err := schema.LoadOptions(c.Options)
	if err != nil {
		return err
	}
	c.Settings = s
	c.Capped, c.MaxBytes, c.MaxDocs = s.Capped, s.Size, s.Max
	switch {
	case c.IsView() || c.layout != nil: // other options do not change it
	case s.Timeseries != nil:
		c.setLayout(layout.Bucket{TimeField: s.Timeseries.TimeField})
	case s.Capped:
		c.setLayout(layout.Capped{})
	default:
		c.setLayout(layout.ByID{})
	}
	return nil
}

// encodePaths returns the stored form of multikey paths: eight bytes per part.
func encodePaths(m schema.MultikeyPaths) []byte {
	var b []byte
	for _, p := range m {
		b = binary.LittleEndian.AppendUint64(b, p)
	}
	return b
}

func decodePaths(b []byte) schema.MultikeyPaths {
	if len(b) < 8 {
		return nil
	}
	m := make(schema.MultikeyPaths, len(b)/8)
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return m
}

// readPaths reads the stored multikey paths of an index.
func readPaths(r storage.Reader, id storage.Ident) (schema.MultikeyPaths, error) {
	v, closer, err := r.Get(storage.IdentMultikey, identKey(id))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return decodePaths(storage.Bits(v)), nil
}
