package backup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestOperate runs each command of docs/operate/backup.md, in their order, on a set.
func TestOperate(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	w := start(t)
	fill(t, w.all, 1000)
	dir := t.TempDir()
	bucket, _ := startBucket(t, 0)
	here := strings.NewReplacer("app.orders", "app.filled", "s3://backups/shop", bucket, "mongodb://db1,db2,db3/?replicaSet=rs0", w.uri, "/backups/", dir+"/", "/var/lib/", dir+"/", "mayfly ", testkit.Binary(t)+" ")
	ran := 0
	section := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
		}
		if section == "A cluster" { // TestBackup of e2e/cluster runs these
			continue
		}
		if !strings.HasPrefix(line, "mayfly ") && !strings.HasPrefix(line, "openssl ") {
			continue
		}
		ran++
		stays := strings.Contains(line, "--follow") || strings.Contains(line, " serve ")
		command := "exec " + here.Replace(line)
		patience := time.Minute
		if stays {
			patience = 5 * time.Second
		}
		if strings.Contains(line, " serve ") {
			command += " --port " + strconv.Itoa(testkit.FreePort(t)) + " --nounixsocket"
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil && !(stays && errors.Is(err, context.DeadlineExceeded)) {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		if strings.Contains(line, "--follow") { // an entry of a later time, for --at
			if _, err := w.all.Database("app").Collection("later").InsertOne(t.Context(), bson.D{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ran < 15 {
		t.Errorf("the page has only %d commands", ran)
	}
	// What was sealed has nothing of the documents' names.
	err = filepath.WalkDir(filepath.Join(dir, "sealed"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(b), "filled") || strings.Contains(string(b), "MANIFEST")) {
			t.Errorf("%s has something that can be read", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWrongKey opens a repository with no key, another one, and a file that has none.
func TestWrongKey(t *testing.T) {
	s := testkit.Start(t)
	fill(t, s.Client(), 1000)
	dir := t.TempDir()
	repository, key, other := filepath.Join(dir, "repository"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	for path, text := range map[string]string{key: strings.Repeat("A", 43) + "=\n", other: strings.Repeat("B", 42) + "A=\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	take(t, "--uri", s.URI(), "--to", repository, "--encryptionKeyFile", key)
	take(t, "--uri", s.URI(), "--to", repository, "--encryptionKeyFile", key)
	for want, args := range map[string][]string{
		"is encrypted":   {},
		"is not the one": {"--encryptionKeyFile", other},
		"has no key":     {"--encryptionKeyFile", filepath.Join(repository, "repository.json")},
	} {
		out := mayfly(t, 100, append([]string{"restore", "--from", repository, "--to", filepath.Join(dir, "new")}, args...)...)
		if !strings.Contains(out, want) {
			t.Errorf("%v: %s", args, out)
		}
	}
	mayfly(t, 0, "backup", "verify", "--from", repository, "--restore", "--encryptionKeyFile", key)
	plain := filepath.Join(dir, "plain")
	take(t, "--uri", s.URI(), "--to", plain)
	if out := mayfly(t, 100, "backup", "list", "--from", plain, "--encryptionKeyFile", key); !strings.Contains(out, "not encrypted") {
		t.Errorf("a key for a repository that is not encrypted: %s", out)
	}
}
