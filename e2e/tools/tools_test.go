package tools

import (
	"context"
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// tool is a connection as the tools use one.
type tool struct {
	t *testing.T
	*mongo.Client
}

func (c tool) run(db string, cmd bson.D) bson.M {
	c.t.Helper()
	var reply bson.M
	if err := c.Database(db).RunCommand(c.t.Context(), cmd).Decode(&reply); err != nil {
		c.t.Fatalf("%s %v: %v", db, cmd, err)
	}
	return reply
}

// cursor runs a command with a cursor and returns all its documents.
func (c tool) cursor(db string, cmd bson.D) (docs []bson.D) {
	c.t.Helper()
	cur, err := c.Database(db).RunCommandCursor(c.t.Context(), cmd)
	if err == nil {
		err = cur.All(c.t.Context(), &docs)
	}
	if err != nil {
		c.t.Fatalf("%s %v: %v", db, cmd, err)
	}
	return docs
}

func get(d bson.D, name string) any {
	for _, e := range d {
		if e.Key == name {
			return e.Value
		}
	}
	return nil
}

// dump is what mongodump reads of a database.
type dump struct {
	infos   []bson.D
	indexes map[string][]bson.D
	docs    map[string][]bson.Raw
}

// dump asks what mongodump asks.
func (c tool) dump(db string) dump {
	c.t.Helper()
	c.run("admin", bson.D{{Key: "ismaster", Value: 1}})
	c.run("admin", bson.D{{Key: "buildInfo", Value: 1}})
	d := dump{indexes: map[string][]bson.D{}, docs: map[string][]bson.Raw{}}
	d.infos = c.cursor(db, bson.D{{Key: "listCollections", Value: 1}, {Key: "filter", Value: bson.D{}}, {Key: "cursor", Value: bson.D{}}})
	for _, info := range d.infos {
		name := get(info, "name").(string)
		if get(info, "type") != "collection" || name == "system.views" {
			continue
		}
		c.run(db, bson.D{{Key: "count", Value: name}})
		d.indexes[name] = c.cursor(db, bson.D{{Key: "listIndexes", Value: name}, {Key: "cursor", Value: bson.D{}}})
		cur, err := c.Database(db).Collection(name).Find(c.t.Context(), bson.D{}, options.Find().SetHint(bson.D{{Key: "$natural", Value: 1}}))
		if err != nil {
			c.t.Fatal(err)
		}
		for cur.Next(c.t.Context()) {
			d.docs[name] = append(d.docs[name], append(bson.Raw(nil), cur.Current...))
		}
		if err := cur.Err(); err != nil {
			c.t.Fatal(err)
		}
	}
	return d
}

// restore asks what mongorestore asks: drop, create with the options and the
// _id index, inserts in no order, then the indexes.
func (c tool) restore(db string, d dump) {
	c.t.Helper()
	for _, info := range d.infos {
		name := get(info, "name").(string)
		if name == "system.views" {
			continue
		}
		c.run(db, bson.D{{Key: "drop", Value: name}, {Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}})
		create := append(bson.D{{Key: "create", Value: name}}, get(info, "options").(bson.D)...)
		if id, ok := get(info, "idIndex").(bson.D); ok && get(create, "clusteredIndex") == nil {
			var spec bson.D
			for _, e := range id {
				if e.Key != "v" {
					spec = append(spec, e)
				}
			}
			create = append(create, bson.E{Key: "idIndex", Value: append(spec, bson.E{Key: "ns", Value: db + "." + name})})
		}
		c.run(db, create)
		c.insert(db, name, d.docs[name])
		var specs bson.A
		for _, ix := range d.indexes[name] {
			if get(ix, "name") == "_id_" {
				continue
			}
			// Old dumps carry ns, and options that nobody knows.
			specs = append(specs, append(ix, bson.E{Key: "ns", Value: db + "." + name}, bson.E{Key: "ensure", Value: true}))
		}
		if len(specs) > 0 {
			c.run(db, bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: specs}, {Key: "ignoreUnknownIndexOptions", Value: true}})
		}
	}
}

// batch is how many documents mongorestore inserts at once.
const batch = 1000

func (c tool) insert(db, name string, docs []bson.Raw) {
	c.t.Helper()
	for len(docs) > 0 {
		n := min(batch, len(docs))
		r := c.run(db, bson.D{
			{Key: "insert", Value: name}, {Key: "ordered", Value: false}, {Key: "documents", Value: docs[:n]},
			{Key: "bypassDocumentValidation", Value: true}, {Key: "bypassEmptyTsReplacement", Value: true},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}},
		})
		if r["n"] != int32(n) {
			c.t.Fatalf("%s.%s: %v of %d documents inserted", db, name, r["n"], n)
		}
		docs = docs[n:]
	}
}

