package server_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cosmos"
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

// Users and roles that are changed by their documents are told of, without what proves a password.
func TestAuditOfDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	s := servertest.Start(t, "--auditDestination", "file", "--auditPath", path, "--auditFilter", `{"atype": "directAuthMutation"}`)
	c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	user := func(n string) string {
		return `{"_id": "d.` + n + `", "user": "` + n + `", "db": "d", "credentials": {"SCRAM-SHA-256": {"storedKey": "prOof"}}, "roles": []}`
	}
	for _, text := range []string{
		`{"insert": "system.users", "documents": [` + user("a") + `, ` + user("b") + `]}`,
		`{"update": "system.users", "updates": [{"q": {}, "u": {"$set": {"roles": [{"role": "root", "db": "admin"}]}}, "multi": true}]}`,
		`{"update": "system.roles", "updates": [{"q": {"_id": "d.r"}, "u": {"$set": {"role": "r"}}, "upsert": true}]}`,
		`{"findAndModify": "system.users", "query": {"_id": "d.a"}, "remove": true}`,
		`{"delete": "system.users", "deletes": [{"q": {"user": "b"}, "limit": 1}]}`,
		`{"applyOps": [{"op": "i", "ns": "admin.system.users", "o": ` + user("c") + `}]}`,
		`{"bulkWrite": 1, "ops": [{"delete": 0, "filter": {"_id": "d.c"}}], "nsInfo": [{"ns": "admin.system.users"}]}`,
		`{"insert": "merged", "documents": [` + user("e") + `]}`,
		`{"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.merged", "db": "", "drop": true}`,
		`{"update": "system.users", "updates": [{"q": {"_id": "nobody"}, "u": {"$set": {"a": 1}}}]}`,
	} {
		run(t, c, text)
	}
	all, text := readAudit(t, path)
	var got []string
	for _, a := range all {
		id, _ := a.Param["document"].(map[string]any)["_id"].(string)
		got = append(got, a.Param["operation"].(string)+" "+a.Param["ns"].(string)+" "+id)
	}
	want := []string{
		"insert admin.system.users d.a", "insert admin.system.users d.b", "update admin.system.users d.a", "update admin.system.users d.b", "insert admin.system.roles d.r",
		"remove admin.system.users d.a", "remove admin.system.users d.b", "insert admin.system.users d.c", "remove admin.system.users d.c", "insert admin.system.users d.e",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\ninstead of\n%q", got, want)
	}
	if strings.Contains(text, "prOof") || !strings.Contains(text, `"credentials":["SCRAM-SHA-256"]`) {
		t.Error(text)
	}
}

// Requests at the Cosmos DB endpoint that define something, give a token or are refused are told
// of, and others not.
func TestAuditOfCosmos(t *testing.T) {
	path, port := filepath.Join(t.TempDir(), "audit.json"), servertest.FreePort(t)
	servertest.Start(t, "--auditDestination", "file", "--auditPath", path, "--cosmos", "--cosmosPort", strconv.Itoa(port), "--cosmosTls", "off")
	token := func(key string) string {
		return "type=aad&ver=1.0&sig=a.b." + base64.RawURLEncoding.EncodeToString([]byte(key))
	}
	ask := func(want int, proof, method, path, body string, headers ...string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+strconv.Itoa(port)+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", url.QueryEscape(proof))
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != want {
			t.Fatalf("%s %s: %s %v %s", method, path, a.Status, err, text)
		}
		var doc map[string]any
		_ = json.Unmarshal(text, &doc) // of what is deleted there is none
		return doc
	}
	own := token(cosmos.WellKnownKey)
	ask(201, own, "POST", "/dbs", `{"id": "d"}`)
	ask(201, own, "POST", "/dbs/d/colls", `{"id": "c", "partitionKey": {"paths": ["/p"], "kind": "Hash"}, "defaultTtl": 5}`)
	ask(409, own, "POST", "/dbs/d/colls", `{"id": "c", "partitionKey": {"paths": ["/p"], "kind": "Hash"}}`)
	ask(200, own, "PUT", "/dbs/d/colls/c", `{"id": "c", "partitionKey": {"paths": ["/p"], "kind": "Hash"}, "defaultTtl": 7}`)
	ask(201, own, "POST", "/dbs/d/colls/c/docs", `{"id": "i", "p": "seCret"}`, "X-Ms-Documentdb-Partitionkey", `["seCret"]`)
	ask(401, token("another"), "GET", "/dbs/d/colls/c/docs/i", "")
	ask(201, own, "POST", "/dbs/d/users", `{"id": "u"}`)
	ask(201, own, "POST", "/dbs/d/users/u/permissions", `{"id": "r", "permissionMode": "Read", "resource": "dbs/d/colls/c"}`)
	given, _ := ask(200, own, "GET", "/dbs/d/users/u/permissions/r", "")["_token"].(string)
	ask(200, given, "GET", "/dbs/d/colls/c/docs/i", "", "X-Ms-Documentdb-Partitionkey", `["seCret"]`)
	ask(403, given, "DELETE", "/dbs/d/colls/c", "")
	ask(204, own, "DELETE", "/dbs/d/users/u", "")
	ask(204, own, "DELETE", "/dbs/d/colls/c", "")
	ask(204, own, "DELETE", "/dbs/d", "")
	all, text := readAudit(t, path)
	var got []string
	for _, a := range all[1:] {
		got = append(got, fmt.Sprint(a.Type, " ", a.Result))
		if a.Remote.IP != "127.0.0.1" {
			t.Errorf("%+v", a)
		}
	}
	want := []string{
		"createDatabase 0", "createCollection 0", "createCollection 11000", "collMod 0", "authenticate 18", "createUser 0", "createPermission 0", "getPermission 0",
		"authCheck 13", "dropUser 0", "dropCollection 0", "dropDatabase 0",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q\ninstead of\n%q", got, want)
	}
	if strings.Contains(text, "seCret") || strings.Contains(text, given) {
		t.Error(text)
	}
	if p := all[2].Param; p["ns"] != "d.c" || p["args"].(map[string]any)["defaultTtl"] != 5.0 {
		t.Errorf("%+v", p)
	}
	if p := all[9].Param; p["command"] != "deleteContainer" || p["ns"] != "d.c" {
		t.Errorf("%+v", p)
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
