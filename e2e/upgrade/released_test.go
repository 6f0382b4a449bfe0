package upgrade

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var write = flag.String("upgrade.write", "", "write testdata of the version that this build is")

// kinds are the servers whose data are kept, with their options. The member is known by a name that
// is not asked for.
var kinds = map[string][]string{
	"standalone": nil,
	"member":     {"--replSet", "rs0", "--initiate", "--advertise", "member.invalid:27017"},
}

// TestReleased holds that the data directories of all releases are opened by this build, have
// everything that was in them, pass verification, take writes, and are opened once more.
func TestReleased(t *testing.T) {
	if *write != "" {
		for kind := range kinds {
			writeReleased(t, filepath.Join("testdata", *write), kind)
		}
	}
	all, err := filepath.Glob("testdata/*/*.tar.gz")
	if err != nil || len(all) < len(kinds) {
		t.Fatalf("%v, %v", all, err)
	}
	for _, path := range all {
		base := strings.TrimSuffix(path, ".tar.gz")
		t.Run(strings.TrimPrefix(base, "testdata/"), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, path, dir)
			want, err := os.ReadFile(base + ".json")
			if err != nil {
				t.Fatal(err)
			}
			args := kinds[filepath.Base(base)]
			s := testkit.StartIn(t, dir, args...)
			db := s.Direct()
			if got := dump(t, db); got != string(want) {
				t.Errorf("it has\n%s\nwant\n%s", firstDifference(got, string(want)), path)
			}
			if len(args) > 0 {
				checkLog(t, db)
			}
			if _, err := db.Database("shop").Collection("plain").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "new"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Database("shop").Collection("plain").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "new"}}); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			if code, out := testkit.Exec(t, nil, "verify", "--dbpath", dir); code != 0 {
				t.Errorf("verification: %d\n%s", code, out)
			}
			s.Run()
			if got := dump(t, s.Direct()); got != string(want) {
				t.Errorf("started once more it has\n%s", firstDifference(got, string(want)))
			}
		})
	}
}

// firstDifference is the first line of a that b has not, and b's.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\ninstead of\n" + y[i]
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(x), len(y))
}

// far is when what expires does: tests of many years read the same.
var far = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)

