package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// marks are names, fields, keys and values that must not be seen on a disk.
var marks = []string{"MARKdatabase", "MARKcollection", "MARKindex", "MARKfield", "MARKid", "MARKvalue"}

// writeMarks stores documents with the marks, each in its own write, and in an index.
func writeMarks(t *testing.T, c *mongo.Client) {
	t.Helper()
	coll := c.Database("MARKdatabase").Collection("MARKcollection")
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "MARKfield", Value: 1}}, Options: options.Index().SetName("MARKindex")}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: fmt.Sprint("MARKid", i)}, {Key: "MARKfield", Value: fmt.Sprint("MARKvalue", i)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func hasMarks(t *testing.T, c *mongo.Client) {
	t.Helper()
	n, err := c.Database("MARKdatabase").Collection("MARKcollection").CountDocuments(t.Context(), bson.D{{Key: "MARKfield", Value: bson.D{{Key: "$gte", Value: "MARKvalue"}}}})
	if err != nil || n != 20 {
		t.Fatalf("%d documents of 20: %v", n, err)
	}
}

// seen is which marks are in the files below a directory.
func seen(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, m := range marks {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(b), m) {
				found = append(found, m+" in "+path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// masterKey is a file with a master key.
func masterKey(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if out, err := exec.Command("sh", "-c", "umask 077 && openssl rand -base64 32 > "+path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return path
}

// TestEncryptedSet has a set whose members have master keys of their own, one of which syncs
// from the other: no mark is in any file of them, of a backup, and of what is restored from that.
// Keys that do not fit, and one that was rotated away, are refused.
func TestEncryptedSet(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	first, second, third := masterKey(t, dir, "first"), masterKey(t, dir, "second"), masterKey(t, dir, "third")
	a := testkit.Start(t, "--replSet", "rs0", "--initiate", "--enableEncryption", "--encryptionKeyFile", first)
	until(t, "a primary", func() error {
		_, err := a.Direct().Database("app").Collection("c").InsertOne(t.Context(), bson.D{})
		return err
	})
	writeMarks(t, a.Direct())
	fill(t, a.Direct(), 3000)
	b := testkit.Start(t, "--replSet", "rs0", "--enableEncryption", "--encryptionKeyFile", second)
	var config struct{ Config bson.M }
	admin := a.Direct().Database("admin")
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&config); err != nil {
		t.Fatal(err)
	}
	config.Config["version"] = config.Config["version"].(int32) + 1
	config.Config["members"] = append(config.Config["members"].(bson.A), bson.D{{Key: "_id", Value: 1}, {Key: "host", Value: host(b)}, {Key: "priority", Value: 0}, {Key: "votes", Value: 0}})
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetReconfig", Value: config.Config}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "a secondary", func() error {
		var s struct{ MyState int }
		err := b.Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&s)
		if err == nil && s.MyState != 2 {
			err = fmt.Errorf("it is %d", s.MyState)
		}
		return err
	})
	var status struct{ EncryptionAtRest bson.M }
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil || status.EncryptionAtRest["encryptionEnabled"] != true {
		t.Errorf("serverStatus: %v, %v", status, err)
	}
	repository := filepath.Join(dir, "repository")
	take(t, "--uri", a.URI(), "--to", repository)
	if out := mayfly(t, 100, "backup", "--uri", a.URI(), "--to", filepath.Join(dir, "log"), "--follow"); !strings.Contains(out, "--follow needs an encrypted repository") {
		t.Errorf("the log of an encrypted set: %s", out)
	}
	a.Kill()
	b.Kill()
	for _, d := range []string{a.Dir, b.Dir, repository} {
		if found := seen(t, d); len(found) > 0 {
			t.Errorf("seen: %q", found)
		}
	}
	mayfly(t, 0, "verify", "--dbpath", b.Dir, "--encryptionKeyFile", second)
	for want, args := range map[string][]string{
		"another master key is needed":                              {"--encryptionKeyFile", first},
		"the data in " + b.Dir + " are encrypted, under the master": {},
	} {
		if out := mayfly(t, 100, append([]string{"verify", "--dbpath", b.Dir}, args...)...); !strings.Contains(out, want) {
			t.Errorf("verify %v: %s", args, out)
		}
		if out := mayfly(t, 100, append([]string{"repair", "--dbpath", b.Dir, "--into", filepath.Join(dir, "repaired")}, args...)...); !strings.Contains(out, want) {
			t.Errorf("repair %v: %s", args, out)
		}
		serve := []string{"serve", "--dbpath", b.Dir, "--port", strconv.Itoa(b.Port), "--replSet", "rs0"}
		if len(args) > 0 {
			serve = append(append(serve, "--enableEncryption"), args...)
		}
		if out := mayfly(t, 100, serve...); !strings.Contains(out, want[:20]) {
			t.Errorf("serve %v: %s", args, out)
		}
	}
	repaired := filepath.Join(dir, "repaired") // without the log of the set, which is a loss
	mayfly(t, 1, "repair", "--dbpath", b.Dir, "--into", repaired, "--encryptionKeyFile", second)
	mayfly(t, 0, "rotatekey", "--dbpath", a.Dir, "--encryptionKeyFile", first, "--newEncryptionKeyFile", third)
	mayfly(t, 100, "verify", "--dbpath", a.Dir, "--encryptionKeyFile", first)
	mayfly(t, 0, "verify", "--dbpath", a.Dir, "--encryptionKeyFile", third)
	restored := filepath.Join(dir, "restored")
	if out := mayfly(t, 100, "restore", "--from", repository, "--to", restored); !strings.Contains(out, "the master key of that is needed") {
		t.Errorf("restoring without a key: %s", out)
	}
	if out := mayfly(t, 100, "restore", "--from", repository, "--to", restored, "--dataEncryptionKeyFile", third); !strings.Contains(out, "another master key is needed") {
		t.Errorf("restoring with another key: %s", out)
	}
	mayfly(t, 0, "restore", "--from", repository, "--to", restored, "--dataEncryptionKeyFile", first)
	mayfly(t, 0, "backup", "verify", "--from", repository, "--restore", "--tmp", dir, "--dataEncryptionKeyFile", first)
	s := testkit.StartIn(t, restored, "--enableEncryption", "--encryptionKeyFile", first)
	hasMarks(t, s.Client())
	s.Kill()
	for _, d := range []string{restored, repaired} {
		if found := seen(t, d); len(found) > 0 {
			t.Errorf("seen: %q", found)
		}
	}
}

// TestBeginEncryption restores the backup of a plain server, whose marks are seen, to an encrypted
// directory, in which they are not.
func TestBeginEncryption(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	key := masterKey(t, dir, "key")
	plain := testkit.Start(t)
	writeMarks(t, plain.Client())
	if len(seen(t, plain.Dir)) < len(marks) {
		t.Errorf("of a plain directory only %q are seen", seen(t, plain.Dir))
	}
	take(t, "--uri", plain.URI(), "--to", filepath.Join(dir, "plain"))
	plain.Kill()
	if out := mayfly(t, 100, "serve", "--dbpath", plain.Dir, "--port", strconv.Itoa(plain.Port), "--enableEncryption", "--encryptionKeyFile", key); !strings.Contains(out, "are not encrypted") {
		t.Errorf("a plain directory with a key: %s", out)
	}
	mayfly(t, 0, "restore", "--from", filepath.Join(dir, "plain"), "--to", filepath.Join(dir, "now"), "--dataEncryptionKeyFile", key)
	s := testkit.StartIn(t, filepath.Join(dir, "now"), "--enableEncryption", "--encryptionKeyFile", key)
	hasMarks(t, s.Client())
	s.Kill()
	// From a file to a program, which here hides nothing.
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncase $1 in wrap) base64 -w0 ;; unwrap) base64 -d ;; esac\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	mayfly(t, 0, "rotatekey", "--dbpath", s.Dir, "--encryptionKeyFile", key, "--newEncryptionKeyCommand", program)
	if out := mayfly(t, 100, "serve", "--dbpath", s.Dir, "--port", strconv.Itoa(plain.Port), "--enableEncryption", "--encryptionKeyCommand", "/bin/false"); !strings.Contains(out, "/bin/false unwrap") {
		t.Errorf("a program that fails: %s", out)
	}
	s = testkit.StartIn(t, s.Dir, "--enableEncryption", "--encryptionKeyCommand", program)
	hasMarks(t, s.Client())
	s.Kill()
	if found := seen(t, s.Dir); len(found) > 0 {
		t.Errorf("seen: %q", found)
	}
}

