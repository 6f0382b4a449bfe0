package server_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// audited is one line of an audit log.
type audited struct {
	Type string `json:"atype"`
	TS   struct {
		Date string `json:"$date"`
	} `json:"ts"`
	UUID struct {
		Binary string `json:"$binary"`
		Type   string `json:"$type"`
	} `json:"uuid"`
	Local, Remote struct {
		IP     string
		Port   int
		System bool `json:"isSystemUser"`
	}
	Users  []struct{ User, DB string }
	Roles  []struct{ Role, DB string }
	Param  map[string]any
	Result int
}

func readAudit(t *testing.T, path string) (all []audited, text string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var a audited
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		all, text = append(all, a), text+lines.Text()+"\n"
	}
	return all, text
}

func loggedIn(t *testing.T, s *servertest.Server, user, password string) *client.Conn {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Options{Address: s.Address, Login: &client.Login{User: user, Password: password}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The audit log has who logged in and who failed to, what was refused, and each change of
// schema, rules, users and roles, with its result; no password; and reads only when asked for.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	s := servertest.Start(t, "--auth", "--auditDestination", "file", "--auditPath", path)
	c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run(t, c, `{"createUser": "root", "pwd": "gAzorp", "roles": ["root"]}`)
	root := loggedIn(t, s, "root", "gAzorp")
	if _, err := client.Connect(t.Context(), client.Options{Address: s.Address, Login: &client.Login{User: "root", Password: "wrOng"}}); err == nil {
		t.Fatal("a wrong password")
	}
	for _, text := range []string{
		`{"createUser": "reader", "pwd": "zebRa", "roles": [{"role": "read", "db": "app"}]}`,
		`{"create": "c"}`, `{"createIndexes": "c", "indexes": [{"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60}]}`,
		`{"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 90}}`, `{"insert": "other", "documents": [{"secret": 1}]}`,
		`{"dropIndexes": "c", "index": "at_1"}`, `{"renameCollection": "admin.c", "to": "admin.d"}`, `{"drop": "d"}`,
		`{"createRole": "own", "privileges": [], "roles": ["root"]}`, `{"dropRole": "own"}`, `{"setParameter": 1, "ttlMonitorEnabled": false}`,
	} {
		run(t, root, text)
	}
	reader := loggedIn(t, s, "reader", "zebRa")
	body := `{"find": "system.users"}`
	if code := codeOf(t, reader, body); code != mongoerr.Unauthorized {
		t.Errorf("%s: %v", body, code)
	}
	run(t, root, `{"find": "other"}`)
	all, text := readAudit(t, path)
	var got []string
	for _, a := range all {
		got = append(got, a.Type)
		if a.TS.Date == "" || a.UUID.Type != "04" || a.Remote.IP == "" && !a.Remote.System {
			t.Errorf("%+v", a)
		}
	}
	want := "startup createUser authenticate authenticate createUser createCollection createIndex collMod createCollection dropIndex renameCollection dropCollection createRole dropRole setParameter authenticate authCheck"
	if strings.Join(got, " ") != want {
		t.Errorf("%s\ninstead of\n%s", strings.Join(got, " "), want)
	}
	for _, secret := range []string{"gAzorp", "zebRa", "wrOng", "secret"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the audit log", secret)
		}
	}
	if len(all) == 17 {
		last, failed, index := all[16], all[3], all[6]
		if last.Result != 13 || last.Param["command"] != "find" || last.Param["ns"] != "admin.system.users" || last.Users[0].User != "reader" || last.Roles[0].Role != "read" {
			t.Errorf("%+v", last)
		}
		if failed.Result != 18 || failed.Param["user"] != "root" || failed.Param["mechanism"] != "SCRAM-SHA-256" || len(failed.Users) != 0 {
			t.Errorf("%+v", failed)
		}
		if index.Param["indexName"] != "at_1" || index.Users[0].User != "root" || index.Param["indexSpec"].(map[string]any)["expireAfterSeconds"] != 60.0 {
			t.Errorf("%+v", index)
		}
	}

	run(t, root, `{"logRotate": "audit"}`)
	run(t, root, `{"setParameter": 1, "auditAuthorizationSuccess": true}`)
	run(t, root, `{"find": "other"}`)
	if all, _ = readAudit(t, path); len(all) != 3 || all[2].Type != "authCheck" || all[2].Result != 0 {
		t.Errorf("after the rotation: %+v", all)
	}
	s.Stop()
	if all, _ = readAudit(t, path); all[len(all)-1].Type != "shutdown" {
		t.Errorf("at the end: %+v", all[len(all)-1])
	}
}

func codeOf(t *testing.T, c *client.Conn, text string) mongoerr.Code {
	t.Helper()
	d, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context(), "admin", d)
	return mongoerr.From(err).Code
}
