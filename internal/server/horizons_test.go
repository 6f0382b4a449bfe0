package server_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// hello shows a client the addresses of the horizon whose host it has asked for in TLS, and
// everybody else those of the members.
func TestHorizons(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", pkix.Name{CommonName: "db1"}, time.Now().AddDate(1, 0, 0))
	s := servertest.Start(t, "--replSet", "rs0", "--initiate", "--tlsMode", "allowTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile, "--tlsAllowConnectionsWithoutCertificates")
	c := primary(t, s)
	defer c.Close()
	me := c.Hello().Lookup("me").Str()
	run(t, c, fmt.Sprintf(`{"replSetReconfig": {"_id": "rs0", "version": 2, "members": [{"_id": 0, "host": "%s", "horizons": {"public": "db1.example.com:1", "site": "db1.site:2"}}]}}`, me))
	for name, want := range map[string]string{"": me, "db1.example.com": "db1.example.com:1", "db1.site": "db1.site:2", "localhost": me} {
		o := client.Options{Address: s.Address}
		if name != "" {
			o.TLS = &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
		}
		c, err := client.Connect(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		h := c.Hello()
		_ = c.Close()
		if h.Lookup("me").Str() != want || h.Lookup("primary").Str() != want || h.Lookup("hosts").Doc().Lookup("0").Str() != want {
			t.Errorf("%q: %s", name, h)
		}
	}
}

// primary connects to a set of one once it has elected itself.
func primary(t *testing.T, s *servertest.Server) *client.Conn {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
		if err != nil {
			t.Fatal(err)
		}
		if c.Hello().Lookup("isWritablePrimary").Truthy() {
			return c
		}
		_ = c.Close()
		if time.Now().After(until) {
			t.Fatal("no primary")
		}
	}
}
