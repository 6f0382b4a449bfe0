package backup

import (
	"crypto/x509/pkix"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestAccess takes backups with users, and with TLS.
func TestAccess(t *testing.T) {
	s := testkit.Start(t, "--auth")
	admin := s.Client().Database("admin")
	user := func(name, role string) {
		t.Helper()
		if err := admin.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "p@ss"}, {Key: "roles", Value: bson.A{role}}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	user("root", "root")
	as := func(name string) string {
		return strings.Replace(s.URI(), "mongodb://", "mongodb://"+name+":p%40ss@", 1)
	}
	root := testkit.Connect(t, options.Client().ApplyURI(as("root")))
	for _, role := range []string{"backup", "hostManager", "readAnyDatabase"} {
		if err := root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: role}, {Key: "pwd", Value: "p@ss"}, {Key: "roles", Value: bson.A{role}}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	repository := filepath.Join(t.TempDir(), "repository")
	for range 2 { // the first one's cursor is closed
		take(t, "--uri", as("backup"), "--to", repository)
	}
	for _, name := range []string{"hostManager", "readAnyDatabase"} {
		if out := mayfly(t, 100, "backup", "--uri", as(name), "--to", repository); !strings.Contains(out, "not authorized") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if out := mayfly(t, 100, "backup", "--uri", s.URI(), "--to", repository); !strings.Contains(out, "requires authentication") {
		t.Errorf("without a user: %s", out)
	}
	if out := mayfly(t, 100, "backup", "--uri", s.URI()+"?maxPoolSize=3", "--to", repository); !strings.Contains(out, "maxPoolSize") {
		t.Errorf("an option that is not known: %s", out)
	}
}

// TestTLS takes a backup of a server that wants TLS and a client's certificate.
func TestTLS(t *testing.T) {
	ca := testkit.NewAuthority(t, "ca")
	server := ca.Sign("server", pkix.Name{CommonName: "127.0.0.1"}, time.Now().Add(time.Hour))
	client := ca.Sign("client", pkix.Name{CommonName: "client"}, time.Now().Add(time.Hour))
	s := testkit.StartTLS(t, ca.Trusting(client), "", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", server.File, "--tlsCAFile", ca.CAFile)
	repository := filepath.Join(t.TempDir(), "repository")
	take(t, "--uri", s.URI()+"?tlsCAFile="+ca.CAFile+"&tlsCertificateKeyFile="+client.File, "--to", repository)
	for _, options := range []string{"", "?tls=true", "?tlsCAFile=" + ca.CAFile} {
		mayfly(t, 100, "backup", "--uri", s.URI()+options, "--to", repository)
	}
}

// TestDetached takes no backup of a member's data on a server that is no member.
func TestDetached(t *testing.T) {
	s := testkit.Start(t, "--replSet", "rs0", "--initiate")
	s.Stop()
	s.Args = nil
	s.Run()
	if out := mayfly(t, 100, "backup", "--uri", s.URI(), "--to", filepath.Join(t.TempDir(), "repository")); !strings.Contains(out, "without --replSet") {
		t.Error(out)
	}
}
