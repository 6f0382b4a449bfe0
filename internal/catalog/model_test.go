package catalog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// indexPool is what the model creates and drops.
var indexPool = []string{
	`{"key": {"a": 1}, "name": "a"}`,
	`{"key": {"a": 1, "b": -1}, "name": "ab", "unique": true}`,
	`{"key": {"b": 1}, "name": "b", "unique": true, "sparse": true}`,
	`{"key": {"c": 1}, "name": "c", "unique": true, "partialFilterExpression": {"a": {"$gt": 2}}}`,
	`{"key": {"c": "hashed"}, "name": "ch"}`,
	`{"key": {"c": "hashed", "a.x": 1}, "name": "chax"}`,
	`{"key": {"_id": "hashed"}, "name": "idh"}`,
	`{"key": {"a.x": 1, "c": 1}, "name": "ax"}`,
	`{"key": {"a": 1, "b": 1}, "name": "a1b1", "unique": true}`,
	`{"key": {"c": 1}, "name": "c1", "unique": true}`,
	`{"key": {"b": 1, "c": "hashed"}, "name": "bch"}`,
}

// model is the catalog as a dumb twin: documents in a map, and uniqueness by
// comparing all keys of all documents.
type model struct {
	key  string // by which documents lie; "" for the order of _id
	c    *Catalog
	fs   *storage.MemFS
	coll *Collection
	docs map[string]bson.Doc
}

// conflicts says whether doc has a key of another document in a unique index.
func (m *model) conflicts(docs map[string]bson.Doc, id string, doc bson.Doc) bool {
	for _, ix := range m.coll.Indexes() {
		if !ix.Unique {
			continue
		}
		mine, _, _ := ix.Keys(doc, nil)
		for other, d := range docs {
			theirs, _, _ := ix.Keys(d, nil)
			for _, k := range mine {
				if other != id && slices.ContainsFunc(theirs, func(o schema.Key) bool { return bytes.Equal(o.Bytes, k.Bytes) }) {
					return true
				}
			}
		}
	}
	return false
}

func drawDoc(t *rapid.T, id int) bson.Doc {
	var b bson.Builder
	b.Int32("_id", int32(id))
	for _, name := range []string{"a", "b", "c"} {
		switch rapid.IntRange(0, 6).Draw(t, name) {
		case 0:
		case 1:
			b.Null(name)
		case 2:
			b.Value(name, bson.Array(bson.Int32(int32(rapid.IntRange(0, 4).Draw(t, "e"))), bson.Int64(2)))
		case 3:
			b.OpenDoc(name).Int32("x", int32(rapid.IntRange(0, 2).Draw(t, "x"))).Close()
		case 4:
			b.Double(name, float64(rapid.IntRange(0, 4).Draw(t, "d")))
		default:
			b.Int32(name, int32(rapid.IntRange(0, 4).Draw(t, "i")))
		}
	}
	return b.Finish()
}

// lock locks a document.
func (m *model) lock(ctx context.Context, u *Unit, id bson.Value) (RecordKey, bson.Doc, error) {
	if m.key != "" {
		return u.LockID(ctx, m.coll, id)
	}
	key := m.coll.AppendIDKey(nil, id)
	old, err := u.LockRecord(ctx, m.coll, key)
	return key, old, err
}

// chunk removes the documents in a range of the shard key.
func (m *model) chunk(t *rapid.T) {
	if m.key == "" {
		return
	}
	key := m.coll.Sharding().Key
	r := key.Whole()
	at := boundAt(key, rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, 5)).Draw(t, "bound"))
	if rapid.Bool().Draw(t, "lower") {
		r.Max = at
	} else {
		r.Min = at
	}
	if all, err := removeHidden(t, m.c, &m.coll, r); err != nil || !all {
		t.Fatal(all, err)
	}
	maps.DeleteFunc(m.docs, func(_ string, doc bson.Doc) bool {
		place := layout.NewByKey(key).Append(nil, layout.Place{Doc: doc})[1:]
		return bytes.Compare(r.Min.Key, place) <= 0 && bytes.Compare(place, r.Max.Key) < 0
	})
}

