package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
)

// TestArchiveTool brings archived documents back, again and from where it was interrupted, and has the
// archive forget some.
func TestArchiveTool(t *testing.T) {
	place := t.TempDir()
	r := startServer(t, filepath.Join(t.TempDir(), "data"), "--setParameter", "archivePlaces=file://"+place, "--setParameter", "ttlMonitorSleepSecs=1")
	r.command(t, `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://`+place+`"}}}}}], $db: "d"}`)
	const documents = 30
	var docs []string
	for i := range documents {
		docs = append(docs, fmt.Sprintf(`{_id: %d, user: "u%d", at: {$date: "2020-01-%02dT00:00:00Z"}}`, i, i%3, 1+i%10))
	}
	r.command(t, `{insert: "c", documents: [`+strings.Join(docs, ", ")+`], $db: "d"}`)
	for end := time.Now().Add(time.Minute); r.command(t, `{count: "c", $db: "d"}`).Lookup("n").Int32() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is archived")
		}
	}
	count := func(what string) int {
		return len(r.command(t, `{aggregate: "c", pipeline: [{$archive: `+what+`}], cursor: {}, $db: "d"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice())
	}
	uri := "mongodb://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) + "/?directConnection=true"
	tool := func(want string, args ...string) {
		t.Helper()
		out, err := mayfly(t, append([]string{"archive", args[0], "--uri", uri, "--ns", "d.c"}, args[1:]...)...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	tool("10 documents were inserted, and 0 were there already", "restore", "--to", "d.some", "--filter", `{"user": "u1"}`)
	done := filepath.Join(t.TempDir(), "progress")
	tool("30 documents were inserted, and 0 were there already", "restore", "--to", "d.all", "--progress", done)
	finished, err := os.ReadFile(done)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(finished), "\n")
	if err := os.WriteFile(done, []byte(strings.Join(lines[:len(lines)/2], "")+"cut o"), 0o600); err != nil {
		t.Fatal(err)
	}
	tool("0 documents were inserted, and 1", "restore", "--to", "d.all", "--progress", done)
	if again, err := os.ReadFile(done); err != nil || len(again) != len(finished) {
		t.Errorf("%s: %v", again, err)
	}
	fails(t, config.ExitBadOptions, "of another restore", "archive", "restore", "--uri", uri, "--ns", "d.c", "--to", "d.all", "--filter", `{"user": "u1"}`, "--progress", done)
	r.command(t, `{drop: "all", $db: "d"}`)
	fails(t, config.ExitBadOptions, "of another restore", "archive", "restore", "--uri", uri, "--ns", "d.c", "--to", "d.all", "--progress", done)
	at, err := client.ParseURI(uri, client.Primary)
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := at.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o := archiveOptions{ns: "d.c", db: "d", coll: "c", to: "d.later", query: bson.Empty}
	listed, err := o.objects(t.Context(), conn)
	if err != nil || len(listed) != 10 {
		t.Fatal(listed, err)
	}
	tool("10 documents would be removed: 10 objects", "forget", "--filter", `{"user": "u1"}`, "--dryRun")
	tool("10 documents were removed: 10 objects were replaced", "forget", "--filter", `{"user": "u1"}`)
	if n, u1 := count(`{}`), count(`{query: {user: "u1"}}`); n != documents-10 || u1 != 0 {
		t.Errorf("%d are archived, %d of u1", n, u1)
	}
	late := restoring{o: &o, c: conn, into: conn, done: &progress{objects: map[string]bool{}}, told: tellCopied()}
	if err := late.objects(t.Context(), listed); err != nil || !late.replaced || late.inserted != 0 {
		t.Errorf("of objects that were replaced %d documents are restored: %v, %t", late.inserted, err, late.replaced)
	}
	tool("20 documents were inserted", "restore", "--to", "d.later")
	fails(t, config.ExitBadOptions, "restore or forget", "archive")
	fails(t, config.ExitBadOptions, "--filter is needed", "archive", "forget", "--uri", uri, "--ns", "d.c")
	fails(t, config.ExitBadOptions, "--to", "archive", "restore", "--uri", uri, "--ns", "d.c")
}

// TestArchiveToolRoles has the tool run with access control, for a user with the roles that the docs say, and
// one without dbAdmin.
func TestArchiveToolRoles(t *testing.T) {
	place := t.TempDir()
	r := startServer(t, filepath.Join(t.TempDir(), "data"), "--auth", "--setParameter", "archivePlaces=file://"+place, "--setParameter", "ttlMonitorSleepSecs=1")
	r.command(t, `{createUser: "root", pwd: "secret", roles: ["root"], $db: "admin"}`)
	uri := func(user string) string {
		return "mongodb://" + user + ":secret@" + net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) + "/?directConnection=true&authSource=admin"
	}
	at, err := client.ParseURI(uri("root"), client.Primary)
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := at.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	run := func(db, text string) bson.Doc {
		t.Helper()
		d, err := conn.Run(t.Context(), db, bson.MustParse(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	run("admin", `{createUser: "keeper", pwd: "secret", roles: [{role: "readWrite", db: "d"}, {role: "dbAdmin", db: "d"}]}`)
	run("admin", `{createUser: "writer", pwd: "secret", roles: [{role: "readWrite", db: "d"}]}`)
	run("d", `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://`+place+`"}}}}}]}`)
	run("d", `{insert: "c", documents: [{_id: 1, at: {$date: "2020-01-01T00:00:00Z"}}]}`)
	for end := time.Now().Add(time.Minute); run("d", `{count: "c"}`).Lookup("n").Int32() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is archived")
		}
	}
	restore := []string{"archive", "restore", "--ns", "d.c", "--to", "d.back", "--progress", filepath.Join(t.TempDir(), "progress"), "--uri"}
	if out, err := mayfly(t, append(restore, uri("writer"))...).CombinedOutput(); err == nil || !strings.Contains(string(out), "not authorized") {
		t.Errorf("without dbAdmin: %v, %s", err, out)
	}
	if out, err := mayfly(t, append(restore, uri("keeper"))...).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "1 documents were inserted") {
		t.Errorf("with dbAdmin: %v, %s", err, out)
	}
	if out, err := mayfly(t, "archive", "forget", "--uri", uri("writer"), "--ns", "d.c", "--filter", "{}").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "1 documents were removed") {
		t.Errorf("forget: %v, %s", err, out)
	}
}
