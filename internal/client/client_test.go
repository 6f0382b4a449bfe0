package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/wire"
)

func connect(t *testing.T, o client.Options) *client.Conn {
	t.Helper()
	c, err := client.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func doc(t *testing.T, text string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestServer asks a real server: logins of all kinds, commands, cursors, errors,
// and what a context's end does.
func TestServer(t *testing.T) {
	address := servertest.Start(t, "--auth").Address
	first := connect(t, client.Options{Address: address, AppName: "test"})
	if first.Hello().Lookup("maxWireVersion").Int32() < 25 {
		t.Errorf("hello: %s", first.Hello())
	}
	if _, err := first.Run(t.Context(), "admin", doc(t, `{"createUser":"root","pwd":"geheim","roles":["root"]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Run(t.Context(), "d", doc(t, `{"find":"c"}`)); !mongoerr.Is(err, mongoerr.Unauthorized) {
		t.Errorf("without a login: %v", err)
	}
	root := connect(t, client.Options{Address: address, Login: &client.Login{User: "root", Password: "geheim"}})
	if _, err := root.Run(t.Context(), "d", doc(t, `{"createUser":"old","pwd":"p\u00e4ss","roles":["read"],"mechanisms":["SCRAM-SHA-1"]}`)); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]struct {
		login client.Login
		fails bool
	}{
		"sha1":          {client.Login{User: "root", Password: "geheim", Mechanism: auth.ScramSHA1}, false},
		"sha256":        {client.Login{User: "root", Password: "geheim", Source: "admin", Mechanism: auth.ScramSHA256}, false},
		"only sha1":     {client.Login{User: "old", Password: "p\u00e4ss", Source: "d"}, false},
		"wrong":         {client.Login{User: "root", Password: "Geheim"}, true},
		"nobody":        {client.Login{User: "none", Password: "geheim"}, true},
		"other source":  {client.Login{User: "root", Password: "geheim", Source: "d"}, true},
		"not its kind":  {client.Login{User: "old", Password: "p\u00e4ss", Source: "d", Mechanism: auth.ScramSHA256}, true},
		"no such thing": {client.Login{User: "root", Password: "geheim", Mechanism: "GSSAPI"}, true},
	} {
		c, err := client.Connect(t.Context(), client.Options{Address: address, Login: &l.login})
		if (err != nil) != l.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	testCursor(t, root)
	testErrors(t, root)
	testDeadline(t, address)
}

func testCursor(t *testing.T, c *client.Conn) {
	var docs []bson.Doc
	for i := range 250 {
		docs = append(docs, new(bson.Builder).Int32("_id", int32(i)).Finish())
	}
	reply, err := c.Run(t.Context(), "d", doc(t, `{"insert":"c"}`), wire.NewSequence("documents", docs...))
	if err != nil || reply.Lookup("n").Int32() != 250 {
		t.Fatalf("%s %v", reply, err)
	}
	cur, err := c.Open(t.Context(), "d", doc(t, `{"find":"c","sort":{"_id":1},"batchSize":7}`))
	if err != nil {
		t.Fatal(err)
	}
	n := int32(0)
	for ; ; n++ {
		d, err := cur.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			break
		}
		if d.Lookup("_id").Int32() != n {
			t.Fatalf("document %d is %s", n, d)
		}
	}
	if n != 250 {
		t.Errorf("%d documents", n)
	}
	if cur, err = c.Open(t.Context(), "d", doc(t, `{"find":"c","batchSize":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := cur.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := c.Run(t.Context(), "admin", doc(t, `{"serverStatus":1}`))
	if open := status.Lookup("metrics").Doc().Lookup("cursor").Doc().Lookup("open").Doc().Lookup("total"); err != nil || open.Int64() != 0 {
		t.Errorf("open cursors: %s %v", open, err)
	}
}

func testErrors(t *testing.T, c *client.Conn) {
	_, err := c.Run(t.Context(), "d", doc(t, `{"nosuch":1}`))
	if e := new(mongoerr.Error); !errors.As(err, &e) || e.Code != mongoerr.CommandNotFound || e.Message != "no such command: 'nosuch'" {
		t.Errorf("%v", err)
	}
	if _, err := c.Open(t.Context(), "d", doc(t, `{"ping":1}`)); err == nil {
		t.Error("ping has a cursor")
	}
	// What is too large to be sent harms nothing.
	if _, err := c.Run(t.Context(), "d", new(bson.Builder).Binary("ping", 0, make([]byte, wire.MaxMessageSize)).Finish()); !mongoerr.Is(err, mongoerr.BSONObjectTooLarge) {
		t.Errorf("%v", err)
	}
	if _, err := c.Run(t.Context(), "d", doc(t, `{"ping":1}`)); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

// testDeadline: a call ends with its context, by time or because it is
// cancelled, and its connection with it.
func testDeadline(t *testing.T, address string) {
	for _, cancelled := range []bool{false, true} {
		c := connect(t, client.Options{Address: address})
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		want := context.DeadlineExceeded
		if cancelled {
			ctx, stop = context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, stop)
			want = context.Canceled
		}
		// The server answers when its state changes, which it does not.
		waits := new(bson.Builder).Int32("hello", 1).Value("topologyVersion", c.Hello().Lookup("topologyVersion")).Int32("maxAwaitTimeMS", 60_000).Finish()
		if _, err := c.Run(ctx, "admin", waits); !errors.Is(err, want) {
			t.Errorf("cancelled %v: %v", cancelled, err)
		}
		stop()
		if _, err := c.Run(t.Context(), "admin", doc(t, `{"ping":1}`)); !errors.Is(err, want) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("a connection that lost an answer: %v", err)
		}
	}
}

// liar is a server that answers the hello, and then what it is told to.
func liar(t *testing.T, conf *tls.Config, answers ...func(*wire.Message) []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if conf != nil {
				nc = tls.Server(nc, conf)
			}
			go func() {
				defer nc.Close()
				r := wire.NewReader(nc)
				for _, answer := range append([]func(*wire.Message) []byte{says(`{"ok":1}`)}, answers...) {
					f, err := r.Next()
					if err != nil {
						return
					}
					m, err := wire.Parse(f)
					if err != nil {
						return
					}
					if _, err := nc.Write(answer(m)); err != nil {
						return
					}
				}
				_, _ = io.Copy(io.Discard, nc)
			}()
		}
	}()
	return l.Addr().String()
}

// says answers with a document.
func says(text string) func(*wire.Message) []byte {
	return func(m *wire.Message) []byte {
		d, err := bson.ParseJSON(text)
		if err != nil {
			panic(err)
		}
		b, err := m.Answer(1, d).Append(nil)
		if err != nil {
			panic(err)
		}
		return b
	}
}

// TestLiars: a server that breaks the protocol is found out, and no panic.
func TestLiars(t *testing.T) {
	wrongID := func(m *wire.Message) []byte { c := *m; c.RequestID += 7; return says(`{"ok":1}`)(&c) }
	for name, l := range map[string]struct {
		answer func(*wire.Message) []byte
		says   string
		broken bool
	}{
		"garbage":        {func(*wire.Message) []byte { return []byte("\x05\x00\x00\x00abcdefghijklmnop") }, "reading the answer", true},
		"another answer": {wrongID, "got a reply with opcode", true},
		"half an answer": {func(m *wire.Message) []byte { return says(`{"ok":1}`)(m)[:20] }, "", true},
		"an error":       {says(`{"ok":0,"errmsg":"no","code":112,"errorLabels":["a",1,"b"],"errInfo":{"x":1},"keyPattern":{"a":1}}`), "no", false},
		"no words":       {says(`{}`), "a failure without a message", false},
		"odd types":      {says(`{"ok":"x","errmsg":1,"code":"y"}`), "", false},
	} {
		c := connect(t, client.Options{Address: liar(t, nil, l.answer, says(`{"ok":1}`))})
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := c.Run(ctx, "d", doc(t, `{"ping":1}`))
		stop()
		if name != "odd types" && (err == nil || !strings.Contains(err.Error(), l.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if e := new(mongoerr.Error); name == "an error" && (!errors.As(err, &e) || e.Code != mongoerr.WriteConflict || len(e.Labels) != 2 || len(e.Info) == 0 || !bson.Doc(e.Extra).Has("keyPattern")) {
			t.Errorf("%s: %#v", name, err)
		}
		if _, err := c.Run(t.Context(), "d", doc(t, `{"ping":1}`)); (err != nil) != l.broken {
			t.Errorf("%s: and then %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no id": `{"ok":1,"cursor":{"ns":"d.c","firstBatch":[]}}`, "no batch": `{"ok":1,"cursor":{"id":{"$numberLong":"0"},"ns":"d.c"}}`,
		"no ns": `{"ok":1,"cursor":{"id":{"$numberLong":"0"},"firstBatch":[]}}`,
	} {
		c := connect(t, client.Options{Address: liar(t, nil, says(text))})
		if _, err := c.Open(t.Context(), "d", doc(t, `{"find":"c"}`)); err == nil {
			t.Errorf("a cursor with %s", name)
		}
	}
	for name, answers := range map[string][]string{
		"a server that knows no password": {`{"ok":1,"done":true,"conversationId":1,"payload":{"$binary":{"base64":"","subType":"00"}}}`},
		"a server without a payload":      {`{"ok":1,"done":true}`},
	} {
		var all []func(*wire.Message) []byte
		for _, a := range answers {
			all = append(all, says(a))
		}
		_, err := client.Connect(t.Context(), client.Options{Address: liar(t, nil, all...), Login: &client.Login{User: "u", Password: "p", Mechanism: auth.ScramSHA256}})
		if !mongoerr.Is(err, mongoerr.AuthenticationFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTLS: the server's certificate is checked against the host asked for.
func TestTLS(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
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
	address := liar(t, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}, says(`{"ok":1}`))
	c := connect(t, client.Options{Address: address, TLS: &tls.Config{RootCAs: pool}})
	if _, err := c.Run(t.Context(), "d", doc(t, `{"ping":1}`)); err != nil {
		t.Error(err)
	}
	for name, conf := range map[string]*tls.Config{"unknown": {}, "another host": {RootCAs: pool, ServerName: "elsewhere.example"}} {
		if _, err := client.Connect(t.Context(), client.Options{Address: address, TLS: conf}); err == nil {
			t.Errorf("%s: it connected", name)
		}
	}
}