// unit does some writes in one unit.
func (m *model) unit(t *rapid.T) {
	ctx := t.Context()
	docs := maps.Clone(m.docs)
	u := m.c.Begin()
	defer u.Abort()
	for range rapid.IntRange(1, 6).Draw(t, "writes") {
		id := rapid.IntRange(0, 9).Draw(t, "id")
		doc := drawDoc(t, id)
		name := fmt.Sprint(id)
		key, old, err := m.lock(ctx, u, bson.Int32(int32(id)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, docs[name]) {
			t.Fatalf("LockRecord has %s, the model %s", old, docs[name])
		}
		op := rapid.SampledFrom([]string{"insert", "update", "delete"}).Draw(t, "op")
		switch {
		case op == "insert":
			err = u.Insert(ctx, m.coll, doc)
		case old == nil:
			continue
		case op == "update":
			err = u.Update(ctx, m.coll, key, old, doc)
		default:
			if err := u.Delete(ctx, m.coll, key, old); err != nil {
				t.Fatal(err)
			}
			delete(docs, name)
			continue
		}
		duplicate := op == "insert" && old != nil || m.conflicts(docs, name, doc)
		switch {
		case err == nil:
			if duplicate {
				t.Fatalf("%s of %s should be a duplicate", op, doc)
			}
			docs[name] = doc
		case mongoerr.Is(err, mongoerr.DuplicateKey):
			if !duplicate {
				t.Fatalf("%s of %s: %v", op, doc, err)
			}
		case !mongoerr.Is(err, mongoerr.CannotIndexParallelArrays, mongoerr.Code(16766)):
			t.Fatalf("%s of %s: %v", op, doc, err)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "abort") > 0 {
		if err := u.Commit(ctx, storage.Buffered); err != nil {
			t.Fatal(err)
		}
		m.docs = docs
	}
}

// createIndexes builds some indexes over what is there.
func (m *model) createIndexes(t *rapid.T) {
	var list []bson.Doc
	for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(indexPool), 1, 3, rapid.ID).Draw(t, "specs") {
		list = append(list, specs(t, m.coll.Namespace, s)...)
	}
	before := m.coll
	_, _, err := m.c.CreateIndexes(t.Context(), m.coll.Namespace, list)
	m.coll = m.c.Lookup(m.coll.Namespace)
	wrong := false
	for _, d := range list {
		ix, err := schema.LoadIndex(d)
		if err != nil {
			t.Fatal(err)
		}
		if before.Index(ix.Name) != nil {
			continue
		}
		entry, err := newIndex(m.coll, ix, 0, false, true)
		if err != nil {
			t.Fatal(err)
		}
		with := &model{coll: m.coll.with(func(c *Collection) { c.indexes = []*Index{entry} })}
		for id, doc := range m.docs {
			_, _, err := ix.Keys(doc, nil)
			wrong = wrong || err != nil || with.conflicts(m.docs, id, doc)
		}
	}
	if wrong != (err != nil) {
		t.Fatalf("createIndexes: %v, the model says %t", err, wrong)
	}
	if err != nil && len(m.coll.Indexes()) != len(before.Indexes()) {
		t.Fatal("indexes of a failed build are left")
	}
}

func (m *model) dropIndex(t *rapid.T) {
	if n := len(m.coll.Indexes()); n > 1 {
		ix := m.coll.Indexes()[rapid.IntRange(1, n-1).Draw(t, "which")]
		_, err := m.c.DropIndexes(t.Context(), m.coll.Namespace, func(c *Collection) ([]*Index, error) { return []*Index{c.Index(ix.Name)}, nil })
		if err != nil {
			t.Fatal(err)
		}
		m.coll = m.c.Lookup(m.coll.Namespace)
	}
}

func (m *model) check(t *rapid.T) {
	_, docs := records(t, m.c.engine, m.coll)
	if len(docs) != len(m.docs) || m.coll.Count() != int64(len(docs)) {
		t.Fatalf("%d documents, count %d, the model has %d", len(docs), m.coll.Count(), len(m.docs))
	}
	for _, d := range docs {
		if !bytes.Equal(d, m.docs[d.Lookup("_id").String()]) {
			t.Fatalf("%s is not in the model", d)
		}
	}
	if m.key != "" {
		for id := range int32(10) {
			_, doc, closer, err := m.coll.FindID(nil, m.c.engine, bson.Int32(id))
			if err != nil || !bytes.Equal(doc, m.docs[fmt.Sprint(id)]) {
				t.Fatalf("%d is found as %s, %v", id, doc, err)
			}
			if closer != nil {
				closer.Close()
			}
		}
	}
	mustValidate(t, m.c, m.coll)
}

// layKeys are the shard keys by which a collection lies in some tests; "" for one that
// lies by _id.
var layKeys = []string{
	"", "", `{_id: "hashed"}`, `{c: "hashed"}`, `{c: "hashed", "a.x": 1}`,
	`{a: 1}`, `{c: 1}`, `{a: 1, b: 1}`, `{"a.x": 1, c: 1}`, `{b: 1, c: "hashed"}`,
}

// shardBy makes a collection a sharded one, which lies as it did.
// boundAt is the bound of a shard key at which a number, or a hash, begins.
func boundAt(k *schema.ShardKey, hash int64) schema.ShardBound {
	b := new(bson.Builder).Int64(k.Parts[0].Path, hash)
	for _, p := range k.Parts[1:] {
		b.Value(p.Path, bson.MinKey)
	}
	at, ok := k.ParseBound(b.Finish())
	if !ok {
		panic("the bound is none")
	}
	return at
}

// removeHidden hides a range of the shard key, removes what is in it, and shows it again, empty.
func removeHidden(t failer, c *Catalog, coll **Collection, r schema.ShardRange) (all bool, err error) {
	t.Helper()
	if r.Min.Compare(r.Max) < 0 { // else nothing is in it
		hide(t, c, coll, schema.HiddenRange{ShardRange: r, Operation: 1})
	}
	all, err = c.RemoveChunk(context.Background(), *coll, r)
	hide(t, c, coll)
	return all, err
}

// hide hides ranges of a collection, and no others.
func hide(t failer, c *Catalog, coll **Collection, ranges ...schema.HiddenRange) {
	t.Helper()
	now, err := c.SetSharding(context.Background(), (*coll).Namespace, func(c *Collection) (*schema.Sharding, error) {
		s := *c.sharding
		s.Hidden = ranges
		return &s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	*coll = now
}

func shardBy(t failer, c *Catalog, ns schema.Namespace, key string) *schema.ShardKey {
	k, err := schema.ParseShardKey(bson.MustParse(key))
	if err != nil {
		t.Fatal(err)
	}
	entry := &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1}}
	if _, err := c.SetSharding(context.Background(), ns, func(*Collection) (*schema.Sharding, error) { return entry, nil }); err != nil {
		t.Fatal(err)
	}
	return k
}

// lieByKey makes a collection that has no documents one that lies by a shard key.
func lieByKey(t failer, c *Catalog, ns schema.Namespace, key string) *Collection {
	k := shardBy(t, c, ns, key)
	if err := c.LieByShardKey(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	if _, ok := coll.Chunk(k.Whole()); !ok {
		t.Fatal("the collection does not lie by its shard key")
	}
	return coll
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{key: rapid.SampledFrom(layKeys).Draw(t, "shard key"), fs: storage.NewMemFS(), docs: map[string]bson.Doc{}}
		start := func() {
			_, m.c = openProved(t, storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10}, Options{})
		}
		start()
		defer func() {
			m.c.Close()
			m.c.engine.Close()
		}()
		ns := schema.Namespace{DB: "d", Coll: "c"}
		var err error
		if m.coll, err = m.c.Create(t.Context(), ns, nil); err != nil {
			t.Fatal(err)
		}
		if m.key != "" {
			m.coll = lieByKey(t, m.c, ns, m.key)
		}
		t.Repeat(map[string]func(*rapid.T){
			"chunk":   m.chunk,
			"unit":    m.unit,
			"unit2":   m.unit,
			"unit3":   m.unit,
			"indexes": m.createIndexes,
			"drop":    m.dropIndex,
			"restart": func(t *rapid.T) {
				endProcess(t, m.c)
				start()
				m.coll = m.c.Lookup(ns)
			},
			"": m.check,
		})
	})
}

