package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/certificate"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/repl"
)

// handshakeTime bounds the handshake of a client.
const handshakeTime = 10 * time.Second

// expiryWarning is how long before its end the server warns of its certificate. (mongod:
// tlsX509ExpirationWarningThresholdDays.)
const expiryWarning = 30 * 24 * time.Hour

// errPlain and errTLS are why connections are refused, with mongod's words.
var (
	errPlain = errors.New("The server is configured to only allow SSL connections")
	errTLS   = errors.New("SSL handshake received but server is started without SSL support")
)

// openCertificates reads the certificates. Errors: config.Errors.
func (s *Server) openCertificates() (err error) {
	if s.certificates, err = certificate.Open(s.Options.Net.TLS); err != nil || s.certificates == nil {
		return err
	}
	if s.Options.Security.ClusterAuth == config.AuthX509 || s.Options.Security.ClusterAuth == config.AuthSendX509 {
		if err := s.certificates.CheckMembership(); err != nil {
			return err
		}
	}
	subject, ends := s.certificates.Certificate()
	if left := time.Until(ends); left < 0 {
		s.control.Warn("Server certificate is now invalid. It expired on the specified date", "id", logCertificateEnds, "tags", []string{tagStartupWarning}, "subject", subject, "date", ends)
	} else if left < expiryWarning {
		s.control.Warn("Server certificate will expire soon", "id", logCertificateEnds, "tags", []string{tagStartupWarning}, "subject", subject, "date", ends)
	}
	return nil
}

// appendCertificates writes until when the certificates are good: [{use, subject, ends}].
func (s *Server) appendCertificates(b *bson.Builder) {
	all := s.certificates.Lifetimes()
	if len(all) == 0 {
		return
	}
	b.OpenArray("certificates")
	for i, c := range all {
		b.OpenDoc(bson.Index(i)).String("use", c.Use).String("subject", c.Subject).Date("ends", c.Ends.UnixMilli()).Close()
	}
	b.Close()
}

// certificateMetrics shows the same to Prometheus, by use the earliest.
type certificateMetrics struct {
	server *Server
	desc   *prometheus.Desc
}

func (s *Server) newCertificateMetrics() *certificateMetrics {
	return &certificateMetrics{s, prometheus.NewDesc("mayfly_certificate_end_seconds", "When a certificate ends, in seconds since 1970: of those for one use the first.", []string{"use"}, nil)}
}

// Describe is prometheus.Collector's.
func (m *certificateMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect is prometheus.Collector's.
func (m *certificateMetrics) Collect(ch chan<- prometheus.Metric) {
	first := map[string]time.Time{}
	for _, c := range m.server.certificates.Lifetimes() {
		if t, ok := first[c.Use]; !ok || c.Ends.Before(t) {
			first[c.Use] = c.Ends
		}
	}
	for use, ends := range first {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(ends.Unix()), use)
	}
}

// secure does the handshake of a client that speaks TLS, and listens again for what it speaks
// on it. Errors: why it is refused, which has been logged.
func (s *Server) secure(l *link, in *heard) (*heard, error) {
	encrypted, err := in.isTLS()
	switch {
	case err != nil:
		return nil, err // it disconnected
	case !encrypted && s.certificates.Requires():
		err = errPlain
	case !encrypted:
		return in, nil
	case !s.certificates.Accepts():
		err = errTLS
	default:
		err = s.handshake(l, in)
	}
	if err != nil {
		if !s.stopping.Load() {
			l.log.Info("Error receiving request from client. Ending connection from remote", "id", logReceiveFailed,
				"error", fmt.Sprintf("SSLHandshakeFailed: %v", err), "remote", l.client.Remote, "connectionId", l.client.ConnectionID)
		}
		return nil, err
	}
	return hear(l)
}

// handshake does the handshake, and notes who the client is.
func (s *Server) handshake(l *link, in *heard) error {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTime)
	defer cancel()
	t := tls.Server(&heard{l.Conn, in.first}, s.certificates.Server())
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	holder, err := s.certificates.Holder(state)
	if err != nil {
		return err
	}
	l.plain, l.client.Encrypted, l.client.Holder, l.client.AskedFor = t, true, holder, state.ServerName
	if i := int(state.Version) - tls.VersionTLS10; i >= 0 && i < len(s.stats.tls) {
		s.stats.tls[i].Add(1)
	}
	if name := config.VersionName(state.Version); slices.Contains(s.Options.Net.TLS.LogVersions, name) {
		l.log.Info("Accepted connection with TLS", "id", logTLSVersion, "remote", l.client.Remote, "tlsVersion", strings.TrimPrefix(name, "TLS"))
	}
	return nil
}

// ByMember reports whether the other end of a connection has shown a member's certificate.
// (repl.Certified)
func (h *heard) ByMember() bool {
	l, ok := h.Conn.(*link)
	return ok && l.client.Holder.Member
}

// byCertificate reports whether members may log in with their certificates.
func (s *Server) byCertificate() bool { return s.Options.Security.ClusterAuth != config.AuthKeyFile }

// toOthers are the options of connections to other servers of the cluster.
func (s *Server) toOthers() client.Options {
	o := client.Options{Peer: true, Dial: s.Network.Dial, TLS: s.certificates.Client(), Login: client.Member(s.Options.Security.Keys)}
	if c := s.Options.Security.ClusterAuth; c == config.AuthX509 || c == config.AuthSendX509 {
		o.Login = client.ByCertificate
	}
	return o
}

// toPrimary are the options of a connection to the primary of the set, for one client's
// request: without a login.
func (s *Server) toPrimary() client.Options {
	return client.Options{AppName: "mayfly", Dial: s.Network.Dial, TLS: s.certificates.Client()}
}

// peerNetwork are the options of connections to other members of the set that are about
// security.
func (s *Server) peerNetwork(o *repl.NetworkOptions) {
	security := s.Options.Security
	o.Credentials = repl.MemberCredentials(security.Keys, s.byCertificate(), security.ClusterAuth == config.AuthX509 || security.ClusterAuth == config.AuthSendX509)
	conf := s.certificates.Client()
	if conf == nil {
		return
	}
	o.Encrypt = func(ctx context.Context, host string, nc net.Conn) (net.Conn, error) {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			return nil, err
		}
		own := conf.Clone()
		own.ServerName = name
		t := tls.Client(nc, own)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		if security.ClusterAuth == config.AuthX509 {
			if err := s.certificates.CheckMember(t.ConnectionState()); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
}