func (c tool) fill(db string) {
	c.t.Helper()
	var docs []bson.Raw
	for i := range 2500 {
		d, err := bson.Marshal(bson.D{{Key: "_id", Value: i}, {Key: "n", Value: i % 7}, {Key: "at", Value: time.UnixMilli(int64(i))},
			{Key: "ts", Value: bson.Timestamp{}}, {Key: "in", Value: bson.D{{Key: "ts", Value: bson.Timestamp{}}}}})
		if err != nil {
			c.t.Fatal(err)
		}
		docs = append(docs, d)
	}
	c.insert(db, "plain", docs)
	c.run(db, bson.D{{Key: "createIndexes", Value: "plain"}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: -1}}}, {Key: "name", Value: "ttl"}, {Key: "expireAfterSeconds", Value: int32(2147483647)}},
		bson.D{{Key: "key", Value: bson.D{{Key: "n", Value: 1}, {Key: "at", Value: 1}}}, {Key: "name", Value: "part"},
			{Key: "partialFilterExpression", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$gt", Value: 3}}}}}},
	}}})
	c.run(db, bson.D{{Key: "create", Value: "capped"}, {Key: "capped", Value: true}, {Key: "size", Value: 1 << 16}, {Key: "max", Value: 10}})
	c.run(db, bson.D{{Key: "create", Value: "clustered"}, {Key: "expireAfterSeconds", Value: int64(1e9)},
		{Key: "clusteredIndex", Value: bson.D{{Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "unique", Value: true}}}})
	c.run(db, bson.D{{Key: "create", Value: "collated"}, {Key: "collation", Value: bson.D{{Key: "locale", Value: "en"}, {Key: "strength", Value: 2}}}})
	c.run(db, bson.D{{Key: "create", Value: "valid"}, {Key: "validator", Value: bson.D{{Key: "q", Value: bson.D{{Key: "$exists", Value: true}}}}}})
	c.run(db, bson.D{{Key: "create", Value: "view"}, {Key: "viewOn", Value: "plain"},
		{Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{{Key: "n", Value: 1}}}}}}})
	for _, name := range []string{"capped", "clustered", "collated", "valid"} {
		d, err := bson.Marshal(bson.D{{Key: "_id", Value: name}})
		if err != nil {
			c.t.Fatal(err)
		}
		c.insert(db, name, []bson.Raw{d})
	}
}

func connect(t *testing.T) tool { return tool{t, testkit.Start(t).Client()} }

// TestDumpAndRestore holds that what was dumped and restored is the same.
func TestDumpAndRestore(t *testing.T) {
	c := connect(t)
	c.fill("from")
	first := c.dump("from")
	c.restore("to", first)
	second := c.dump("to")
	for i := range first.infos {
		a, b := first.infos[i], second.infos[i]
		if get(a, "name") != get(b, "name") || !reflect.DeepEqual(get(a, "options"), get(b, "options")) || !reflect.DeepEqual(get(a, "idIndex"), get(b, "idIndex")) {
			t.Errorf("dumped\n%v, restored\n%v", a, b)
		}
	}
	if !reflect.DeepEqual(first.indexes, second.indexes) {
		t.Errorf("indexes dumped\n%v, restored\n%v", first.indexes, second.indexes)
	}
	if !reflect.DeepEqual(first.docs, second.docs) {
		t.Error("documents have changed")
	}
}

// TestExportAndImport asks what mongoexport and the modes of mongoimport ask.
func TestExportAndImport(t *testing.T) {
	c := connect(t)
	c.fill("db")
	if infos := c.cursor("db", bson.D{{Key: "listCollections", Value: 1}, {Key: "filter", Value: bson.D{{Key: "name", Value: "plain"}}}, {Key: "cursor", Value: bson.D{}}}); len(infos) != 1 {
		t.Error(infos)
	}
	found := c.cursor("db", bson.D{{Key: "find", Value: "plain"}, {Key: "filter", Value: bson.D{{Key: "n", Value: 1}}},
		{Key: "sort", Value: bson.D{{Key: "_id", Value: -1}}}, {Key: "projection", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "limit", Value: 3}, {Key: "skip", Value: 1}})
	if len(found) != 3 || get(found[0], "_id") != int32(2486) {
		t.Error(found)
	}
	concern := bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}
	bypass := bson.E{Key: "bypassEmptyTsReplacement", Value: true}
	for _, u := range []bson.D{
		{{Key: "a", Value: 1}, {Key: "ts", Value: bson.Timestamp{}}},        // --mode=upsert
		{{Key: "$set", Value: bson.D{{Key: "b", Value: bson.Timestamp{}}}}}, // --mode=merge
	} {
		c.run("db", bson.D{{Key: "update", Value: "imported"}, {Key: "ordered", Value: true}, bypass, concern, {Key: "updates", Value: bson.A{
			bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: u}, {Key: "upsert", Value: true}},
		}}})
	}
	var doc bson.D
	if err := c.Database("db").Collection("imported").FindOne(context.Background(), bson.D{}).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	want := bson.D{{Key: "_id", Value: int32(1)}, {Key: "a", Value: int32(1)}, {Key: "ts", Value: bson.Timestamp{}}, {Key: "b", Value: bson.Timestamp{}}}
	if !reflect.DeepEqual(doc, want) {
		t.Error(doc)
	}
	r := c.run("db", bson.D{{Key: "delete", Value: "imported"}, {Key: "ordered", Value: true}, concern, {Key: "deletes", Value: bson.A{
		bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "limit", Value: 1}}}}})
	if r["n"] != int32(1) {
		t.Error(r)
	}
	c.run("db", bson.D{{Key: "drop", Value: "imported"}}) // --drop
}

// TestStatAndTop asks what mongostat and mongotop ask, and looks for what they
// read in the replies.
func TestStatAndTop(t *testing.T) {
	c := connect(t)
	c.fill("db")
	s := c.run("admin", bson.D{{Key: "serverStatus", Value: 1}, {Key: "recordStats", Value: 0}})
	for _, name := range []string{"host", "version", "process", "opcounters", "connections", "network", "mem", "globalLock", "extra_info", "storageEngine"} {
		if s[name] == nil {
			t.Errorf("serverStatus has no %s", name)
		}
	}
	top := c.run("admin", bson.D{{Key: "top", Value: 1}})
	if totals, _ := top["totals"].(bson.D); get(totals, "db.plain") == nil {
		t.Errorf("top knows nothing of db.plain: %v", top)
	}
}