// TestValidateFindsDamage breaks a collection in each way that Validate knows.
func TestValidateFindsDamage(t *testing.T) {
	fs := storage.NewMemFS()
	c := open(t, fs)
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"a": 1}, "name": "a", "unique": true}`)); err != nil {
		t.Fatal(err)
	}
	coll := c.Lookup(ns)
	for i := range 3 {
		if err := write(c, coll, nil, parse(t, fmt.Sprintf(`{"_id": %d, "a": [%d, "x%d"]}`, i, i, i))); err != nil {
			t.Fatal(err)
		}
	}
	mustValidate(t, c, coll)
	ix := coll.Index("a")
	keys, docs := records(t, c.engine, coll)
	entries, values := entriesOf(t, c, ix)
	for _, tc := range []struct {
		name, want string
		do         func(u *storage.Unit) error
	}{
		{"entry gone", "the 5 entries do not match the 6 keys", func(u *storage.Unit) error { return u.Delete(ix.Ident, entries[0], -1) }},
		{"document gone", "the count is 3, but there are 2", func(u *storage.Unit) error { return u.Delete(coll.Ident, keys[0], -1) }},
		{"entry value", "6 entries do not match", func(u *storage.Unit) error { return u.Set(ix.Ident, entries[0], append(values[0], 1)) }},
		{"garbage", "record", func(u *storage.Unit) error { return u.Set(coll.Ident, keys[1], []byte("garbage")) }},
		{"wrong key", "does not match _id 1", func(u *storage.Unit) error { return u.Set(coll.Ident, keys[2], docs[1]) }},
		{"multikey", "not marked multikey", func(u *storage.Unit) error { return u.Delete(storage.IdentMultikey, identKey(ix.Ident), -1) }},
	} {
		if err := c.engine.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		broken, err := storage.Open(storage.Options{Dir: "db", FS: fs.Crash(0, nil), CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		u := broken.Begin()
		if err := tc.do(u); err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(t.Context(), storage.Buffered); err != nil {
			t.Fatal(err)
		}
		b, err := Open(broken, Options{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := b.Validate(t.Context(), b.Lookup(ns), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(v); v.Valid || !strings.Contains(got, tc.want) {
			t.Errorf("%s: want %q in\n%s", tc.name, tc.want, got)
		}
		broken.Close()
	}
}

// TestValidateFindsMisplaced stores a document where its shard key does not belong: the
// records are the entries of the index on that.
func TestValidateFindsMisplaced(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := Open(e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"k": "hashed"}, "name": "k"}`)); err != nil {
		t.Fatal(err)
	}
	coll := lieByKey(t, c, ns, `{k: "hashed"}`)
	if ix := coll.Index("k"); ix.OnPlace == nil || ix.Ident != coll.Ident {
		t.Fatal("the index on the shard key has entries")
	}
	for i := range 2 {
		if err := write(c, coll, nil, parse(t, fmt.Sprintf(`{"_id": %d, "k": %d}`, i, i))); err != nil {
			t.Fatal(err)
		}
	}
	mustValidate(t, c, coll)
	u := c.engine.Begin()
	id := coll.appendID(nil, bson.Int32(1))
	wrong, right := parse(t, `{"_id": 1, "k": 7}`), parse(t, `{"_id": 1, "k": 1}`)
	if err := u.Set(coll.Ident, coll.layout.Append(nil, layout.Place{Doc: right, ID: id}), wrong); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(t.Context(), storage.Buffered); err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate(t.Context(), coll, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(v); v.Valid || !strings.Contains(got, "does not match the shard key") {
		t.Errorf("not found:\n%s", got)
	}
}

