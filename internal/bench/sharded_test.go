package bench

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain is the forwarder where a benchmark starts this program as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "-forwarder" {
		port, _ := strconv.Atoi(os.Args[2])
		to, _ := strconv.Atoi(os.Args[4])
		panic(ServeForwarder(port, to))
	}
	m.Run()
}

// TestShardedTargets runs the row that needs no server.
func TestShardedTargets(t *testing.T) {
	var out strings.Builder
	b := &bench{o: Default()}
	b.o.Small()
	b.o.Out, b.o.Duration = &out, 10*time.Millisecond
	if err := b.shardedTargets(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "20000 chunks") {
		t.Error(out.String())
	}
}

// TestRawIngest holds that what moves are compared to is taken in.
func TestRawIngest(t *testing.T) {
	took, err := rawIngest(t.Context(), t.TempDir(), 5000)
	if err != nil || took <= 0 {
		t.Fatal(took, err)
	}
}

// TestSharded runs the rows of a cluster in small sizes, with the server of MAYFLY_BIN.
func TestSharded(t *testing.T) {
	binary := os.Getenv("MAYFLY_BIN")
	if binary == "" {
		t.Skip("MAYFLY_BIN names no server: make test-e2e runs it with one")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := Default()
	o.Small()
	o.Self = self
	o.Binary, o.Rows, o.Out, o.Dir = binary, "sharded", &out, t.TempDir()
	o.Documents, o.ShardedDocuments, o.ExpiryDocuments, o.CacheGB = 1000, 2000, 3000, 0.1
	o.Postgres, o.Pebble, o.Wire, o.Hollow = false, false, false, false
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"shardedFind", "shardedInsertMany", "forwarded", "one move", "64 moves", "by their hash", "mayfly, three shards", "100 %", "groupMany"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not there:\n%s", want, &out)
		}
	}
}
