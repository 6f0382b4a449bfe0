package backup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var (
	told = regexp.MustCompile(`: (\S+) at \S+ \((\d+)\.(\d+)\), \d+ files of (\d+) bytes; (\d+) bytes were read`)
)

// report is what mayfly backup has printed.
type report struct {
	server      string
	at          stamp
	bytes, read int64
}

func take(t *testing.T, args ...string) (r report) {
	t.Helper()
	out := mayfly(t, 0, append([]string{"backup"}, args...)...)
	m := told.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("mayfly backup printed %q", out)
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(m[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return report{m[1], stamp(number(2)<<32 | number(3)), number(4), number(5)}
}

// fill stores documents that make tables.
func fill(t *testing.T, c *mongo.Client, n int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		var docs []any
		for j := range 1000 {
			pad := make([]byte, 400)
			for k := range pad {
				pad[k] = byte(rand.Uint32())
			}
			docs = append(docs, bson.D{{Key: "_id", Value: i + j}, {Key: "pad", Value: pad}})
		}
		if _, err := c.Database("app").Collection("filled").InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
}

// expiring makes documents of which some are due soon, and others never.
func expiring(t *testing.T, c *mongo.Client, due time.Duration) {
	t.Helper()
	coll := c.Database("app").Collection("expiring")
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	var docs []any
	for i := range 200 {
		at := time.Now().Add(due)
		if i%2 == 0 {
			at = time.Now().Add(time.Hour)
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: at}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

// TestTake takes backups of a set under load, and restores them.
func TestTake(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorEnabled=false")
	repository := filepath.Join(t.TempDir(), "repository")
	fill(t, w.all, 20000)
	expiring(t, w.all, time.Second)
	work := startWork(t, w.all, 3)
	time.Sleep(2 * time.Second)
	first := take(t, "--uri", w.uri, "--to", repository)
	time.Sleep(2 * time.Second)
	second := take(t, "--uri", w.uri, "--to", repository)
	work.end(t)
	hello := struct{ Primary string }{}
	if err := w.all.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	if first.server == hello.Primary {
		t.Errorf("the backup is of the primary, %s", first.server)
	}
	t.Logf("the first backup has read %d of %d bytes, the second %d of %d", first.read, first.bytes, second.read, second.bytes)

	list := strings.Split(strings.TrimSpace(mayfly(t, 0, "backup", "list", "--from", repository)), "\n")
	if len(list) != 2 {
		t.Fatalf("there are two backups, not\n%s", list)
	}
	oldest, _, _ := strings.Cut(list[0], " ")
	for at, c := range map[stamp]*mongo.Client{
		first.at:  restored(t, false, "--from", repository, "--backup", oldest, "--keepExpired"),
		second.at: restored(t, true, "--from", repository),
	} {
		if work.compare(t, c, at) == 0 {
			t.Error("there was no load")
		}
		if n, err := c.Database("app").Collection("filled").CountDocuments(t.Context(), bson.D{}); err != nil || n != 20000 {
			t.Errorf("%d of 20,000 documents are there: %v", n, err)
		}
		want := int64(200)
		if at == second.at {
			want = 100 // what is due went before the server served
		}
		if n, err := c.Database("app").Collection("expiring").CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
			t.Errorf("%d documents that expire are there, not %d: %v", n, want, err)
		}
		if _, err := c.Database("app").Collection("filled").InsertOne(t.Context(), bson.D{}); err != nil {
			t.Error(err)
		}
	}
	mayfly(t, 0, "backup", "verify", "--from", repository, "--restore")
}

// TestUnchanged takes a second backup of a server that has changed little.
func TestUnchanged(t *testing.T) {
	s := testkit.Start(t)
	repository := filepath.Join(t.TempDir(), "repository")
	fill(t, s.Client(), 20000)
	until(t, "a backup that reads little", func() error { // the server compacts its tables once nobody writes
		first := take(t, "--uri", s.URI(), "--to", repository)
		if _, err := s.Client().Database("app").Collection("more").InsertOne(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
		second := take(t, "--uri", s.URI(), "--to", repository)
		if second.read > second.bytes/20 {
			return fmt.Errorf("the second backup has read %d of %d bytes, the first one %d of %d", second.read, second.bytes, first.read, first.bytes)
		}
		return nil
	})
	c := restored(t, true, "--from", repository)
	for name, want := range map[string]int64{"filled": 20000, "more": 1} {
		if n, err := c.Database("app").Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || n < want {
			t.Errorf("%s has %d documents of %d: %v", name, n, want, err)
		}
	}
}

// TestOneCursor opens backup cursors by a driver.
func TestOneCursor(t *testing.T) {
	s := testkit.Start(t)
	admin := s.Client().Database("admin")
	stage := mongo.Pipeline{{{Key: "$backupCursor", Value: bson.D{}}}}
	cur, err := admin.Aggregate(t.Context(), stage)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for cur.TryNext(t.Context()) {
		if name, ok := cur.Current.Lookup("filename").StringValueOK(); ok {
			files++
			if info, err := os.Stat(name); err != nil || info.Size() != cur.Current.Lookup("fileSize").AsInt64() {
				t.Errorf("%s: %v", name, err)
			}
			_, err := admin.RunCommand(t.Context(), bson.D{{Key: "_readBackupFile", Value: 1}, {Key: "backupId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {Key: "filename", Value: name}, {Key: "offset", Value: 0}, {Key: "length", Value: 10}}).Raw()
			if err == nil {
				t.Error("a file was read for a backup that is not open")
			}
		}
	}
	if files == 0 || cur.ID() == 0 {
		t.Fatalf("%d files, cursor %d", files, cur.ID())
	}
	var refused mongo.CommandError
	if _, err := admin.Aggregate(t.Context(), stage); !asCommand(err, &refused) || refused.Code != 50886 {
		t.Errorf("a second cursor: %v", err)
	}
	extend := mongo.Pipeline{{{Key: "$backupCursorExtend", Value: bson.D{{Key: "backupId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {Key: "timestamp", Value: bson.Timestamp{T: 1}}}}}}
	if _, err := admin.Aggregate(t.Context(), extend); !asCommand(err, &refused) || refused.Code != 40324 {
		t.Errorf("an extended cursor: %v", err)
	}
	mayfly(t, 100, "backup", "--uri", s.URI(), "--to", filepath.Join(t.TempDir(), "repository"))
	if err := cur.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "another cursor", func() error {
		cur, err := admin.Aggregate(t.Context(), stage)
		if err == nil {
			err = cur.Close(t.Context())
		}
		return err
	})
}

func asCommand(err error, as *mongo.CommandError) bool {
	c, ok := err.(mongo.CommandError)
	if ok {
		*as = c
	}
	return ok
}

// TestKilled kills backups and restores again and again.
func TestKilled(t *testing.T) {
	s := testkit.Start(t)
	fill(t, s.Client(), 30000)
	repository, dir := filepath.Join(t.TempDir(), "repository"), filepath.Join(t.TempDir(), "new")
	slow := exec.Command(testkit.Binary(t), "backup", "--uri", s.URI(), "--to", repository, "--rate", "100K")
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the least priority", func() error {
		if n := niceness(t, slow.Process.Pid); n != leastPriority {
			return errors.New("niceness " + n)
		}
		return nil
	})
	_ = slow.Process.Kill()
	_ = slow.Wait()
	took := time.Second
	for i := 0; i < 12; i++ {
		after := time.Duration(rand.Int64N(int64(took)))
		if killed(t, after, "backup", "--uri", s.URI(), "--to", repository) {
			took = took * 3 / 4
		}
	}
	take(t, "--uri", s.URI(), "--to", repository)
	mayfly(t, 0, "backup", "verify", "--from", repository)
	took = time.Second
	for i := 0; i < 8; i++ {
		if killed(t, time.Duration(rand.Int64N(int64(took))), "restore", "--from", repository, "--to", dir) {
			break
		}
		if _, err := os.Stat(dir); err == nil {
			if list, _ := os.ReadDir(dir); len(list) > 0 {
				if out := mayfly(t, 100, "serve", "--dbpath", dir, "--port", "0"); !strings.Contains(out, "mayfly restore") {
					t.Errorf("serve says %s", out)
				}
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "mayfly.unfinished")); err == nil {
		mayfly(t, 0, "restore", "--from", repository, "--to", dir)
	} else if list, _ := os.ReadDir(dir); len(list) == 0 {
		mayfly(t, 0, "restore", "--from", repository, "--to", dir)
	}
	c := testkit.StartIn(t, dir).Client()
	if n, err := c.Database("app").Collection("filled").CountDocuments(t.Context(), bson.D{}); err != nil || n != 30000 {
		t.Errorf("%d of 30,000 documents are there: %v", n, err)
	}
}

// TestDamaged cuts, changes and removes objects.
func TestDamaged(t *testing.T) {
	s := testkit.Start(t)
	fill(t, s.Client(), 5000)
	for name, harm := range map[string]func(path string) error{
		"cut": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()-1-rand.Int64N(info.Size()))
		},
		"changed": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			const headers = 15 // in which a few bits say nothing (internal/backup TestFlippedBits)
			b[headers+rand.IntN(len(b)-headers)] ^= 1 << rand.IntN(8)
			return os.WriteFile(path, b, 0o600)
		},
		"missing": os.Remove,
	} {
		for _, kind := range []string{"files", "backups"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				repository, dir := filepath.Join(t.TempDir(), "repository"), filepath.Join(t.TempDir(), "new")
				take(t, "--uri", s.URI(), "--to", repository)
				list, err := os.ReadDir(filepath.Join(repository, kind))
				if err != nil {
					t.Fatal(err)
				}
				object := list[rand.IntN(len(list))].Name()
				if err := harm(filepath.Join(repository, kind, object)); err != nil {
					t.Fatal(err)
				}
				code := 1
				if kind == "backups" && name == "missing" {
					code = 100 // it is as if there had been no backup
				}
				out := mayfly(t, code, "restore", "--from", repository, "--to", dir)
				if code == 1 && !strings.Contains(out, object) {
					t.Errorf("%s is not named in %s", object, out)
				}
				if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
					mayfly(t, 100, "serve", "--dbpath", dir, "--port", "0")
				}
				if code == 1 {
					mayfly(t, 1, "backup", "verify", "--from", repository)
					take(t, "--uri", s.URI(), "--to", repository) // stores it anew
					mayfly(t, 0, "restore", "--from", repository, "--to", dir)
				}
			})
		}
	}
}
