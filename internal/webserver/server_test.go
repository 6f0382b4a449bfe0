package webserver

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic("asked for")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/unread":
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	b, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Length", "7") // the length of what is written counts
	w.Header().Set("X-Split", "a\r\nb")
	w.Header()["X-Two"] = []string{"1", "2"}
	fmt.Fprintf(w, "%s %s %q %v %s", r.Method, r.RequestURI, b, err, r.Header.Get("x-asked"))
}

// serve starts a server for the test, and returns its address.
func serve(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Handler: http.HandlerFunc(echo), ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeader: 4 << 10, MaxBody: 100,
		Log: slog.New(slog.DiscardHandler),
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestServer writes requests as they are and reads the answers.
func TestServer(t *testing.T) {
	long := strings.Repeat("y", 300)
	for name, c := range map[string]struct {
		requests string
		answers  []string
	}{
		"two at once": {"GET /a?x=1 HTTP/1.1\r\nHost: h\r\nX-Asked: 3\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
			[]string{`200 GET /a?x=1 "" <nil> 3`, `200 POST /b "hi" <nil> `}},
		"chunked": {"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			[]string{`200 POST /b "hi!" <nil> `, `200 GET /a "" <nil> `}},
		"body above the bound": {"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + long, []string{`200 POST /b "` + long + `" <nil> `}},
		// Not parsed, and not written anew.
		"a form": {"POST /b HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 58\r\n\r\n" +
			"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nhi\r\n--x--\r\n",
			[]string{`200 POST /b "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nhi\r\n--x--\r\n" <nil> `}},
		"unread":        {"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + long + "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"413 ", `200 GET /a "" <nil> `}},
		"much unread":   {"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n" + strings.Repeat(long, 2000) + "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"413 "}},
		"head":          {"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"200 "}},
		"no body":       {"GET /none HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"204 ", `200 GET /a "" <nil> `}},
		"escaped":       {"GET //a%2Fb HTTP/1.1\r\nHost: h\r\n\r\n", []string{`200 GET //a%2Fb "" <nil> `}},
		"a panic":       {"GET /panic HTTP/1.1\r\nHost: h\r\n\r\n", []string{"500 "}},
		"two lengths":   {"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi", []string{"400 Error when parsing request"}},
		"a long header": {"GET /a HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("z", 20000) + "\r\n\r\n", []string{"431 Too big request header"}},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", serve(t))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			go io.WriteString(nc, c.requests)
			r := bufio.NewReader(nc)
			for i, want := range c.answers {
				a, err := http.ReadResponse(r, &http.Request{Method: strings.Fields(c.requests)[0]})
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				b, err := io.ReadAll(a.Body)
				if got := fmt.Sprintf("%d %s", a.StatusCode, b); err != nil || got != want {
					t.Fatalf("answer %d: %v %.200s, want %.200s", i, err, got, want)
				}
				if h := a.Header; h.Get("Date") == "" || h.Get("X-Split") != "" && (h.Get("X-Split") != "a  b" || len(h["X-Two"]) != 2) {
					t.Fatalf("answer %d: %v", i, a.Header)
				}
			}
		})
	}
}

// TestTLS: a handler sees the state of the connection's TLS, with the client's
// certificate, and requests have the context of their connection.
func TestTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cert, pool := newCertificate(t)
	type key struct{}
	s := &Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %v", r.TLS.PeerCertificates[0].Subject.CommonName, r.TLS.ServerName, r.Context().Value(key{}) == r.RemoteAddr)
		}),
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool},
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, key{}, nc.RemoteAddr().String())
		},
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeader: 4 << 10, Log: slog.New(slog.DiscardHandler),
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(context.Background(), l) }()
	client := func(conf *tls.Config) *http.Client {
		conf.RootCAs, conf.ServerName = pool, "it.example"
		return &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	}
	for range 2 {
		a, err := client(&tls.Config{Certificates: []tls.Certificate{cert}}).Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(a.Body); string(b) != "it.example it.example true" {
			t.Errorf("answered %q", b)
		}
	}
	if _, err := client(&tls.Config{}).Get("https://" + l.Addr().String()); err == nil {
		t.Error("a client without a certificate was let in")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// newCertificate makes a certificate for it.example, and the pool that has it.
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "it.example"}, DNSNames: []string{"it.example"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool
}

// TestSlowReader holds that a client which does not take its answer keeps no
// connection.
func TestSlowReader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 32<<20) // more than sockets hold
	s := &Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big) }),
		ReadTimeout: time.Minute, WriteTimeout: 50 * time.Millisecond, IdleTimeout: time.Minute, MaxHeader: 4 << 10, Log: slog.New(slog.DiscardHandler),
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(context.Background(), l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := s.Shutdown(within); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
