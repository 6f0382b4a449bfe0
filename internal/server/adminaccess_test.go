package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// The admin port lets in who has what its options ask for, and nobody else; what it shows to
// all is whether the server serves. Profiles have a switch of their own.
func TestAdminAccess(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	year := time.Now().AddDate(1, 0, 0)
	cert := a.Sign("server.pem", pkix.Name{CommonName: "db1"}, year)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := servertest.FreePort(t)
	s := servertest.Start(t, "--auth", "--tlsMode", "allowTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile,
		"--adminPort", fmt.Sprint(port), "--adminTls", "--adminAccess", "user,token,certificate", "--adminTokenFile", token, "--adminPprof")
	c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{ // each by the localhost exception, or as root
		`{"createUser": "root", "pwd": "p", "roles": ["root"]}`,
	} {
		run(t, c, text)
	}
	root, err := client.Connect(t.Context(), client.Options{Address: s.Address, Login: &client.Login{User: "root", Password: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	run(t, root, `{"createUser": "watcher", "pwd": "w", "roles": ["clusterMonitor"]}`)
	run(t, root, `{"createUser": "nobody", "pwd": "n", "roles": []}`)

	const metrics, profiles, health = "/metrics", "/debug/pprof/cmdline", "/healthz"
	for _, w := range []struct {
		who, user, password, token string
		certificate                bool
		path                       string
		code                       int
	}{
		{who: "a stranger", path: metrics, code: 401}, {who: "a stranger", path: profiles, code: 401}, {who: "a stranger", path: health, code: 200},
		{who: "a stranger", path: "/", code: 404},
		{who: "the token", token: "0123456789abcdef", path: metrics, code: 200}, {who: "another token", token: "0123456789abcdeg", path: metrics, code: 401},
		{who: "no token", token: " ", path: metrics, code: 401},
		{who: "a certificate", certificate: true, path: profiles, code: 200},
		{who: "who watches", user: "watcher", password: "w", path: metrics, code: 200}, {who: "who watches", user: "watcher", password: "w", path: profiles, code: 403},
		{who: "a user without roles", user: "nobody", password: "n", path: metrics, code: 403}, {who: "root", user: "root", password: "p", path: profiles, code: 200},
		{who: "a wrong password", user: "watcher", password: "x", path: metrics, code: 401}, {who: "no user", user: "none", password: "x", path: metrics, code: 401},
		{who: "a member's name", user: "__system", password: "x", path: metrics, code: 401},
	} {
		conf := a.Trusting(nil)
		if w.certificate {
			conf = a.Trusting(a.Sign("client.pem", pkix.Name{CommonName: "ann"}, year))
		}
		h := http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://localhost:%d%s", port, w.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.user != "" {
			r.SetBasicAuth(w.user, w.password)
		}
		if w.token != "" {
			r.Header.Set("Authorization", "Bearer "+w.token)
		}
		answer, err := h.Do(r)
		if err != nil {
			t.Fatal(w.who, w.path, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != w.code {
			t.Errorf("%s, %s: %d instead of %d", w.who, w.path, answer.StatusCode, w.code)
		}
	}
	other := testkit.NewAuthority(t, "Other")
	foreign := a.Trusting(nil)
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &other.Trusting(other.Sign("foreign.pem", pkix.Name{CommonName: "eve"}, year)).Certificates[0], nil
	}
	h := http.Client{Transport: &http.Transport{TLSClientConfig: foreign}}
	if r, err := h.Get(fmt.Sprintf("https://localhost:%d/healthz", port)); err == nil {
		_ = r.Body.Close()
		t.Error("a certificate of another authority: let in")
	}
	if r, err := http.Get(fmt.Sprintf("http://localhost:%d/metrics", port)); err == nil {
		_ = r.Body.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %s", r.Status)
		}
	}
}

// With access control and no more said, a user is asked for, and there are no profiles.
func TestAdminAccessByDefault(t *testing.T) {
	for _, c := range []struct {
		args              []string
		metrics, profiles int
	}{{[]string{"--auth"}, 401, 404}, {nil, 200, 404}, {[]string{"--auth", "--adminPprof"}, 401, 401}} {
		port := servertest.FreePort(t)
		s := servertest.Start(t, append([]string{"--adminPort", fmt.Sprint(port)}, c.args...)...)
		for path, want := range map[string]int{"/metrics": c.metrics, "/debug/pprof/": c.profiles} {
			r, err := http.Get(fmt.Sprintf("http://localhost:%d%s", port, path))
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s, %s: %d instead of %d", strings.Join(c.args, " "), path, r.StatusCode, want)
			}
		}
		s.Stop()
	}
}

func parse(text string) (bson.Doc, error) { return bson.ParseJSON(text) }

// run runs a command on admin.
func run(t *testing.T, c *client.Conn, text string) bson.Doc {
	t.Helper()
	body, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Run(context.WithoutCancel(t.Context()), "admin", body)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}
