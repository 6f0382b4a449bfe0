package backup

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var restores = flag.Int("backup.restores", 10, "how many times TestAt restores to")

var errNoBackup = errors.New("there is no backup yet")

const leastPriority = "19"

// niceness reads that of a process that runs.
func niceness(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, fields, _ := strings.Cut(string(stat), ") ")
	all := strings.Fields(fields)
	if err != nil || len(all) < 17 {
		t.Fatalf("%s, %v", stat, err)
	}
	return all[16]
}

// follow runs mayfly backup --follow until stop is called, which returns what it has printed.
func follow(t *testing.T, args ...string) (stop func(s os.Signal) string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(testkit.Binary(t), append([]string{"backup", "--follow"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func(s os.Signal) string {
		if niceness(t, cmd.Process.Pid) == leastPriority {
			t.Error("a backup that may not fall behind the log has the least priority")
		}
		_ = cmd.Process.Signal(s)
		if err := cmd.Wait(); err != nil && s != os.Kill {
			t.Errorf("mayfly backup --follow: %v\n%s", err, &out)
		}
		return out.String()
	}
}

// expire stores documents that expire after a second, until ctx ends.
func expire(ctx context.Context, c *mongo.Client) error {
	coll := c.Database("app").Collection("expiring")
	if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(1)}); err != nil {
		return err
	}
	for id := int64(1); ctx.Err() == nil; id++ {
		if _, err := coll.InsertOne(context.WithoutCancel(ctx), bson.D{{Key: "_id", Value: id}, {Key: "at", Value: time.Now()}}); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// timesOf reads from the oplog when documents that expire were stored (i) or removed (d).
func timesOf(t *testing.T, c *mongo.Client, operation string) map[int64]stamp {
	t.Helper()
	cur, err := c.Database("local").Collection("oplog.rs").Find(t.Context(), bson.D{{Key: "ns", Value: "app.expiring"}, {Key: "op", Value: operation}})
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		TS bson.Timestamp `bson:"ts"`
		O  struct {
			ID int64 `bson:"_id"`
		}
	}
	if err := cur.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	times := map[int64]stamp{}
	for _, e := range all {
		times[e.O.ID] = stampOf(&e.TS)
	}
	return times
}

// TestAt restores to times that are chosen at random: what is there is what was acknowledged
// until then, with transactions whole, collections that were dropped, and documents that
// expire.
func TestAt(t *testing.T) {
	w := start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	repository := filepath.Join(t.TempDir(), "repository")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var failed error
	var expiry sync.WaitGroup
	work := startWork(t, w.all, 3)
	expiry.Go(func() { failed = expire(ctx, w.all) })
	stop := follow(t, "--uri", w.uri, "--to", repository, "--every", "4s", "--logEvery", "500ms")
	until(t, "a backup", func() error {
		code, out := testkit.Exec(t, nil, "backup", "list", "--from", repository)
		if code != 0 || strings.Count(out, "\n") == 0 {
			return errNoBackup
		}
		return nil
	})
	from := time.Now()
	time.Sleep(5 * time.Second)
	stop(os.Kill)
	time.Sleep(time.Second)
	stop = follow(t, "--uri", w.uri, "--to", repository, "--every", "4s", "--logEvery", "500ms")
	time.Sleep(5 * time.Second)
	work.end(t)
	cancel()
	expiry.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	if _, err := w.all.Database("app").Collection("later").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	stored, gone := timesOf(t, w.all, "i"), timesOf(t, w.all, "d")
	if out := stop(syscall.SIGTERM); strings.Contains(out, "gap") || strings.Count(out, "files of") < 1 {
		t.Errorf("mayfly backup --follow: %s", out)
	}
	t.Log(mayfly(t, 0, "backup", "verify", "--from", repository))
	var times []stamp
	for _, k := range work.workers {
		for _, e := range k.events {
			if uint64(e.at)>>32 > uint64(from.Unix()) {
				times = append(times, e.at)
			}
		}
	}
	for i := range *restores {
		at := times[rand.IntN(len(times))]
		text := at.String()
		if i%2 == 0 { // the beginning of a second
			at = at >> 32 << 32
			text = time.Unix(int64(at>>32), 0).UTC().Format(time.RFC3339)
		}
		dir := filepath.Join(t.TempDir(), "new")
		out := mayfly(t, 0, "restore", "--from", repository, "--to", dir, "--at", text, "--keepExpired")
		s := testkit.StartIn(t, dir, "--setParameter", "ttlMonitorEnabled=false")
		n := work.compare(t, s.Client(), at)
		there := map[int64]bool{}
		cur, err := s.Client().Database("app").Collection("expiring").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		for cur.Next(t.Context()) {
			there[cur.Current.Lookup("_id").AsInt64()] = true
		}
		for id, at1 := range stored {
			went, is := gone[id]
			if want := at1 <= at && !(is && went <= at); want != there[id] {
				t.Fatalf("at %s: document %d, stored at %s, removed at %s (%t), is there: %t", at, id, at1, went, is, there[id])
			}
		}
		t.Logf("at %s: %d documents, %d that expire; %s", text, n, len(there), strings.TrimSpace(out))
		s.Kill()
	}
	dir := filepath.Join(t.TempDir(), "new")
	if out := mayfly(t, 100, "restore", "--from", repository, "--to", dir, "--at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); !strings.Contains(out, "reaches only up to") {
		t.Errorf("a restore to a time that the log does not reach: %s", out)
	}
	mayfly(t, 0, "restore", "--from", repository, "--to", dir, "--at", "latest")
	spoilLog(t, repository)
	s := testkit.StartIn(t, dir, "--replSet", "rs1", "--initiate")
	if n, err := s.Direct().Database("app").Collection("expiring").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d documents are there that are due: %v", n, err)
	}
	until(t, "a new set", func() error {
		_, err := s.Direct().Database("app").Collection("later").InsertOne(t.Context(), bson.D{})
		return err
	})
}

// spoilLog damages the last object of the log, and then removes one in the middle.
func spoilLog(t *testing.T, repository string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(repository, "log", "*", "*"))
	if err != nil || len(all) < 3 {
		t.Fatalf("the log has %d objects: %v", len(all), err)
	}
	restore := func(code int, want string) {
		dir := filepath.Join(t.TempDir(), "new")
		out := mayfly(t, code, "restore", "--from", repository, "--to", dir, "--at", time.Now().UTC().Add(time.Hour).Format(time.RFC3339))
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	last := all[len(all)-1]
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x40
	if err := os.WriteFile(last, b, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if out := mayfly(t, 1, "restore", "--from", repository, "--to", dir, "--at", "latest"); !strings.Contains(out, filepath.Base(last)) {
		t.Errorf("%s is not named in %s", last, out)
	}
	mayfly(t, 100, "serve", "--dbpath", dir, "--port", "0")
	if err := os.Remove(all[len(all)-2]); err != nil {
		t.Fatal(err)
	}
	restore(100, "has a gap")
	mayfly(t, 1, "backup", "verify", "--from", repository) // sets the last one aside
	restore(100, "reaches only up to")
}
