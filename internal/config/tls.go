package config

import (
	"crypto/tls"
	"slices"
	"strings"
)

// The values of net.tls.mode.
const (
	TLSDisabled  = "disabled"
	TLSAllowed   = "allowTLS"
	TLSPreferred = "preferTLS"
	TLSRequired  = "requireTLS"
)

// The values of security.clusterAuthMode.
const (
	AuthKeyFile     = "keyFile"
	AuthSendKeyFile = "sendKeyFile"
	AuthSendX509    = "sendX509"
	AuthX509        = "x509"
)

// TLS says how connections are encrypted, and whose certificates are accepted. Files are PEM.
type TLS struct {
	Mode                       string
	CertificateKeyFile         string
	CertificateKeyFilePassword string
	CAFile                     string
	CRLFile                    string
	ClusterFile                string // "": CertificateKeyFile
	ClusterPassword            string
	ClusterCAFile              string // "": CAFile

	AllowConnectionsWithoutCertificates bool
	AllowInvalidCertificates            bool
	AllowInvalidHostnames               bool

	DisabledProtocols []string
	LogVersions       []string
}

// versions are the versions of TLS by their names in options, the oldest first.
var versions = []struct {
	name   string
	number uint16
}{{"TLS1_0", tls.VersionTLS10}, {"TLS1_1", tls.VersionTLS11}, {"TLS1_2", tls.VersionTLS12}, {"TLS1_3", tls.VersionTLS13}}

// VersionName is the name of a version of TLS in options, "" for an unknown one.
func VersionName(number uint16) string {
	for _, v := range versions {
		if v.number == number {
			return v.name
		}
	}
	return ""
}

// Versions are the oldest and the newest version of TLS that are spoken; zeros if there are
// none, or some between them are not.
func (t TLS) Versions() (oldest, newest uint16) {
	gap := false
	for _, v := range versions {
		switch {
		case slices.Contains(t.DisabledProtocols, v.name):
			gap = oldest != 0
		case gap:
			return 0, 0
		default:
			newest = v.number
			if oldest == 0 {
				oldest = newest
			}
		}
	}
	return oldest, newest
}

// tls checks the options of TLS, with the conditions and most messages of mongod.
func (l *loader) tls() {
	o := &l.options.Net.TLS
	clusterAuth := l.options.Security.ClusterAuth
	if o.Mode == TLSDisabled {
		for i := range table {
			path := table[i].path
			if _, given := l.explicit[path]; given && strings.HasPrefix(path, "net.tls.") && path != "net.tls.mode" {
				l.fail(path, "need to enable TLS via the tlsMode flag when using TLS configuration parameters")
			}
		}
		if clusterAuth == AuthSendX509 || clusterAuth == AuthX509 {
			l.fail("security.clusterAuthMode", "need to enable TLS via the tlsMode flag")
		}
		return
	}
	if o.CertificateKeyFile == "" {
		l.fail("net.tls.mode", "need tlsCertificateKeyFile when TLS is enabled")
	}
	if o.CAFile == "" {
		l.fail("net.tls.mode", "The use of TLS without specifying a chain of trust is no longer supported: set tlsCAFile")
	}
	if clusterAuth == AuthX509 && o.Mode == TLSAllowed {
		l.fail("security.clusterAuthMode", "cannot have x.509 cluster authentication in allowTLS mode")
	}
	if clusterAuth == AuthX509 && o.AllowInvalidCertificates {
		l.fail("security.clusterAuthMode", "cannot have x.509 cluster authentication while not enforcing client certificates")
	}
	if slices.Contains(o.DisabledProtocols, "none") {
		o.DisabledProtocols = nil
	}
	if oldest, _ := o.Versions(); oldest == 0 {
		l.fail("net.tls.disabledProtocols", "leaves no version of TLS, or not only neighbours")
	}
}
