package backup

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// startBucket starts a store with a bucket, to which a tool has the credentials, and returns the
// address of a repository in it. It does not answer one of so many requests; 0: it answers all.
func startBucket(t *testing.T, fails int) (repository string, kept *s3mem.Backend) {
	t.Helper()
	kept = s3mem.New()
	if err := kept.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	store := gofakes3.New(kept).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails > 0 && rand.IntN(fails) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://backups/shop?endpoint=" + server.URL + "&pathStyle=true", kept
}

// TestBucket takes backups into a bucket that fails now and then, damages one, and restores it.
func TestBucket(t *testing.T) {
	repository, kept := startBucket(t, 20)
	s := testkit.Start(t)
	fill(t, s.Client(), 5000)
	take(t, "--uri", s.URI(), "--to", repository)
	if _, err := s.Client().Database("app").Collection("more").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	second := take(t, "--uri", s.URI(), "--to", repository)
	if list := mayfly(t, 0, "backup", "list", "--from", repository); strings.Count(list, "\n") != 2 {
		t.Errorf("there are two backups, not\n%s", list)
	}
	mayfly(t, 0, "backup", "verify", "--from", repository)

	prefix := gofakes3.NewFolderPrefix("shop/files/")
	list, err := kept.ListBucket("backups", &prefix, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	largest := list.Contents[0]
	for _, o := range list.Contents {
		if o.Size > largest.Size {
			largest = o
		}
	}
	o, err := kept.GetObject("backups", largest.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(o.Contents)
	if err != nil {
		t.Fatal(err)
	}
	b[rand.IntN(len(b))] ^= 1
	if _, err := kept.PutObject("backups", largest.Key, map[string]string{}, bytes.NewReader(b), largest.Size, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if out := mayfly(t, 1, "restore", "--from", repository, "--to", dir); !strings.Contains(out, strings.TrimPrefix(largest.Key, "shop/")) {
		t.Errorf("%s is not named in %s", largest.Key, out)
	}
	mayfly(t, 1, "backup", "verify", "--from", repository)
	third := take(t, "--uri", s.URI(), "--to", repository) // stores it anew
	mayfly(t, 0, "backup", "prune", "--from", repository, "--keep", "1")
	mayfly(t, 0, "backup", "verify", "--from", repository)
	mayfly(t, 0, "restore", "--from", repository, "--to", dir)
	c := testkit.StartIn(t, dir).Client()
	if n, err := c.Database("app").Collection("filled").CountDocuments(t.Context(), bson.D{}); err != nil || n != 5000 {
		t.Errorf("%d of 5,000 documents are there: %v", n, err)
	}
	t.Logf("of %d bytes, the second backup has read %d, the third %d", second.bytes, second.read, third.read)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
	if out := mayfly(t, 100, "backup", "list", "--from", repository); !strings.Contains(out, "credentials") {
		t.Errorf("without credentials it says %s", out)
	}
}