// TestOperateEncryption runs each command of docs/operate/encryption.md, in their order.
func TestOperateEncryption(t *testing.T) {
	t.Parallel() // it mostly waits
	page, err := os.ReadFile("../../docs/operate/encryption.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port := testkit.FreePort(t)
	here := strings.NewReplacer("mongodb://localhost/", fmt.Sprintf("mongodb://127.0.0.1:%d/", port), "/backups", dir+"/backups", "/etc/mayfly/", dir+"/", "/var/lib/", dir+"/")
	ran := 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "mayfly ") && !strings.HasPrefix(line, "openssl ") && !strings.HasPrefix(line, "chmod ") {
			continue
		}
		ran++
		if strings.HasPrefix(line, "mayfly backup ") {
			server := exec.Command(testkit.Binary(t), "serve", "--dbpath", dir+"/mayfly", "--port", strconv.Itoa(port), "--nounixsocket", "--enableEncryption", "--encryptionKeyFile", dir+"/new.key")
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
			mayfly(t, 0, "run", "--uri", fmt.Sprintf("mongodb://127.0.0.1:%d/", port), "--wait", "30s", `{"ping": 1}`)
		}
		command := "exec " + here.Replace(line)
		if strings.HasPrefix(line, "mayfly ") {
			command = "exec " + testkit.Binary(t) + here.Replace(strings.TrimPrefix(line, "mayfly"))
		}
		limit := time.Minute
		stays := strings.HasPrefix(line, "mayfly serve ")
		if stays {
			limit = 2 * time.Second
			command += " --port " + strconv.Itoa(port) + " --nounixsocket"
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil && !(stays && errors.Is(err, context.DeadlineExceeded)) {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if ran != 9 {
		t.Errorf("the page has %d commands", ran)
	}
}
