package robust

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestDamagedLog flips a bit in the log of a server that was killed: the next start
// ends with code 100, names the file, and changes nothing; with the bit flipped back
// all is there.
func TestDamagedLog(t *testing.T) {
	s := testkit.Start(t)
	journal := true
	c := s.Client().Database("d").Collection("c", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{Journal: &journal}))
	const n = 300
	for i := range n {
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "s", Value: strings.Repeat("x", 200)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	slices.Sort(logs)
	log := logs[len(logs)-1]
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[30_000] ^= 1
	write := func(b []byte) {
		if err := os.WriteFile(log, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(damaged)
	before, _ := os.ReadDir(s.Dir)
	code, said := testkit.Exec(t, nil, "serve", "--nounixsocket", "--dbpath", s.Dir, "--port", strconv.Itoa(testkit.FreePort(t)))
	if code != config.ExitUncaught || !strings.Contains(said, filepath.Base(log)+" is damaged at offset") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if after, _ := os.ReadDir(s.Dir); len(after) != len(before) {
		t.Errorf("%v became %v", before, after)
	}
	write(whole)
	s.Run()
	if found, err := s.Client().Database("d").Collection("c").CountDocuments(t.Context(), bson.D{}); err != nil || found != n {
		t.Errorf("%d documents of %d, %v", found, n, err)
	}
}
