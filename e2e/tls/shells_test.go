package tls

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// mongosh, the Node driver in it, and pymongo connect with TLS, and log in by a certificate.
func TestShells(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	client := a.Sign("ann.pem", ann, year)
	s := testkit.StartTLS(t, a.Trusting(client), "", "--auth", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", a.Sign("server.pem", server, year).File, "--tlsCAFile", a.CAFile)
	run := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	mongosh := func(js string, login ...string) string {
		t.Helper()
		args := append([]string{"../node/node_modules/.bin/mongosh", "--quiet", "--tls", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", client.File}, login...)
		return run("node", append(args, s.URI()+"app", "--eval", js)...)
	}
	mongosh(fmt.Sprintf(`db.getSiblingDB("admin").createUser({user: "root", pwd: "pw", roles: ["root"]}); db.getSiblingDB("admin").auth("root", "pw");
		db.getSiblingDB("$external").runCommand({createUser: %q, roles: [{role: "readWrite", db: "app"}]})`, annName))
	if got := mongosh(`db.c.insertOne({a: 1}); print(db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers[0].user)`,
		"--authenticationMechanism", "MONGODB-X509", "--authenticationDatabase", "$external"); got != annName {
		t.Errorf("mongosh is logged in as %s", got)
	}
	if got := run("/usr/bin/python3", "-c", `import pymongo, sys
c = pymongo.MongoClient(sys.argv[1], tls=True, tlsCAFile=sys.argv[2], tlsCertificateKeyFile=sys.argv[3], authMechanism="MONGODB-X509")
print(c.app.c.count_documents({}))`, s.URI(), a.CAFile, client.File); got != "1" {
		t.Errorf("pymongo counts %s", got)
	}
}
