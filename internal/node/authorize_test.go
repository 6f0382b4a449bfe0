package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// TestAccessControl runs the scripts of testdata/access on a node that controls
// access. "user@db as" begins a case that the user sends, who is logged in
// without a password; "nobody" is who has not authenticated. Only whether a
// command may run is shown, and the error where not.
func TestAccessControl(t *testing.T) {
	datadriven.Walk(t, "testdata/access", func(t *testing.T, path string) {
		n, _ := withData(t)
		n.EnableAccessControl()
		clients := map[string]*command.Client{}
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			db := "test"
			c.MaybeScanArgs(t, "db", &db)
			client := clients[c.Cmd]
			if client == nil {
				client = &command.Client{ConnectionID: int64(len(clients) + 1), Remote: "127.0.0.1:40000"}
				clients[c.Cmd] = client
				n.Dispatcher.Clients.Connect(client)
			}
			if user, on, ok := strings.Cut(c.Cmd, "@"); ok && client.Principal() == nil {
				p, err := n.accounts.Principal(t.Context(), auth.UserName{User: user, DB: on})
				if err != nil || p == nil {
					t.Fatalf("%s: %v", c.Cmd, err)
				}
				client.SetPrincipal(p)
			}
			if c.HasArg("far") {
				client.Remote = "10.0.0.1:40000"
			}
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				reply := dispatch(t, n, client, db, line, false).Body
				switch code := bson.ClampToInt64(reply.Lookup("code")); {
				case code == 13:
					fmt.Fprintf(&out, "no: %s\n", reply.Lookup("errmsg").Str())
				case c.HasArg("show"):
					out.WriteString(crudMasks.ReplaceAllString(reply.String(), "$1...") + "\n")
				case code != 0:
					fmt.Fprintf(&out, "error %d\n", code)
				default:
					out.WriteString("yes\n")
				}
			}
			return out.String()
		})
	})
}

// TestEveryCommandHasNeeds holds that no command is forgotten: each says what it
// needs, or that it runs before anyone has authenticated.
func TestEveryCommandHasNeeds(t *testing.T) {
	n := withoutData()
	for _, c := range n.Dispatcher.Registry.All() {
		if c.Flags&command.NoAuth == 0 && !access.Knows(c.Name) {
			t.Errorf("%s has no needs", c.Name)
		}
	}
}

// TestCursorsAreTheirUsers holds that nobody reads or closes another user's cursor.
func TestCursorsAreTheirUsers(t *testing.T) {
	n, _ := withData(t)
	n.EnableAccessControl()
	login := func(user string) *command.Client {
		p, err := n.accounts.Principal(t.Context(), auth.UserName{User: user, DB: "admin"})
		if err != nil || p == nil {
			t.Fatal(user, err)
		}
		c := &command.Client{ConnectionID: 9, Remote: "10.0.0.1:1"}
		c.SetPrincipal(p)
		return c
	}
	first := &command.Client{ConnectionID: 1, Remote: "127.0.0.1:1"}
	dispatch(t, n, first, "admin", `{"createUser": "root", "pwd": "p", "roles": ["root"]}`, true)
	root := login("root")
	for _, name := range []string{"ann", "bob"} {
		dispatch(t, n, root, "admin", `{"createUser": "`+name+`", "pwd": "p", "roles": [{"role": "read", "db": "test"}]}`, true)
	}
	dispatch(t, n, root, "test", `{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 3}, {"_id": 4}]}`, true)
	ann, bob := login("ann"), login("bob")
	reply := dispatch(t, n, ann, "test", `{"find": "c", "batchSize": 1}`, true).Body
	id := reply.Lookup("cursor").Doc().Lookup("id").Int64()
	more := fmt.Sprintf(`{"getMore": {"$numberLong": "%d"}, "collection": "c", "batchSize": 1}`, id)
	for _, c := range []struct {
		who  *command.Client
		does string
		code int64
	}{{bob, more, 13}, {root, more, 13}, {ann, more, 0}} {
		reply := dispatch(t, n, c.who, "test", c.does, false).Body
		if got := bson.ClampToInt64(reply.Lookup("code")); got != c.code {
			t.Errorf("%s: %s", c.does, reply)
		}
	}
	kill := fmt.Sprintf(`{"killCursors": "c", "cursors": [{"$numberLong": "%d"}]}`, id)
	dispatch(t, n, root, "admin", `{"createUser": "carl", "pwd": "p", "roles": [{"role": "read", "db": "other"}]}`, true)
	dispatch(t, n, root, "admin", `{"createUser": "dora", "pwd": "p", "roles": [{"role": "readWrite", "db": "test"}]}`, true)
	for user, db := range map[string]string{"carl": "other", "bob": "test", "dora": "test"} {
		if reply := dispatch(t, n, login(user), db, kill, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 13 {
			t.Errorf("%s kills ann's cursor: %s", user, reply)
		}
	}
	stranger := &command.Client{ConnectionID: 10, Remote: "10.0.0.1:1"}
	if reply := dispatch(t, n, stranger, "admin", `{"endSessions": []}`, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 13 {
		t.Errorf("endSessions of nobody: %s", reply)
	}
	if reply := dispatch(t, n, root, "admin", `{"createUser": "eve", "pwd": "", "roles": []}`, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 2 {
		t.Errorf("an empty password: %s", reply)
	}
	roles := `{"%s": "ann", "roles": [{"role": "read", "db": "test"}]}`
	dispatch(t, n, root, "admin", fmt.Sprintf(roles, "revokeRolesFromUser"), true)
	if reply := dispatch(t, n, ann, "test", more, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 13 {
		t.Errorf("what the cursor needs is revoked: %s", reply)
	}
	dispatch(t, n, root, "admin", fmt.Sprintf(roles, "grantRolesToUser"), true)
	dispatch(t, n, ann, "test", more, true)
	if reply := dispatch(t, n, ann, "test", kill, true).Body; reply.Lookup("cursorsKilled").Doc().IsEmpty() {
		t.Error(reply)
	}
}

// TestRestrictionsHold holds that authentication restrictions bind who has
// authenticated before there were any.
func TestRestrictionsHold(t *testing.T) {
	n, _ := withData(t)
	n.EnableAccessControl()
	local := &command.Client{ConnectionID: 1, Remote: "127.0.0.1:1"}
	dispatch(t, n, local, "admin", `{"createUser": "root", "pwd": "p", "roles": ["root"]}`, true)
	root := &command.Client{ConnectionID: 2, Remote: "10.0.0.1:1", Local: "10.0.0.2:1"}
	p, err := n.accounts.Principal(t.Context(), auth.UserName{User: "root", DB: "admin"})
	if err != nil || p == nil {
		t.Fatal(err)
	}
	root.SetPrincipal(p)
	for _, source := range []string{"10.0.0.0/8", "192.168.0.0/16"} {
		dispatch(t, n, root, "admin", `{"updateUser": "root", "authenticationRestrictions": [{"clientSource": ["`+source+`"]}]}`, true)
	}
	if reply := dispatch(t, n, root, "test", `{"find": "c"}`, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 13 {
		t.Error(reply)
	}
}