// fill stores something of all kinds that there are.
func fill(t *testing.T, c *mongo.Client) {
	t.Helper()
	db := c.Database("shop")
	run := func(command bson.D) {
		t.Helper()
		if err := db.RunCommand(t.Context(), command).Err(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
	insert := func(name string, n int, doc func(i int) bson.D) {
		t.Helper()
		docs := make([]any, n)
		for i := range docs {
			docs[i] = doc(i)
		}
		if _, err := db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	index := func(key bson.D, name string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "key", Value: key}, {Key: "name", Value: name}}, more...)
	}
	decimal, err := bson.ParseDecimal128("12345.678900")
	if err != nil {
		t.Fatal(err)
	}
	insert("plain", 300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprintf("Name %03d", i)}, {Key: "n", Value: int64(i * i)}, {Key: "f", Value: float64(i) / 3}, {Key: "d", Value: decimal},
			{Key: "at", Value: far.Add(time.Duration(i) * time.Minute)}, {Key: "bin", Value: []byte{1, 2, byte(i)}}, {Key: "tags", Value: bson.A{"a", i, nil, true}},
			{Key: "place", Value: bson.D{{Key: "type", Value: "Point"}, {Key: "coordinates", Value: bson.A{float64(i%90) / 2, 10.5}}}}, {Key: "text", Value: "old wine in new bottles"},
			{Key: "ts", Value: bson.Timestamp{T: uint32(i), I: 7}}, {Key: "re", Value: bson.Regex{Pattern: "^a", Options: "i"}}, {Key: "sub", Value: bson.D{{Key: "x", Value: i % 7}}}}
	})
	run(bson.D{{Key: "createIndexes", Value: "plain"}, {Key: "indexes", Value: bson.A{
		index(bson.D{{Key: "n", Value: 1}}, "unique", bson.E{Key: "unique", Value: true}), index(bson.D{{Key: "name", Value: 1}, {Key: "f", Value: -1}}, "compound"),
		index(bson.D{{Key: "tags", Value: 1}}, "multikey"), index(bson.D{{Key: "sub.x", Value: "hashed"}}, "hashed"), index(bson.D{{Key: "place", Value: "2dsphere"}}, "places"),
		index(bson.D{{Key: "text", Value: "text"}}, "words"), index(bson.D{{Key: "$**", Value: 1}}, "wildcard"),
		index(bson.D{{Key: "f", Value: 1}}, "partial", bson.E{Key: "partialFilterExpression", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$gt", Value: 100}}}}}),
		index(bson.D{{Key: "none", Value: 1}}, "sparse", bson.E{Key: "sparse", Value: true}), index(bson.D{{Key: "name", Value: 1}}, "german", bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "de"}}}),
	}}})
	// Windows of expiry: the index is there before the data. By last write, with times of their own.
	run(bson.D{{Key: "createIndexes", Value: "sessions"}, {Key: "indexes", Value: bson.A{index(bson.D{{Key: "at", Value: 1}}, "ttl", bson.E{Key: "expireAfterSeconds", Value: 3600})}}})
	insert("sessions", 500, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "at", Value: far.Add(time.Duration(i) * time.Hour)}}
	})
	run(bson.D{{Key: "create", Value: "clustered"}, {Key: "clusteredIndex", Value: bson.D{{Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "unique", Value: true}}}, {Key: "expireAfterSeconds", Value: 60}})
	insert("clustered", 50, func(i int) bson.D { return bson.D{{Key: "_id", Value: far.Add(time.Duration(i) * time.Second)}} })
	run(bson.D{{Key: "create", Value: "readings"}, {Key: "timeseries", Value: bson.D{{Key: "timeField", Value: "at"}, {Key: "metaField", Value: "m"}, {Key: "granularity", Value: "minutes"}}}, {Key: "expireAfterSeconds", Value: 7200}})
	insert("readings", 2000, func(i int) bson.D {
		return bson.D{{Key: "at", Value: far.Add(time.Duration(i) * time.Second)}, {Key: "m", Value: i % 5}, {Key: "_id", Value: i}, {Key: "t", Value: 20 + float64(i%10)/10}}
	})
	run(bson.D{{Key: "create", Value: "capped"}, {Key: "capped", Value: true}, {Key: "size", Value: 8192}, {Key: "max", Value: 20}})
	insert("capped", 30, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}} })
	run(bson.D{{Key: "create", Value: "view"}, {Key: "viewOn", Value: "plain"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$lt", Value: 100}}}}}}}}})
	run(bson.D{{Key: "create", Value: "valid"}, {Key: "validator", Value: bson.D{{Key: "$jsonSchema", Value: bson.D{{Key: "required", Value: bson.A{"a"}}}}}}, {Key: "collation", Value: bson.D{{Key: "locale", Value: "sv"}}}})
	insert("valid", 10, func(i int) bson.D { return bson.D{{Key: "_id", Value: fmt.Sprint("å", i)}, {Key: "a", Value: i}} })
	run(bson.D{{Key: "createRole", Value: "reader"}, {Key: "privileges", Value: bson.A{bson.D{{Key: "resource", Value: bson.D{{Key: "db", Value: "shop"}, {Key: "collection", Value: "plain"}}}, {Key: "actions", Value: bson.A{"find"}}}}}, {Key: "roles", Value: bson.A{}}})
	run(bson.D{{Key: "createUser", Value: "ann"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"reader"}}})
	if _, err := db.Collection("plain").UpdateMany(t.Context(), bson.D{{Key: "sub.x", Value: 3}}, bson.D{{Key: "$set", Value: bson.D{{Key: "changed", Value: true}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("plain").DeleteMany(t.Context(), bson.D{{Key: "sub.x", Value: 5}}); err != nil {
		t.Fatal(err)
	}
}

// transact commits a transaction and an update that the driver could send again, on a member.
func transact(t *testing.T, c *mongo.Client) {
	t.Helper()
	session, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		for i := range 20 {
			if _, err := c.Database("shop").Collection("transferred").InsertOne(ctx, bson.D{{Key: "_id", Value: i}}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dump is all that a client sees: collections with their options and UUIDs, indexes, users, roles,
// and documents in the order of _id, as extended JSON.
func dump(t *testing.T, c *mongo.Client) string {
	t.Helper()
	var b strings.Builder
	line := func(doc any) {
		t.Helper()
		text, err := bson.MarshalExtJSON(doc, true, false)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	db := c.Database("shop")
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		specs, err := db.ListCollections(t.Context(), bson.D{{Key: "name", Value: name}})
		lines(t, line, specs, err)
		if !strings.HasPrefix(name, "view") {
			indexes, err := db.Collection(name).Indexes().List(t.Context())
			lines(t, line, indexes, err)
		}
		docs, err := db.Collection(name).Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
		lines(t, line, docs, err)
	}
	for _, command := range []string{"usersInfo", "rolesInfo"} {
		var reply bson.D
		if err := db.RunCommand(t.Context(), bson.D{{Key: command, Value: 1}}).Decode(&reply); err != nil {
			t.Fatal(err)
		}
		line(reply[:1])
	}
	// By index, what else is only checked to agree with the documents (verify).
	for _, filter := range []bson.D{{{Key: "n", Value: 144}}, {{Key: "tags", Value: 17}}, {{Key: "sub.x", Value: 3}}, {{Key: "$text", Value: bson.D{{Key: "$search", Value: "bottle"}}}},
		{{Key: "place", Value: bson.D{{Key: "$geoWithin", Value: bson.D{{Key: "$centerSphere", Value: bson.A{bson.A{3.5, 10.5}, 0.001}}}}}}}} {
		n, err := db.Collection("plain").Find(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		var docs []bson.Raw
		if err := n.All(t.Context(), &docs); err != nil {
			t.Fatal(err)
		}
		line(bson.D{{Key: "filter", Value: filter}, {Key: "found", Value: len(docs)}})
	}
	return b.String()
}

func lines(t *testing.T, line func(any), cursor *mongo.Cursor, err error) {
	t.Helper()
	var all []bson.Raw
	if err == nil {
		err = cursor.All(t.Context(), &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		line(d)
	}
}

// checkLog holds that the log of a member is read from the beginning, as a change stream does.
func checkLog(t *testing.T, c *mongo.Client) {
	t.Helper()
	var first struct{ TS bson.Timestamp }
	log := c.Database("local").Collection("oplog.rs")
	if err := log.FindOne(t.Context(), bson.D{{Key: "ns", Value: "shop.plain"}}, options.FindOne().SetSort(bson.D{{Key: "$natural", Value: 1}})).Decode(&first); err != nil {
		t.Fatal(err)
	}
	stream, err := c.Database("shop").Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetStartAtOperationTime(&first.TS))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(t.Context())
	seen := map[string]int{}
	for seen["transferred"] < 20 {
		if !stream.Next(t.Context()) {
			t.Fatalf("the stream ends after %v: %v", seen, stream.Err())
		}
		seen[stream.Current.Lookup("ns", "coll").StringValue()]++
	}
	if seen["sessions"] != 500 || seen["clustered"] != 50 || seen["plain"] < 300 {
		t.Errorf("the log has %v", seen)
	}
}

// writeReleased makes the files of a kind of server.
func writeReleased(t *testing.T, to, kind string) {
	t.Helper()
	s := testkit.Start(t, kinds[kind]...)
	c := s.Direct()
	fill(t, c)
	if len(kinds[kind]) > 0 {
		transact(t, c)
	}
	text := dump(t, c)
	s.Stop()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, kind+".json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	pack(t, s.Dir, filepath.Join(to, kind+".tar.gz"))
}

// pack makes an archive of a directory.
func pack(t *testing.T, dir, path string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
