package server_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// What a scanner of TLS looks for: old versions and weak ciphers are refused, forward secrecy is
// always there, and nothing is compressed. (crypto/tls has no compression, and no server of it
// lets a client renegotiate.)
func TestWeakTLSIsRefused(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", pkix.Name{CommonName: "db1"}, time.Now().AddDate(1, 0, 0))
	s := servertest.Start(t, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile, "--tlsAllowConnectionsWithoutCertificates")
	shake := func(version uint16, suites ...uint16) (tls.ConnectionState, error) {
		conf := a.Trusting(nil)
		conf.ServerName, conf.MinVersion, conf.MaxVersion, conf.CipherSuites = "localhost", version, version, suites
		nc, err := tls.Dial("tcp", s.Address, conf)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer nc.Close()
		return nc.ConnectionState(), nil
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		if _, err := shake(version); err == nil {
			t.Errorf("%s is spoken", tls.VersionName(version))
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if state, err := shake(version); err != nil || state.Version != version {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	for _, suite := range tls.InsecureCipherSuites() {
		if _, err := shake(tls.VersionTLS12, suite.ID); err == nil {
			t.Errorf("%s is spoken", suite.Name)
		}
	}
	spoken := 0
	for _, suite := range tls.CipherSuites() {
		if state, err := shake(tls.VersionTLS12, suite.ID); err == nil && state.CipherSuite == suite.ID {
			spoken++
		}
	}
	if spoken == 0 {
		t.Error("no cipher of TLS 1.2 is spoken")
	}
}
