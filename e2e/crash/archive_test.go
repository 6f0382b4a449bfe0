package crash

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestArchiveSurvivesKill kills a server again and again while it archives what expires, into a
// directory and into a bucket: archived and live documents are together all, each once.
func TestArchiveSurvivesKill(t *testing.T) {
	dir, memory := t.TempDir(), s3mem.New()
	if err := memory.CreateBucket("kept"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(memory).Server())
	defer bucket.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1",
		"--setParameter", fmt.Sprintf("archivePlaces=file://%s,s3://kept/here?endpoint=%s&pathStyle=true", dir, bucket.URL))
	colls := map[string]string{"directory": "file://" + dir + "/a", "bucket": "s3://kept/here/a"}
	for name, to := range colls {
		index := bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"}, {Key: "expireAfterSeconds", Value: 0},
			{Key: "storageEngine", Value: bson.M{"mayfly": bson.M{"expiry": bson.M{"archive": bson.M{"to": to}}}}}}
		if err := s.Client().Database("app").RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: bson.A{index}}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acknowledged := 0
	for range max(3, *rounds/10) {
		for range 4 {
			var docs []any
			for i := range 1000 {
				docs = append(docs, bson.D{{Key: "_id", Value: acknowledged + i}, {Key: "at", Value: time.Now().Add(-time.Duration(i%3) * 24 * time.Hour)}, {Key: "pad", Value: strings.Repeat("x", 200)}})
			}
			for name := range colls {
				if _, err := s.Client().Database("app").Collection(name).InsertMany(t.Context(), docs); err != nil {
					t.Fatal(err)
				}
			}
			acknowledged += len(docs)
		}
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond) // somewhere in a batch
		s.Kill()
		s.Run()
	}
	for name := range colls {
		coll := s.Client().Database("app").Collection(name)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			n, err := coll.CountDocuments(t.Context(), bson.D{})
			if err == nil && n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d documents are live, %v", name, n, err)
			}
		}
		cur, err := coll.Aggregate(t.Context(), bson.A{bson.D{{Key: "$archive", Value: bson.D{}}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$_id"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}, {Key: "documents", Value: bson.D{{Key: "$sum", Value: 1}}}, {Key: "most", Value: bson.D{{Key: "$max", Value: "$n"}}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		var sums []struct{ Documents, Most int }
		if err := cur.All(t.Context(), &sums); err != nil || len(sums) != 1 || sums[0].Documents != acknowledged || sums[0].Most != 1 {
			t.Errorf("%s: %+v of %d are archived, %v", name, sums, acknowledged, err)
		}
	}
	if found, err := filepath.Glob(filepath.Join(dir, "a", "app.directory", "dt=*", "*.parquet")); err != nil || len(found) == 0 {
		t.Errorf("%v, %v", found, err)
	}
}
