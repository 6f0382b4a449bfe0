package robust

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

// TestDamagedTableUnderServer flips a bit in a table of a running server, which has not read
// it yet: reads of what lies there are errors 301 that name it, the log too; all else is
// served as it was, and nothing less.
func TestDamagedTableUnderServer(t *testing.T) {
	const n = 3000
	s := testkit.Start(t)
	docs := make([]any, n)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: i}, {Key: "a", Value: i}, {Key: "s", Value: strings.Repeat("x", 200)}}
	}
	c := s.Client().Database("d").Collection("c")
	if _, err := c.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	for range 2 { // so that all is in tables, and in none of its caches
		if code := s.Stop(); code != config.ExitClean {
			t.Fatal(code)
		}
		s.Run()
	}
	c = s.Client().Database("d").Collection("c")
	tables, err := filepath.Glob(filepath.Join(s.Dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := ""
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 30_000 {
			continue
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[len(b)/2] ^ 2}, int64(len(b)/2)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		damaged = filepath.Base(name)
	}
	if damaged == "" {
		t.Fatal("there is no table with the documents: ", tables)
	}
	refused := func(what string, err error) {
		t.Helper()
		var e mongo.ServerError
		if !errors.As(err, &e) || !e.HasErrorCode(301) || !strings.Contains(e.Error(), damaged+" is damaged at offset ") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	lost := -1
	whole := 0
	for i := range n {
		var d struct{ A int }
		switch err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: i}}).Decode(&d); {
		case err == nil && d.A == i:
			whole++
		case err == nil:
			t.Errorf("document %d is %v", i, d)
		default:
			refused("find by _id", err)
			lost = i
		}
	}
	if lost < 0 || whole < n/2 {
		t.Errorf("of %d documents %d are served", n, whole)
	}
	cursor, err := c.Find(t.Context(), bson.D{})
	if err == nil {
		var all []bson.D
		err = cursor.All(t.Context(), &all)
	}
	refused("find", err)
	_, err = c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: lost}}, bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 0}}}})
	refused("update", err)
	_, err = c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}}})
	refused("createIndexes", err)
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: n}}); err != nil {
		t.Errorf("insert: %v", err)
	}
	line := ""
	for l := range strings.SplitSeq(s.Output(), "\n") {
		if strings.Contains(l, "storage: corruption") {
			line = l
		}
	}
	if !strings.Contains(line, `"s":"E"`) || !strings.Contains(line, `"file":"`+damaged+`"`) || !strings.Contains(line, `"offset":`) {
		t.Errorf("the log has %q", line)
	}
	s.Stop()
	if code, said := testkit.Exec(t, nil, "verify", "--dbpath", s.Dir); code != config.ExitDamaged || !strings.Contains(said, damaged+" is damaged at offset ") {
		t.Errorf("verify: %d, %s", code, said)
	}
}
