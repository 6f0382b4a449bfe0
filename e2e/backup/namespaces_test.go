package backup

import (
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestNamespaces restores single collections: to a directory that has nothing else, and into the
// running server, where what is there stays unless it is to be dropped.
func TestNamespaces(t *testing.T) {
	s := testkit.Start(t)
	db := s.Client().Database("app")
	fill(t, s.Client(), 2000)
	filled := db.Collection("filled")
	if _, err := filled.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := db.CreateView(t.Context(), "view", "filled", mongo.Pipeline{{{Key: "$limit", Value: 5}}}); err != nil {
		t.Fatal(err)
	}
	series := options.CreateCollection().SetTimeSeriesOptions(options.TimeSeries().SetTimeField("ts"))
	if err := db.CreateCollection(t.Context(), "series", series); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"series", "other"} {
		if _, err := db.Collection(name).InsertOne(t.Context(), bson.D{{Key: "ts", Value: bson.DateTime(1_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	repository := filepath.Join(t.TempDir(), "repository")
	take(t, "--uri", s.URI(), "--to", repository)

	c := restored(t, true, "--from", repository, "--ns", "app.fil*", "--ns", "app.series").Database("app")
	names, err := c.ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: bson.D{{Key: "$not", Value: bson.Regex{Pattern: "^system"}}}}})
	if err != nil || len(names) != 2 {
		t.Errorf("%v is there: %v", names, err)
	}
	for name, want := range map[string]int64{"filled": 2000, "series": 1} {
		if n, err := c.Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
			t.Errorf("%s has %d documents, not %d: %v", name, n, want, err)
		}
	}

	if _, err := filled.DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 10}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := filled.UpdateByID(t.Context(), 20, bson.D{{Key: "$set", Value: bson.D{{Key: "new", Value: true}}}}); err != nil {
		t.Fatal(err)
	}
	into := []string{"restore", "--from", repository, "--uri", s.URI(), "--ns", "app.*"}
	if err := db.Collection("series").Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"11 documents were inserted, and 1991 were there", "2002 documents were inserted, and 0 were there"} {
		if i == 1 {
			into = append(into, "--drop")
		}
		if out := mayfly(t, 0, into...); !strings.Contains(out, want) || !strings.Contains(out, "4 collections") {
			t.Errorf("%q is not in %s", want, out)
		}
		n, err := filled.CountDocuments(t.Context(), bson.D{})
		updated, err2 := filled.CountDocuments(t.Context(), bson.D{{Key: "new", Value: true}})
		if err != nil || err2 != nil || n != 2000 || updated != int64(1-i) {
			t.Errorf("%d documents, %d of them were changed: %v, %v", n, updated, err, err2)
		}
		specs, err := filled.Indexes().ListSpecifications(t.Context())
		if err != nil || len(specs) != 2 {
			t.Errorf("%v: %v", specs, err)
		}
		if n, err := db.Collection("view").CountDocuments(t.Context(), bson.D{}); err != nil || n != 5 {
			t.Errorf("the view has %d documents: %v", n, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "new")
	if out := mayfly(t, 100, "restore", "--from", repository, "--to", dir, "--ns", "app.none"); !strings.Contains(out, "no collection") {
		t.Error(out)
	}
	mayfly(t, 2, "restore", "--from", repository, "--to", dir, "--ns", "app")
	mayfly(t, 2, "restore", "--from", repository, "--uri", s.URI())
}
