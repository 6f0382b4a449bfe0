package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/youmark/pkcs8"
)

// Authority signs certificates, whose files are in a directory of the test.
type Authority struct {
	tb   testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64 // serial number
	// CAFile has its certificate.
	CAFile string
}

// Certificate is one that an Authority has signed.
type Certificate struct {
	// File has the certificate and its private key.
	File string
	leaf *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
	a    *Authority
}

// NewAuthority makes an authority with a name.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir(), last: 1}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &a.key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.CAFile = a.write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// write makes a file of PEM blocks.
func (a *Authority) write(name string, blocks ...*pem.Block) string {
	a.tb.Helper()
	var b []byte
	for _, block := range blocks {
		b = append(b, pem.EncodeToMemory(block)...)
	}
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

// Sign makes a certificate for a holder, who may be reached at 127.0.0.1 and localhost, until a
// time. Its file has a name, and replaces another one of that name.
func (a *Authority) Sign(file string, holder pkix.Name, until time.Time) *Certificate {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.last++
	c := &Certificate{a: a, key: key, leaf: &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: holder, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}}
	if c.der, err = x509.CreateCertificate(rand.Reader, c.leaf, a.cert, &key.PublicKey, a.key); err != nil {
		a.tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	c.File = a.write(file, &pem.Block{Type: "CERTIFICATE", Bytes: c.der}, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return c
}

// Encrypted makes a file with the certificate and its key under a password.
func (c *Certificate) Encrypted(file, password string) string {
	c.a.tb.Helper()
	der, err := pkcs8.MarshalPrivateKey(c.key, []byte(password), nil)
	if err != nil {
		c.a.tb.Fatal(err)
	}
	return c.a.write(file, &pem.Block{Type: "CERTIFICATE", Bytes: c.der}, &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der})
}

// Revoke makes a file with the list of certificates that the authority has revoked.
func (a *Authority) Revoke(file string, all ...*Certificate) string {
	a.tb.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().AddDate(0, 0, 1)}
	for _, c := range all {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.leaf.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return a.write(file, &pem.Block{Type: "X509 CRL", Bytes: der})
}

// Trusting is the configuration of a client that trusts the authority, and shows a certificate,
// nil for none.
func (a *Authority) Trusting(c *Certificate) *tls.Config {
	conf := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	conf.RootCAs.AddCert(a.cert)
	if c != nil {
		conf.Certificates = []tls.Certificate{{Certificate: [][]byte{c.der}, PrivateKey: c.key}}
	}
	return conf
}
