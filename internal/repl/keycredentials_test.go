package repl

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Members that share a key make a set; who has another one, or none, is not let in and
// lets nobody in.
func TestKeyOfMembers(t *testing.T) {
	ms := newMachines(t)
	ms.key = []byte("c2VjcmV0")
	a, b := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS())
	ms.key = []byte("b3RoZXI=")
	c := ms.member("c:1", storage.NewMemFS())
	ms.key = nil
	d := ms.member("d:1", storage.NewMemFS())
	config := func(host string) *Config {
		return &Config{Set: "rs0", Version: 1, Election: time.Second, Members: []MemberConfig{{ID: 0, Host: "a:1", Priority: 1, Votes: 1}, {ID: 1, Host: host, Priority: 1, Votes: 1}}}
	}
	for _, stranger := range []string{"c:1", "d:1"} {
		if err := a.Initiate(t.Context(), config(stranger)); !mongoerr.Is(err, mongoerr.NodeNotFound) {
			t.Errorf("with %s: %v", stranger, err)
		}
	}
	for _, stranger := range []*process{c, d} {
		if _, err := stranger.net.Identify(t.Context(), "a:1", 0, [12]byte{7}); !mongoerr.Is(err, mongoerr.NodeNotFound) {
			t.Errorf("%s was told: %v", stranger.Host(), err)
		}
	}
	if err := a.Initiate(t.Context(), config("b:1")); err != nil {
		t.Fatal(err)
	}
	until(t, "b votes", func() bool { s := b.State(); me := s.Config.Member(s.ID); return me != nil && me.Voter() })
	for _, p := range []*process{a, b, c, d} {
		p.kill()
	}
}

// What a server is sent by somebody without the key ends the connection: garbage, a
// wrong proof, the server's own proof sent back, and nothing at all.
func TestKeyRefused(t *testing.T) {
	k := newKeys([]string{"key"})
	for name, client := range map[string]func(net.Conn){
		"garbage":   func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("PRI "), 20)) },
		"too short": func(c net.Conn) { _, _ = c.Write([]byte(KeyPreface)) },
		"a wrong proof": func(c net.Conn) {
			_, _, err := newKeys([]string{"other"}).ClientHandshake(t.Context(), "", c)
			if !errors.Is(err, errKey) {
				t.Errorf("the client takes the server: %v", err)
			}
		},
		"the proof sent back": func(c net.Conn) {
			_, _ = c.Write(append([]byte(KeyPreface), make([]byte, keyNonce)...))
			answer := make([]byte, 64)
			_, _ = io.ReadFull(c, answer)
			_, _ = c.Write(answer[32:])
		},
	} {
		client0, server0 := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); client(client0); client0.Close() }()
		if _, _, err := k.ServerHandshake(server0); err == nil {
			t.Errorf("%s is let in", name)
		}
		server0.Close()
		<-done
	}
}

// While a key takes the place of another, whoever has one in common is let in, whichever of
// theirs comes first.
func TestKeysRotate(t *testing.T) {
	for _, c := range []struct {
		client, server []string
		in             bool
	}{
		{[]string{"old"}, []string{"old", "new"}, true}, {[]string{"new"}, []string{"old", "new"}, true},
		{[]string{"old", "new"}, []string{"old"}, true}, {[]string{"old", "new"}, []string{"new"}, true},
		{[]string{"old", "new"}, []string{"new", "old"}, true}, {[]string{"old", "new"}, []string{"old", "new"}, true},
		{[]string{"old"}, []string{"new"}, false}, {[]string{"old", "older"}, []string{"new", "newer"}, false},
	} {
		client, server := net.Pipe()
		refused := make(chan error)
		go func() {
			_, _, err := newKeys(c.client).ClientHandshake(t.Context(), "", client)
			if err != nil {
				_ = client.Close() // as gRPC does
			}
			refused <- err
		}()
		_, _, err := newKeys(c.server).ServerHandshake(server)
		if err != nil {
			_ = server.Close()
		}
		if other := <-refused; (err == nil) != c.in || (other == nil) != c.in {
			t.Errorf("%v at %v: %v, %v", c.client, c.server, other, err)
		}
	}
}