func entriesOf(t failer, c *Catalog, ix *Index) (keys, values [][]byte) {
	it, err := c.engine.NewIter(ix.Ident, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, _ := it.Value()
		keys, values = append(keys, bytes.Clone(it.Key())), append(values, bytes.Clone(v))
	}
	return keys, values
}

// TestPlaceIsKey: where a document without an array lies by a key, and what restores its values
// from that, is what an index on the key has of it, whatever is null, missing or undefined.
func TestPlaceIsKey(t *testing.T) {
	values := []bson.Value{
		{}, bson.Null, bson.Undefined, bson.MinKey, bson.MaxKey, bson.True, bson.Int32(1), bson.Int64(1), bson.Double(1), bson.Double(1.5),
		bson.String(""), bson.String("a"), bson.Document(bson.Empty), bson.Document(bson.MustParse(`{x: 1}`)), bson.Document(bson.MustParse(`{x: null, y: 2}`)), bson.Document(bson.MustParse(`{y: [1]}`)),
		bson.Document(bson.MustParse(`{x: {"$undefined": true}}`)), bson.Date(7), bson.Timestamp(7), bson.ObjectID([12]byte{7}),
	}
	for _, pattern := range []string{`{a: 1}`, `{"a.x": 1}`, `{a: 1, b: 1}`, `{b: 1, "a.x": 1}`, `{b: 1, a: "hashed"}`} {
		k, err := schema.ParseShardKey(bson.MustParse(pattern))
		if err != nil {
			t.Fatal(err)
		}
		ix, err := schema.LoadIndex(new(bson.Builder).Int32("v", 2).Doc("key", k.Pattern()).String("name", "k").Finish())
		if err != nil {
			t.Fatal(err)
		}
		l := layout.NewByKey(k)
		if !l.Serves(ix) {
			t.Fatalf("%s is not served", pattern)
		}
		for _, a := range values {
			for _, b := range values {
				doc := new(bson.Builder)
				for name, v := range map[string]bson.Value{"a": a, "b": b} {
					if !v.IsMissing() {
						doc.Value(name, v)
					}
				}
				d := doc.Finish()
				record := l.Append(nil, layout.Place{Doc: d, ID: []byte{0x2d, 2}})
				keys, paths, err := ix.Keys(d, nil)
				if record.Apart() || err != nil || len(keys) != 1 || paths.Any() {
					t.Fatalf("%s of %s: %v, %v, apart %t", pattern, d, keys, err, record.Apart())
				}
				if place := record[1:l.Prefix(record)]; !bytes.Equal(place, keys[0].Bytes) || string(l.Identity(record)) != "\x2d\x02" {
					t.Errorf("%s of %s lies at %x, the key is %x", pattern, d, place, keys[0].Bytes)
				}
				if bits := keystring.TrimTypeBits(ix.AppendTypeBits(nil, d)); !k.IsHashed() && !bytes.Equal(bits, keys[0].TypeBits) { // a hash is shown as a long
					t.Errorf("%s of %s has type bits %x, the key has %x", pattern, d, bits, keys[0].TypeBits)
				}
			}
		}
	}
}
