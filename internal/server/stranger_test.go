package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// open are the commands that answer before anyone has logged in: who is there, who am I, and
// the logins. Those of mongod, in which more would be a hole.
var open = map[string]bool{
	"hello": true, "isMaster": true, "ping": true, "whatsmyuri": true, "connectionStatus": true, "buildInfo": true, "listCommands": true,
	"saslStart": true, "saslContinue": true, "authenticate": true, "logout": true,
}

// A stranger who finds the ports learns that a server is there, and nothing of what it has:
// whatever command it sends, and whatever protocol it speaks.
func TestStranger(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("c2VjcmV0c2VjcmV0"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := servertest.FreePort(t)
	s := servertest.Start(t, "--replSet", "rs0", "--initiate", "--keyFile", key, "--adminPort", fmt.Sprint(port), "--adminPprof")
	c := primary(t, s)
	defer c.Close()
	run(t, c, `{"createUser": "root", "pwd": "p", "roles": ["root"]}`)
	names := 0
	for name := range run(t, c, `{"listCommands": 1}`).Lookup("commands").Doc().All() {
		names++
		for _, db := range []string{"admin", "app", "local", "config"} {
			reply, err := c.Run(t.Context(), db, new(bson.Builder).String(name, "c").Finish())
			var e *mongoerr.Error
			switch {
			case err != nil && !errors.As(err, &e):
				t.Fatalf("%s on %s: %v", name, db, err)
			case err == nil && !open[name]:
				t.Errorf("%s on %s answers a stranger: %s", name, db, reply)
			case err != nil && strings.Contains(e.Message, "root"):
				t.Errorf("%s on %s tells of a user: %v", name, db, err)
			}
		}
	}
	if names < 100 {
		t.Errorf("%d commands", names)
	}
	for _, text := range []string{ // well-formed, so that nothing but access control stands before them
		`{"find": "c"}`, `{"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}`, `{"serverStatus": 1}`, `{"getParameter": "*"}`, `{"listDatabases": 1}`,
		`{"getLog": "global"}`, `{"getCmdLineOpts": 1}`, `{"shutdown": 1}`, `{"replSetGetStatus": 1}`, `{"replSetGetConfig": 1}`, `{"createUser": "eve", "pwd": "p", "roles": ["root"]}`,
		`{"usersInfo": 1}`, `{"insert": "c", "documents": [{"a": 1}]}`, `{"explain": {"find": "c"}}`, `{"setParameter": 1, "logLevel": 0}`, `{"hostInfo": 1}`, `{"replSetReconfig": {"_id": "rs0"}}`,
	} {
		body, err := bson.ParseJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		var e *mongoerr.Error
		if _, err := c.Run(t.Context(), "admin", body); !errors.As(err, &e) || e.Code != mongoerr.Unauthorized {
			t.Errorf("%s: %v", text, err)
		}
	}
	shown := run(t, c, `{"buildInfo": 1}`)
	for name := range shown.All() {
		if name != "version" && name != "versionArray" && name != "ok" && name[0] != '$' && name != "operationTime" {
			t.Errorf("buildInfo shows a stranger %s", name)
		}
	}

	for what, said := range map[string]string{
		"HTTP": "GET /metrics HTTP/1.1\r\nHost: db\r\n\r\n", "gRPC": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"a member without the key": repl.KeyPreface + strings.Repeat("x", 64), "SSH": "SSH-2.0-OpenSSH_9.9\r\n" + strings.Repeat("x", 64),
		"SMB": "\x00\x00\x00\x85\xffSMB" + strings.Repeat("\x00", 64), "TLS": "\x16\x03\x01\x00\x2e\x01\x00\x00\x2a\x03\x03" + strings.Repeat("\xff", 64), "zeros": strings.Repeat("\x00", 64),
	} {
		nc, err := net.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = nc.Write([]byte(said))
		_ = nc.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(nc)
		_ = nc.Close()
		if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: not ended", what)
		}
		limit := 0
		switch what {
		case "HTTP":
			limit = 200
			if !bytes.Contains(answer, []byte("HTTP on the native driver port")) {
				t.Errorf("%s: %q", what, answer)
			}
		case "a member without the key":
			limit = 64 // a nonce, and the server's proof
		}
		if len(answer) > limit || bytes.Contains(answer, []byte("mayfly_")) {
			t.Errorf("%s: answered with %d bytes: %q", what, len(answer), answer)
		}
	}
	for path, want := range map[string]int{"/": 404, "/metrics": 401, "/debug/pprof/": 401, "/debug/pprof/heap": 401, "/debug/vars": 404, "/healthz": 200, "/readyz": 200, "/healthz?x=/metrics": 200} {
		r, err := http.Get(fmt.Sprintf("http://localhost:%d%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != want || len(body) > 64 {
			t.Errorf("%s: %s, %q", path, r.Status, body)
		}
	}
}
