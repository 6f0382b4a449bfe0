package tls

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var (
	year   = time.Now().AddDate(1, 0, 0)
	server = pkix.Name{CommonName: "db1", Organization: []string{"Example"}, OrganizationalUnit: []string{"db"}, Country: []string{"SE"}}
	ann    = pkix.Name{CommonName: "ann, \"the\" first", Organization: []string{"Example"}, OrganizationalUnit: []string{"people"}, Country: []string{"SE"}}
)

// annName is ann's name as a user's.
const annName = `CN=ann\, \"the\" first,OU=people,O=Example,C=SE`

// connect makes a driver, which connects when it is used; conf nil: without TLS.
func connect(t *testing.T, s *testkit.Server, conf *tls.Config, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(s.URI() + "?directConnection=true").SetServerSelectionTimeout(5 * time.Second)
	if conf != nil {
		o.SetTLSConfig(conf)
	}
	c, err := mongo.Connect(append([]*options.ClientOptions{o}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) }) // its server may have gone
	return c
}

func ping(t *testing.T, c *mongo.Client) error {
	return c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "ping", Value: 1}}).Err()
}

// soon makes a client give up early on a server that refuses it.
var soon = options.Client().SetServerSelectionTimeout(500 * time.Millisecond)

// refused demands that a client is not let in.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: let in", what)
	}
}

func code(err error) int32 {
	var e mongo.CommandError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Each mode lets in what it says, and the log says why it refuses the rest.
func TestModes(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", server, year)
	client := a.Trusting(a.Sign("client.pem", ann, year))
	options := []string{"--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile}
	for _, m := range []struct {
		mode             string
		plain, encrypted bool
	}{{"disabled", true, false}, {"allowTLS", true, true}, {"preferTLS", true, true}, {"requireTLS", false, true}} {
		args := append([]string{"--tlsMode", m.mode}, options...)
		if m.mode == "disabled" {
			args = args[:2]
		}
		var start *tls.Config
		if !m.plain {
			start = client
		}
		s := testkit.StartTLS(t, start, "", args...)
		if err := ping(t, connect(t, s, nil, soon)); (err == nil) != m.plain {
			t.Errorf("%s, without TLS: %v", m.mode, err)
		}
		if err := ping(t, connect(t, s, client, soon)); (err == nil) != m.encrypted {
			t.Errorf("%s, with TLS: %v", m.mode, err)
		}
		if !m.plain && !strings.Contains(s.Output(), "The server is configured to only allow SSL connections") {
			t.Errorf("%s: the log does not say why plain connections end", m.mode)
		}
		if !m.encrypted && !strings.Contains(s.Output(), "SSL handshake received but server is started without SSL support") {
			t.Errorf("%s: the log does not say why TLS connections end", m.mode)
		}
		s.Stop()
	}
}

// Who shows no certificate, one of another authority, one that has ended or was revoked, or
// speaks a version that is switched off, is not let in.
func TestWhoIsLetIn(t *testing.T) {
	a, other := testkit.NewAuthority(t, "Root"), testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", server, year)
	good, revoked := a.Sign("good.pem", ann, year), a.Sign("revoked.pem", ann, year)
	s := testkit.StartTLS(t, a.Trusting(good), "", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", cert.Encrypted("encrypted.pem", "p w"), "--tlsCertificateKeyFilePassword", "p w",
		"--tlsCAFile", a.CAFile, "--tlsCRLFile", a.Revoke("revoked.crl", revoked), "--tlsLogVersions", "TLS1_3", "--tlsDisabledProtocols", "TLS1_0,TLS1_1,TLS1_2")
	if err := ping(t, connect(t, s, a.Trusting(good))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Output(), "Accepted connection with TLS") {
		t.Error("the log does not have the connection with TLS 1.3")
	}
	foreign := a.Trusting(other.Sign("foreign.pem", ann, year))
	old := a.Trusting(good)
	old.MaxVersion = tls.VersionTLS12
	for what, conf := range map[string]*tls.Config{
		"no certificate": a.Trusting(nil), "of another authority": foreign, "revoked": a.Trusting(revoked),
		"ended": a.Trusting(a.Sign("ended.pem", ann, time.Now().Add(-time.Minute))), "TLS 1.2": old,
	} {
		refused(t, what, ping(t, connect(t, s, conf, soon)))
	}
	refused(t, "a client that trusts another authority", ping(t, connect(t, s, other.Trusting(good), soon)))
	if out := s.Output(); strings.Contains(out, "p w") {
		t.Error("the log has the password of the key")
	}
	var status struct {
		Security struct {
			Subject string `bson:"SSLServerSubjectName"`
		}
		TransportSecurity map[string]int64 `bson:"transportSecurity"`
	}
	if err := connect(t, s, a.Trusting(good)).Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if status.Security.Subject != "CN=db1,OU=db,O=Example,C=SE" || status.TransportSecurity["1.3"] == 0 || status.TransportSecurity["1.2"] != 0 {
		t.Errorf("serverStatus: %+v", status)
	}
	lax := testkit.StartTLS(t, a.Trusting(nil), "", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile, "--tlsAllowConnectionsWithoutCertificates")
	if err := ping(t, connect(t, lax, a.Trusting(nil))); err != nil {
		t.Errorf("no certificate where none is needed: %v", err)
	}
	refused(t, "of another authority, where none is needed", ping(t, connect(t, lax, foreign, soon)))
}

// A user whose name is that of a certificate's holder logs in by showing it; nobody else does.
func TestX509Users(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", server, year)
	s := testkit.Start(t, "--auth", "--tlsMode", "allowTLS", "--tlsAllowConnectionsWithoutCertificates", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile)
	local := connect(t, s, nil)
	if err := local.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err(); err != nil {
		t.Fatal(err)
	}
	root := connect(t, s, nil, options.Client().SetAuth(options.Credential{Username: "root", Password: "pw"}))
	roles := bson.A{bson.D{{Key: "role", Value: "readWrite"}, {Key: "db", Value: "app"}}}
	if err := root.Database("$external").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: annName}, {Key: "roles", Value: roles}}).Err(); err != nil {
		t.Fatal(err)
	}
	byCertificate := func(user string) *options.ClientOptions {
		return options.Client().SetAuth(options.Credential{AuthMechanism: "MONGODB-X509", AuthSource: "$external", Username: user})
	}
	shown := a.Trusting(a.Sign("ann.pem", ann, year))
	for _, name := range []string{"", annName} {
		if _, err := connect(t, s, shown, byCertificate(name)).Database("app").Collection("c").InsertOne(t.Context(), bson.D{}); err != nil {
			t.Errorf("ann, as %q: %v", name, err)
		}
	}
	refused(t, "a holder who is no user", ping(t, connect(t, s, a.Trusting(cert), byCertificate(""), soon)))
	refused(t, "no certificate", ping(t, connect(t, s, a.Trusting(nil), byCertificate(annName), soon)))
	authenticate := func(c *mongo.Client, db, mechanism, user string) int32 {
		return code(c.Database(db).RunCommand(t.Context(), bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: mechanism}, {Key: "user", Value: user}}).Err())
	}
	if got := authenticate(local, "$external", "MONGODB-X509", annName); got != 17 {
		t.Errorf("without TLS: code %d", got)
	}
	encrypted := connect(t, s, shown)
	if got := authenticate(encrypted, "admin", "MONGODB-X509", annName); got != 17 {
		t.Errorf("on admin: code %d", got)
	}
	if got := authenticate(encrypted, "$external", "MONGODB-X509", "CN=bob"); got != 18 {
		t.Errorf("under another name: code %d", got)
	}
	if got := authenticate(encrypted, "$external", "PLAIN", annName); got != 334 {
		t.Errorf("another mechanism: code %d", got)
	}
	// The user has no password that anybody could know.
	refused(t, "with a password", ping(t, connect(t, s, shown, options.Client().SetAuth(options.Credential{AuthMechanism: "SCRAM-SHA-256", AuthSource: "$external", Username: annName, Password: "x"}), soon)))
}

