package certificate

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/youmark/pkcs8"
)

// maxFileBytes bounds each file: a long list of authorities or of what was revoked.
const maxFileBytes = 16 << 20

// read reads a file of at most maxFileBytes.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxFileBytes)
	}
	return b, err
}

// readPair reads a file with a certificate, those of the authorities between it and the root
// if there are any, and its private key, which may be encrypted with a password (PKCS #8).
func readPair(path, password string) (pair tls.Certificate, err error) {
	data, err := read(path)
	if err != nil {
		return pair, err
	}
	var key crypto.PrivateKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			pair.Certificate = append(pair.Certificate, block.Bytes)
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
			if key != nil {
				return pair, fmt.Errorf("%s has more than one private key", path)
			}
			if key, err = privateKey(block, password); err != nil {
				return pair, fmt.Errorf("the private key in %s: %w", path, err)
			}
		}
	}
	switch {
	case len(pair.Certificate) == 0:
		return pair, fmt.Errorf("%s has no certificate", path)
	case key == nil:
		return pair, fmt.Errorf("%s has no private key", path)
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return pair, fmt.Errorf("the certificate in %s: %w", path, err)
	}
	pair.PrivateKey = key
	public, ok := pair.Leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	signer, signs := key.(crypto.Signer)
	if !ok || !signs || !public.Equal(signer.Public()) {
		return pair, fmt.Errorf("the private key in %s is not that of its first certificate", path)
	}
	return pair, nil
}

// privateKey reads a private key.
func privateKey(block *pem.Block, password string) (crypto.PrivateKey, error) {
	switch {
	case block.Headers["Proc-Type"] != "":
		return nil, errors.New("is encrypted in a way that is not safe; encrypt it anew with \"openssl pkcs8 -topk8\"")
	case block.Type == "ENCRYPTED PRIVATE KEY":
		if password == "" {
			return nil, errors.New("is encrypted, and no password is given")
		}
		return pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
	case block.Type == "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case block.Type == "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

// readAuthorities reads a file with the certificates of authorities.
func readAuthorities(path string) (pool *x509.CertPool, all []*x509.Certificate, err error) {
	data, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	pool = x509.NewCertPool()
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("a certificate in %s: %w", path, err)
		}
		pool.AddCert(c)
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s has no certificate", path)
	}
	return pool, all, nil
}

// readRevoked reads a file with lists of revoked certificates, each signed by one of the
// authorities: by issuer, the serial numbers.
func readRevoked(path string, authorities []*x509.Certificate) (map[string]map[string]bool, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	revoked := map[string]map[string]bool{}
	lists := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err == nil {
			err = signedBy(list, authorities)
		}
		if err != nil {
			return nil, fmt.Errorf("a list in %s: %w", path, err)
		}
		lists++
		issuer := string(list.RawIssuer)
		if revoked[issuer] == nil {
			revoked[issuer] = map[string]bool{}
		}
		for _, e := range list.RevokedCertificateEntries {
			revoked[issuer][e.SerialNumber.String()] = true
		}
	}
	if lists == 0 {
		return nil, fmt.Errorf("%s has no list of revoked certificates", path)
	}
	return revoked, nil
}

// signedBy returns nil if one of the authorities has signed the list.
func signedBy(list *x509.RevocationList, authorities []*x509.Certificate) error {
	err := errors.New("it is of none of the authorities")
	for _, a := range authorities {
		if bytes.Equal(a.RawSubject, list.RawIssuer) {
			if err = list.CheckSignatureFrom(a); err == nil {
				return nil
			}
		}
	}
	return err
}
