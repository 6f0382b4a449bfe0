package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
)

// Store has the certificates that are in effect. A nil Store is that of a server without TLS.
type Store struct {
	o   config.TLS
	now atomic.Pointer[loaded]
}

// loaded is what the files had when they were read last. Immutable.
type loaded struct {
	server     *tls.Config
	optional   *tls.Config     // server, for those who need not show a certificate
	outgoing   tls.Certificate // what this server shows others
	roots      *x509.CertPool  // who signs what others show
	revoked    map[string]map[string]bool
	membership []string
	subject    string
	ends       time.Time // of the certificate for clients
	all        []Lifetime
}

// Lifetime is until when a certificate is good.
type Lifetime struct {
	// Use is what it is for, Subject its holder.
	Use, Subject string
	Ends         time.Time
}

// Open reads the files. It returns nil where TLS is disabled. Errors: config.Errors.
func Open(o config.TLS) (*Store, error) {
	if o.Mode == config.TLSDisabled {
		return nil, nil
	}
	s := &Store{o: o}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the files again: what begins from now on uses what they have. After an error
// everything is as it was. Errors: config.Errors.
func (s *Store) Reload() error {
	l, err := s.load()
	if err != nil {
		return err
	}
	s.now.Store(l)
	return nil
}

// failed is the error of an option.
func failed(path string, err error) error {
	return config.Errors{{Place: path, Message: err.Error()}}
}

func (s *Store) load() (*loaded, error) {
	own, err := readPair(s.o.CertificateKeyFile, s.o.CertificateKeyFilePassword)
	if err != nil {
		return nil, failed("net.tls.certificateKeyFile", err)
	}
	l := &loaded{outgoing: own, ends: own.Leaf.NotAfter}
	if l.subject, err = Subject(own.Leaf); err != nil {
		return nil, failed("net.tls.certificateKeyFile", err)
	}
	if s.o.ClusterFile != "" {
		if l.outgoing, err = readPair(s.o.ClusterFile, s.o.ClusterPassword); err != nil {
			return nil, failed("net.tls.clusterFile", err)
		}
	}
	l.membership = membership(l.outgoing.Leaf)
	l.last("the certificate for clients", own.Leaf)
	if s.o.ClusterFile != "" {
		l.last("the certificate for other servers", l.outgoing.Leaf)
	}
	incoming, authorities, err := readAuthorities(s.o.CAFile)
	if err != nil {
		return nil, failed("net.tls.CAFile", err)
	}
	l.roots = incoming
	if s.o.ClusterCAFile != "" { // signs the clients' certificates, as mongod has it
		var more []*x509.Certificate
		if incoming, more, err = readAuthorities(s.o.ClusterCAFile); err != nil {
			return nil, failed("net.tls.clusterCAFile", err)
		}
		authorities = append(authorities, more...)
	}
	for _, a := range authorities {
		l.last("the certificate of an authority", a)
	}
	if s.o.CRLFile != "" {
		if l.revoked, err = readRevoked(s.o.CRLFile, authorities); err != nil {
			return nil, failed("net.tls.CRLFile", err)
		}
	}
	l.server = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: incoming, ClientAuth: s.asks(), VerifyConnection: func(c tls.ConnectionState) error { return l.stands(c.VerifiedChains) }}
	l.server.MinVersion, l.server.MaxVersion = s.o.Versions()
	l.optional = l.server.Clone()
	l.optional.ClientAuth = tls.VerifyClientCertIfGiven
	return l, nil
}

// last notes until when a certificate is good.
func (l *loaded) last(use string, c *x509.Certificate) {
	subject, err := Subject(c)
	if err != nil {
		subject = c.Subject.String()
	}
	l.all = append(l.all, Lifetime{use, subject, c.NotAfter})
}

