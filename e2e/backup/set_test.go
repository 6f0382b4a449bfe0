package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

const patience = 60 * time.Second

// set is three members as processes, and a client of all of them.
type set struct {
	members []*testkit.Server
	uri     string
	all     *mongo.Client
}

func host(s *testkit.Server) string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// start runs three members and makes them a set.
func start(t *testing.T, args ...string) *set {
	t.Helper()
	w := &set{}
	members := bson.A{}
	var hosts []string
	for i := range 3 {
		s := testkit.Start(t, append([]string{"--replSet", "rs0"}, args...)...)
		w.members = append(w.members, s)
		hosts = append(hosts, host(s))
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host(s)}})
	}
	admin := w.members[0].Direct().Database("admin")
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: members}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "a primary and two secondaries", func() error {
		for _, m := range w.members {
			var s struct{ MyState int }
			if err := m.Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&s); err != nil {
				return err
			}
			if s.MyState != 1 && s.MyState != 2 {
				return fmt.Errorf("%s is %d", host(m), s.MyState)
			}
		}
		return nil
	})
	w.uri = "mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=rs0"
	w.all = testkit.Connect(t, options.Client().ApplyURI(w.uri).SetServerSelectionTimeout(patience).SetTimeout(patience))
	return w
}

func until(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("in vain: %s: %v", what, err)
}

// mayfly runs the binary to its end, and fails unless it exits with a code.
func mayfly(t *testing.T, code int, args ...string) string {
	t.Helper()
	got, out := testkit.Exec(t, nil, args...)
	if got != code {
		t.Fatalf("mayfly %s exited with %d, not %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	return out
}

// killed starts the binary and kills it after a time, unless it has ended: then it returns
// true.
func killed(t *testing.T, after time.Duration, args ...string) (ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, testkit.Binary(t), args...) // it kills with SIGKILL
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &exit) && exit.ExitCode() == -1:
		return false
	}
	t.Fatalf("mayfly %s: %v\n%s", strings.Join(args, " "), err, &out)
	return false
}

// restored restores, and serves what was restored, with or without a TTL monitor.
func restored(t *testing.T, ttl bool, args ...string) *mongo.Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	mayfly(t, 0, append([]string{"restore", "--to", dir}, args...)...)
	mayfly(t, 0, "verify", "--dbpath", dir)
	return testkit.StartIn(t, dir, "--setParameter", fmt.Sprintf("ttlMonitorEnabled=%t", ttl)).Client()
}
