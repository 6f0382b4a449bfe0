package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Files are the files of a client that is no server: a tool.
type Files struct {
	Authorities string // who signs servers' certificates; "" for the system's
	Certificate string // that the client shows, with its key; "" for none
	Password    string // of the key
	AnyName     bool   // the name in a server's certificate need not be the host's
}

// Client is the configuration of the client's connections. Errors: those of the files.
func (f Files) Client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.Authorities != "" {
		pool, _, err := readAuthorities(f.Authorities)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if f.Certificate != "" {
		pair, err := readPair(f.Certificate, f.Password)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if f.AnyName { // the chain is checked all the same
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the server has shown no certificate")
			}
			o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
			for _, p := range s.PeerCertificates[1:] {
				o.Intermediates.AddCert(p)
			}
			_, err := s.PeerCertificates[0].Verify(o)
			return err
		}
	}
	return c, nil
}