// Certificates are replaced without a dropped connection; where the new ones are damaged, the
// old ones stay.
func TestRotation(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", server, year)
	client := a.Trusting(a.Sign("client.pem", ann, year))
	s := testkit.StartTLS(t, client, "", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile)
	open := connect(t, s, client, options.Client().SetMaxPoolSize(1))
	rotate := func() error {
		return open.Database("admin").RunCommand(t.Context(), bson.D{{Key: "rotateCertificates", Value: 1}}).Err()
	}
	shown := func() string {
		c, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.URI(), "mongodb://"), "/"), client)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	next := server
	next.CommonName = "db2"
	a.Sign("server.pem", next, year)
	if got := shown(); got != "db1" {
		t.Errorf("before the command: %s", got)
	}
	if err := rotate(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "db2" {
		t.Errorf("after it: %s", got)
	}
	if err := os.WriteFile(cert.File, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rotate(); code(err) != 140 {
		t.Errorf("a damaged file: %v", err)
	}
	if got := shown(); got != "db2" {
		t.Errorf("after a damaged file: %s", got)
	}
	if err := ping(t, open); err != nil {
		t.Errorf("the connection that was open: %v", err)
	}
}

// What cannot be used is said at the start, with the option that it is about.
func TestBadFiles(t *testing.T) {
	a, other := testkit.NewAuthority(t, "Root"), testkit.NewAuthority(t, "Other")
	cert := a.Sign("server.pem", server, year)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile}, "need tlsCertificateKeyFile"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCertificateKeyFile", cert.File}, "chain of trust"},
		{[]string{"--tlsCAFile", a.CAFile}, "need to enable TLS via the tlsMode flag"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", a.CAFile}, "has no private key"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.Encrypted("e.pem", "right")}, "no password is given"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.Encrypted("e.pem", "right"), "--tlsCertificateKeyFilePassword", "wrong"}, "private key in"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.File, "--tlsCRLFile", other.Revoke("o.crl")}, "it is of none of the authorities"},
		{[]string{"--tlsMode", "allowTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.File, "--replSet", "rs0", "--clusterAuthMode", "x509"}, "cannot have x.509 cluster authentication in allowTLS mode"},
		{[]string{"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.File, "--tlsDisabledProtocols", "TLS1_2"}, "not only neighbours"},
	} {
		exit, out := testkit.Exec(t, nil, append([]string{"serve", "--dbpath", t.TempDir()}, c.args...)...)
		if exit == 0 || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit code %d, %s", c.args, exit, out)
		}
	}
}