// asks is what is asked of clients.
func (s *Store) asks() tls.ClientAuthType {
	switch {
	case s.o.AllowInvalidCertificates:
		return tls.RequestClientCert
	case s.o.AllowConnectionsWithoutCertificates:
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}

// stands returns an error if a certificate of each chain was revoked.
func (l *loaded) stands(chains [][]*x509.Certificate) error {
	if len(l.revoked) == 0 || len(chains) == 0 {
		return nil
	}
	isRevoked := func(c *x509.Certificate) bool { return l.revoked[string(c.RawIssuer)][c.SerialNumber.String()] }
	for _, chain := range chains {
		if !slices.ContainsFunc(chain, isRevoked) {
			return nil
		}
	}
	return errors.New("the certificate was revoked")
}

// Accepts reports whether clients may speak TLS.
func (s *Store) Accepts() bool { return s != nil }

// Requires reports whether clients must speak TLS.
func (s *Store) Requires() bool { return s != nil && s.o.Mode == config.TLSRequired }

// Server is the configuration for connections that come. Each gets what is in effect when it
// begins.
func (s *Store) Server() *tls.Config {
	return s.incoming(func(l *loaded) *tls.Config { return l.server })
}

// Optional is Server for connections whose clients need not show a certificate: whoever shows
// one, shows a right one.
func (s *Store) Optional() *tls.Config {
	return s.incoming(func(l *loaded) *tls.Config { return l.optional })
}

func (s *Store) incoming(of func(*loaded) *tls.Config) *tls.Config {
	first := s.now.Load().server
	return &tls.Config{MinVersion: first.MinVersion, MaxVersion: first.MaxVersion, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return of(s.now.Load()), nil }}
}

// Client is the configuration for connections to other servers of the set or the cluster; nil
// where those are not encrypted. The name of the server is for the caller to set.
func (s *Store) Client() *tls.Config {
	if s == nil || s.o.Mode == config.TLSAllowed {
		return nil
	}
	c := &tls.Config{
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &s.now.Load().outgoing, nil },
		// crypto/tls would check with the authorities of now for ever, and knows no lists of
		// what was revoked: verify does.
		InsecureSkipVerify: true,
		VerifyConnection:   s.verify,
	}
	c.MinVersion, c.MaxVersion = s.o.Versions()
	return c
}

// verify checks the certificate of a server.
func (s *Store) verify(c tls.ConnectionState) error {
	if s.o.AllowInvalidCertificates {
		return nil
	}
	if len(c.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	l := s.now.Load()
	o := x509.VerifyOptions{Roots: l.roots, Intermediates: x509.NewCertPool(), DNSName: c.ServerName}
	if s.o.AllowInvalidHostnames {
		o.DNSName = ""
	}
	for _, between := range c.PeerCertificates[1:] {
		o.Intermediates.AddCert(between)
	}
	chains, err := c.PeerCertificates[0].Verify(o)
	if err != nil {
		return err
	}
	return l.stands(chains)
}

// Holder is who holds the certificate that a client has shown.
type Holder struct {
	// Subject is its name; "" where it has shown none that was verified.
	Subject string
	// Member says that the certificate is that of a member of this cluster.
	Member bool
}

// Holder says who has shown a certificate on a connection that came.
func (s *Store) Holder(c tls.ConnectionState) (Holder, error) {
	if len(c.VerifiedChains) == 0 {
		return Holder{}, nil
	}
	leaf := c.VerifiedChains[0][0]
	subject, err := Subject(leaf)
	return Holder{subject, s.isMember(leaf)}, err
}

// isMember reports whether a certificate, which was verified, is that of a member.
func (s *Store) isMember(leaf *x509.Certificate) bool {
	own := s.now.Load().membership
	return len(own) > 0 && slices.Equal(own, membership(leaf))
}

// CheckMember returns an error if the server at the other end of a connection is no member of
// this cluster.
func (s *Store) CheckMember(c tls.ConnectionState) error {
	if len(c.PeerCertificates) == 0 || !s.isMember(c.PeerCertificates[0]) {
		return errors.New("the certificate of the other process is not that of a member: O, OU and DC differ")
	}
	return nil
}

// Certificate describes the certificate for clients.
func (s *Store) Certificate() (subject string, ends time.Time) {
	l := s.now.Load()
	return l.subject, l.ends
}

// Lifetimes are those of all certificates in use; none for a nil Store.
func (s *Store) Lifetimes() []Lifetime {
	if s == nil {
		return nil
	}
	return s.now.Load().all
}

// CheckMembership returns an error where members are to be known by their certificates and this
// one's has none of what tells.
func (s *Store) CheckMembership() error {
	if len(s.now.Load().membership) > 0 {
		return nil
	}
	return failed("security.clusterAuthMode", fmt.Errorf("x509 needs a certificate whose subject has O, OU or DC"))
}
