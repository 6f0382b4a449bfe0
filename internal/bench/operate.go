package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// The row operate is what operating a server costs: backups and restores beside cp, while clients
// work at a steady rate, and the processor time of TLS, of encryption at rest and of an audit of
// everything.
const (
	operateRow = "operate"
	// changedPart is the part of the documents that changes before the second backup: a hundredth.
	changedPart = 100
	// costRounds is how often each server is measured with each row of costs, in turns.
	costRounds = 5
	// costDocuments bounds the documents of these servers.
	costDocuments = 100_000
	// costClients is the number of clients of these rows.
	costClients = 8
)

// costRows are the rows whose processor time is compared.
var costRows = []string{"findById", "updateOne", "insertOne"}

// operate measures the row.
func (b *bench) operate(ctx context.Context) error {
	if err := b.backups(ctx); err != nil {
		return err
	}
	return b.costs(ctx)
}

// backups measures backups and restores of a set of one.
func (b *bench) backups(ctx context.Context) (err error) {
	s, err := startSetOfOne(ctx, b.dir, &b.o)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	if err := s.reset(ctx, layout{Mixed: true}); err != nil {
		return err
	}
	if err := fill(ctx, s, 0, b.o.Documents, never); err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nbackup of %d documents\tMB\tseconds\tMB/s\t\n", b.o.Documents)
	repository, dir, files := filepath.Join(b.dir, "repository"), filepath.Join(b.dir, "restored"), s.members[0].dir
	defer func() { err = errors.Join(err, os.RemoveAll(repository), os.RemoveAll(dir)) }()
	uri := "mongodb://" + local(s.members[0].port) + "/"
	cp := &initialSync{}
	var names []string
	var parts []steadyPhases
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { time.Sleep(liveQuiet); return nil }},
		{"cp and sync", func() error { return cp.copyFiles(ctx, files, filepath.Join(b.dir, "copy")) }},
		{"backup", func() error { return b.tool(ctx, "backup", "--uri", uri, "--to", repository) }},
		{"backup of what has changed", func() error { return b.tool(ctx, "backup", "--uri", uri, "--to", repository) }},
		{"restore", func() error { return b.tool(ctx, "restore", "--from", repository, "--to", dir, "--keepExpired") }},
	} {
		if step.name == "backup of what has changed" { // by documents that are added, and then the tables settle
			if err := fill(ctx, s, b.o.Documents, b.o.Documents/changedPart, never); err != nil {
				return err
			}
		}
		if err := settled(ctx, s); err != nil {
			return err
		}
		size, err := treeSize(files)
		if err != nil {
			return err
		}
		var took time.Duration
		p, err := steadyWhile(ctx, s, b.o.Documents, func() error {
			begun := time.Now()
			err := step.do()
			took = time.Since(begun)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if step.name == "cp and sync" {
			took = cp.copying // without the removal
		}
		names, parts = append(names, step.name), append(parts, p)
		if len(names) > 1 {
			fmt.Fprintf(w, "%s\t%d\t%.2f\t%.0f\t\n", step.name, size/1e6, took.Seconds(), float64(size)/1e6/took.Seconds())
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printSteady(b, names, parts)
}

// tool runs a command of the server's program.
func (b *bench) tool(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, b.o.Binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mayfly %s: %w: %s", args[0], err, out)
	}
	return nil
}

// priced is a server whose processor time is compared with that of another one.
type priced struct {
	name, beside string
	args         []string
	server       *mayfly
	data         *dataset
	results      map[string]*result
}

// costs measures the processor time of operations on servers that do more.
func (b *bench) costs(ctx context.Context) (err error) {
	certificate, key, audit := filepath.Join(b.dir, "server.pem"), filepath.Join(b.dir, "master.key"), filepath.Join(b.dir, "audit.json")
	if err := writeCertificate(certificate); err != nil {
		return err
	}
	master := make([]byte, 32)
	_, _ = rand.Read(master) // it never fails
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(master)), 0o600); err != nil {
		return err
	}
	const plain, access = "plain", "access control"
	servers := []*priced{
		{name: plain},
		{name: "TLS", beside: plain, args: []string{"--tlsMode", "requireTLS", "--tlsCertificateKeyFile", certificate, "--tlsCAFile", certificate, "--tlsAllowConnectionsWithoutCertificates"}},
		{name: "encryption at rest", beside: plain, args: []string{"--enableEncryption", "--encryptionKeyFile", key}},
		{name: access, beside: plain, args: []string{"--auth"}},
		{name: "audit of everything", beside: access, args: []string{"--auth", "--auditDestination", "file", "--auditPath", audit, "--setParameter", "auditAuthorizationSuccess=true"}},
	}
	documents := min(b.o.Documents, costDocuments)
	for i, p := range servers {
		p.data, p.results = newDataset(documents), map[string]*result{}
		if p.server, err = startServer(ctx, b.dir, fmt.Sprintf("priced-%d", i), &b.o, p.args...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.server.close()) }()
		if err := p.connect(ctx, certificate); err != nil {
			return err
		}
		if err := p.server.reset(ctx, layout{}); err != nil {
			return err
		}
		if err := fill(ctx, p.server, 0, documents, never); err != nil {
			return err
		}
	}
	for _, name := range costRows {
		r := rows[slices.IndexFunc(rows, func(r row) bool { return r.name == name })]
		for range costRounds {
			for _, p := range servers {
				m, err := measure(ctx, p.server, p.data, r, costClients, b.o.Duration)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", p.name, name, err)
				}
				if have := p.results[name]; have == nil || m.cpu < have.cpu { // the least disturbed
					p.results[name] = m
				}
			}
			if err := os.Truncate(audit, 0); err != nil {
				return err
			}
		}
	}
	return b.printCosts(servers)
}

func (b *bench) printCosts(servers []*priced) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nprocessor time of an operation, %d clients, us\t", costClients)
	for _, name := range costRows {
		fmt.Fprintf(w, "%s\tbeside\t", name)
	}
	fmt.Fprintln(w)
	for _, p := range servers {
		fmt.Fprintf(w, "%s\t", p.name)
		for _, name := range costRows {
			ratio := ""
			if i := slices.IndexFunc(servers, func(o *priced) bool { return o.name == p.beside }); i >= 0 {
				ratio = fmt.Sprintf("%.2f", float64(p.results[name].cpu)/float64(servers[i].results[name].cpu))
			}
			fmt.Fprintf(w, "%s\t%s\t", micros(p.results[name].cpu), ratio)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// connect connects to the server, with TLS if it wants that, and as a user with access control.
func (p *priced) connect(ctx context.Context, certificate string) error {
	at := local(p.server.port)
	if slices.Contains(p.args, "--tlsMode") {
		return p.server.connect("mongodb://" + at + "/?tls=true&tlsCAFile=" + certificate)
	}
	if err := p.server.connect("mongodb://" + at + "/"); err != nil || !slices.Contains(p.args, "--auth") {
		return err
	}
	create := doc("createUser", "root", "pwd", "password", "roles", []string{"root"})
	if err := p.server.client.Database("admin").RunCommand(ctx, create).Err(); err != nil {
		return err
	}
	if err := p.server.client.Disconnect(ctx); err != nil {
		return err
	}
	return p.server.connect("mongodb://root:password@" + at + "/?authSource=admin")
}

// writeCertificate writes a key and a certificate of the local host that is its own authority.
func writeCertificate(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return os.WriteFile(path, text, 0o600)
}
