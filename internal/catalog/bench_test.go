package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Compare with storage's BenchmarkRaw…, which do the same without documents.

// benchOpen makes a collection with two indexes on a disk.
func benchOpen(b *testing.B, docs int, indexes ...string) (*Catalog, *Collection) {
	b.Helper()
	e, err := storage.Open(storage.Options{Dir: b.TempDir(), CacheBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	c, err := Open(e, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Close()
		e.Close()
	})
	if _, err := c.Create(b.Context(), testNS, nil); err != nil {
		b.Fatal(err)
	}
	if len(indexes) == 0 {
		indexes = []string{`{"key": {"a": 1}, "name": "a"}`, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 3600}`}
	}
	if _, _, err := c.CreateIndexes(b.Context(), testNS, specs(b, testNS, indexes...)); err != nil {
		b.Fatal(err)
	}
	coll := c.Lookup(testNS)
	for at := 0; at < docs; at += 1000 {
		insertBatch(b, c, coll, at, storage.Buffered)
	}
	if docs > 0 {
		e.Flush()
	}
	b.ReportAllocs()
	b.ResetTimer()
	return c, coll
}

var benchPad = string(bytes.Repeat([]byte("x"), 200))

func objectID(n int) (id [12]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// benchDoc is a document of 300 bytes.
func benchDoc(n int) bson.Doc {
	return new(bson.Builder).ObjectID("_id", objectID(n)).Int64("a", int64(uint64(n)*0x9e3779b97f4a7c15>>1)).
		Date("at", 1_700_000_000_000+int64(n)).String("name", "a name of middling size").String("pad", benchPad).Finish()
}

func insertBatch(b *testing.B, c *Catalog, coll *Collection, at int, d storage.Durability) {
	b.StopTimer()
	docs := make([]bson.Doc, 1000)
	for i := range docs {
		docs[i] = benchDoc(at + i)
	}
	b.StartTimer()
	u := c.Begin()
	for _, doc := range docs {
		if err := u.Insert(context.Background(), coll, doc); err != nil {
			b.Fatal(err)
		}
	}
	if err := u.Commit(context.Background(), d); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkInsert(b *testing.B) {
	c, coll := benchOpen(b, 0)
	for n := 0; n < b.N; n++ {
		u := c.Begin()
		if err := u.Insert(context.Background(), coll, benchDoc(n)); err != nil {
			b.Fatal(err)
		}
		if err := u.Commit(context.Background(), storage.Buffered); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInsertBatch(b *testing.B) {
	c, coll := benchOpen(b, 0)
	for at := 0; at < b.N; at += 1000 {
		insertBatch(b, c, coll, at, storage.Buffered)
	}
}

func BenchmarkInsertBatchUnique(b *testing.B) {
	c, coll := benchOpen(b, 0, `{"key": {"a": 1}, "name": "a", "unique": true}`, `{"key": {"at": 1}, "name": "at"}`)
	for at := 0; at < b.N; at += 1000 {
		insertBatch(b, c, coll, at, storage.Buffered)
	}
}

func BenchmarkGet(b *testing.B) {
	c, coll := benchOpen(b, 100000)
	var key RecordKey
	for n := 0; n < b.N; n++ {
		key = coll.AppendIDKey(key[:0], bson.ObjectID(objectID(n*7919%100000)))
		_, closer, err := c.engine.Get(coll.Ident, key)
		if err != nil {
			b.Fatal(err)
		}
		closer.Close()
	}
}

func BenchmarkScan(b *testing.B) {
	c, coll := benchOpen(b, 100000)
	for n := 0; n < b.N; {
		it, err := c.engine.NewIter(coll.Ident, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		for ok := it.First(); ok && n < b.N; ok = it.Next() {
			it.Value()
			n++
		}
		it.Close()
	}
}

func BenchmarkUpdate(b *testing.B) {
	c, coll := benchOpen(b, 100000)
	for n := 0; n < b.N; n++ {
		id := n * 7919 % 100000
		u := c.Begin()
		key := coll.AppendIDKey(nil, bson.ObjectID(objectID(id)))
		old, err := u.LockRecord(context.Background(), coll, key)
		if err != nil {
			b.Fatal(err)
		}
		doc := bytes.Replace(old, []byte("middling"), []byte("standard"), 1)
		if err := u.Update(context.Background(), coll, key, old, doc); err != nil {
			b.Fatal(err)
		}
		if err := u.Commit(context.Background(), storage.Buffered); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDeleteBatch(b *testing.B) {
	c, coll := benchOpen(b, b.N/1000*1000+1000)
	var key RecordKey
	for at := 0; at < b.N; at += 1000 {
		u := c.Begin()
		for n := at; n < at+1000; n++ {
			key = coll.AppendIDKey(key[:0], bson.ObjectID(objectID(n)))
			old, err := u.LockRecord(context.Background(), coll, key)
			if err != nil || old == nil {
				b.Fatal(n, err)
			}
			if err := u.Delete(context.Background(), coll, key, old); err != nil {
				b.Fatal(err)
			}
		}
		if err := u.Commit(context.Background(), storage.Buffered); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuildIndex(b *testing.B) {
	c, _ := benchOpen(b, b.N/1000*1000+1000)
	if _, _, err := c.CreateIndexes(b.Context(), testNS, specs(b, testNS, `{"key": {"name": 1, "a": -1}, "name": "new"}`)); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkValidate(b *testing.B) {
	c, coll := benchOpen(b, b.N/1000*1000+1000)
	if v, err := c.Validate(b.Context(), coll, true); err != nil || !v.Valid {
		b.Fatal(err, v)
	}
}

// BenchmarkByKey compares collections that lie by _id and by a shard key, with an index
// on that: what inserts, lookups by _id and updates cost, and the removal of a chunk.
func BenchmarkByKey(b *testing.B) {
	for _, l := range []struct{ name, index, key string }{
		{"id", `{"key": {"a": "hashed"}, "name": "a_hashed"}`, ""},
		{"hashed", `{"key": {"a": "hashed"}, "name": "a_hashed"}`, `{a: "hashed"}`},
		{"idWithRanged", `{"key": {"a": 1}, "name": "a_1"}`, ""},
		{"ranged", `{"key": {"a": 1}, "name": "a_1"}`, `{a: 1}`},
		{"idWithUnique", `{"key": {"a": 1}, "name": "a_1", "unique": true}`, ""},
		{"unique", `{"key": {"a": 1}, "name": "a_1", "unique": true}`, `{a: 1}`},
		{"idOfHashedID", `{"key": {"_id": "hashed"}, "name": "_id_hashed"}`, ""},
		{"hashedID", `{"key": {"_id": "hashed"}, "name": "_id_hashed"}`, `{_id: "hashed"}`},
	} {
		open := func(b *testing.B, docs int) (*Catalog, *Collection) {
			c, coll := benchOpen(b, 0, l.index)
			if l.key != "" {
				coll = lieByKey(b, c, testNS, l.key)
			}
			for at := 0; at < docs; at += 1000 {
				insertBatch(b, c, coll, at, storage.Buffered)
			}
			if docs > 0 {
				c.engine.Flush()
			}
			b.ResetTimer()
			return c, coll
		}
		// used reports the processor time of an operation, of which one step of the loop has some.
		used := func(b *testing.B, each int) func() {
			begun := cpuTime(b)
			return func() {
				b.ReportMetric(float64((cpuTime(b)-begun).Nanoseconds())/1000/float64(b.N*each), "cpu-µs")
			}
		}
		b.Run("insert/"+l.name, func(b *testing.B) { // 1,000 documents each
			c, coll := open(b, 0)
			defer used(b, 1000)()
			for i := 0; b.Loop(); i++ {
				insertBatch(b, c, coll, i*1000, storage.Buffered)
			}
			c.engine.Flush()
		})
		b.Run("findByKey/"+l.name, func(b *testing.B) {
			const docs = 200_000
			c, coll := open(b, docs)
			ix := coll.Indexes()[1]
			defer used(b, 1)()
			for i := 0; b.Loop(); i++ {
				keys, _, err := ix.Form.Keys(benchDoc(i*7919%docs), nil)
				if err != nil {
					b.Fatal(err)
				}
				it, err := coll.EntryIter(c.engine, ix, keys[0].Bytes, keystring.Successor(bytes.Clone(keys[0].Bytes)))
				if err != nil || !it.First() {
					b.Fatal(err)
				}
				v, _ := it.Value()
				_, record, _, doc := coll.SplitEntry(nil, ix, it, v)
				if doc == nil {
					var closer io.Closer
					if doc, closer, err = coll.find(c.engine, record); err != nil || doc == nil {
						b.Fatal(doc, err)
					}
					closer.Close()
				}
				it.Close()
			}
		})
		b.Run("find/"+l.name, func(b *testing.B) {
			const docs = 200_000
			c, coll := open(b, docs)
			defer used(b, 1)()
			for i := 0; b.Loop(); i++ {
				_, doc, closer, err := coll.FindID(nil, c.engine, bson.ObjectID(objectID(i*7919%docs)))
				if doc == nil || err != nil {
					b.Fatal(doc, err)
				}
				closer.Close()
			}
		})
		b.Run("update/"+l.name, func(b *testing.B) {
			const docs = 200_000
			c, coll := open(b, docs)
			for i := 0; b.Loop(); i++ {
				n := i * 7919 % docs
				doc := new(bson.Builder).Fields(benchDoc(n)).Int64("n", int64(i)).Finish()
				if err := c.Run(context.Background(), storage.Buffered, func(u *Unit) error {
					key, old, err := u.LockID(context.Background(), coll, doc.Lookup("_id"))
					if err != nil {
						return err
					}
					return u.Update(context.Background(), coll, key, old, doc)
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
