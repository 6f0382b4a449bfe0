package robust

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

const (
	// insideNamespace marks the test's own process in a mount namespace.
	insideNamespace = "MAYFLY_TEST_FULL_DISK"
	diskBytes       = 96 << 20
	ballastBytes    = 32 << 20
	outOfDiskSpace  = 14031
)

// TestFullDisk fills a small disk with documents. The test runs itself again
// in a mount namespace of its own, so that the disk is gone with the process.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(insideNamespace); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+"96m"); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, dir)
		return
	}
	testkit.Binary(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), insideNamespace+"="+t.TempDir(), "MAYFLY_BIN="+testkit.Binary(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// fillDisk inserts until the server says that the disk is full, and demands
// that what it acknowledged stays, that reads and deletes go on, that a
// restart finds it all, and that writes go on once there is space.
func fillDisk(t *testing.T, disk string) {
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, ballastBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.StartIn(t, filepath.Join(disk, "db"))
	acked := fill(t, s, 0)
	if acked < 10 {
		t.Fatalf("full after %d documents", acked)
	}
	t.Logf("full after %d documents of 100 KB", acked)
	allThere(t, s, acked)
	c := s.Client().Database("d").Collection("c")
	if res, err := c.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: acked - 1}}); err != nil || res.DeletedCount != 1 {
		t.Errorf("a delete on a full disk: %v, %v", res, err)
	}
	acked--
	if !strings.Contains(s.Output(), "full") {
		t.Errorf("the log does not say that the disk is full:\n%s", s.Output())
	}
	// A power cut does not make it worse.
	s.Kill()
	s.Run()
	allThere(t, s, acked)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	more := fill(t, s, acked)
	if more <= acked {
		t.Errorf("no writes although there is space: %d, %d", acked, more)
	}
	allThere(t, s, more)
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// fill inserts from _id from on until the disk is full, and returns how many
// documents are acknowledged.
func fill(t *testing.T, s *testkit.Server, from int) int {
	t.Helper()
	c := s.Client().Database("d").Collection("c")
	data := make([]byte, 100<<10)
	for i := range data {
		data[i] = byte(i*i>>3 ^ i>>7) // hard to compress
	}
	for n := from; n < 2*diskBytes/len(data); n++ {
		for i := range 64 {
			data[(n*7919+i*1543)%len(data)] ^= byte(n + i)
		}
		_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: n}, {Key: "data", Value: data}})
		if err == nil {
			continue
		}
		var server mongo.ServerError
		if !errors.As(err, &server) || !server.HasErrorCode(outOfDiskSpace) {
			t.Fatalf("document %d: %v", n, err)
		}
		return n
	}
	t.Fatal("the disk does not fill")
	return 0
}

// allThere reads and validates the documents 0 to n−1.
func allThere(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	db := s.Client().Database("d")
	cur, err := db.Collection("c").Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for cur.Next(t.Context()) {
		if _, data := cur.Current.Lookup("data").Binary(); len(data) == 100<<10 {
			seen[cur.Current.Lookup("_id").Int32()] = true
		}
	}
	if err := cur.Err(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if !seen[int32(i)] {
			t.Fatalf("document %d of %d was acknowledged and is gone", i, n)
		}
	}
	if len(seen) > n+1 { // the one that failed may have been written
		t.Errorf("%d documents, %d acknowledged", len(seen), n)
	}
	var res bson.M
	if err := db.RunCommand(t.Context(), bson.D{{Key: "validate", Value: "c"}}).Decode(&res); err != nil || res["valid"] != true {
		t.Errorf("validate: %v, %v", res, err)
	}
}
