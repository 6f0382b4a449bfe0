package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// mongoose is an application of another language and driver, e2e/node/underload.js, which inserts,
// counts and reads in app.m while a test disturbs the cluster.
type mongoose struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	err   bytes.Buffer
}

// mongoose starts the application on all routers. It is nil where npm's packages are not
// installed (e2e/install).
func (c *cluster) mongoose(t *testing.T) *mongoose {
	t.Helper()
	const directory = "../node"
	if _, err := os.Stat(filepath.Join(directory, "node_modules", "mongoose")); err != nil {
		t.Logf("without Mongoose: %v", err)
		return nil
	}
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.m"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	args := []string{"underload.js"}
	for _, r := range c.routers {
		args = append(args, fmt.Sprintf("mongodb://localhost:%d/?serverSelectionTimeoutMS=5000", r.Port))
	}
	m := &mongoose{cmd: exec.CommandContext(t.Context(), "node", args...)}
	m.cmd.Dir, m.cmd.Stderr = directory, &m.err
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.stdin, m.out = in, bufio.NewReader(out)
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := m.out.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("Mongoose does not begin: %q %v", line, err)
	}
	return m
}

// check has the application end and hold what there is to what it was told.
func (m *mongoose) check(t *testing.T) {
	t.Helper()
	if m == nil {
		return
	}
	if err := m.stdin.Close(); err != nil {
		t.Error(err)
	}
	said, err := io.ReadAll(m.out)
	if err != nil {
		t.Error(err)
	}
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("Mongoose: %v: %s", err, m.err.String())
	}
	t.Log(strings.TrimSpace(string(said)))
}
