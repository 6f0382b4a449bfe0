package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// A server with two keys lets in members that have either, and a member with two keys gets in
// where one of them is known.
func TestTwoKeys(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const old, next, other = "b2xka2V5b2xk", "bmV3a2V5bmV3", "b3RoZXJvdGhlcg"
	both := servertest.Start(t, "--keyFile", file("- "+old+"\n- "+next+"\n"))
	one := servertest.Start(t, "--keyFile", file(next))
	for _, c := range []struct {
		at   *servertest.Server
		keys []string
		in   bool
	}{
		{both, []string{old}, true}, {both, []string{next}, true}, {both, []string{other}, false}, {both, []string{next, old}, true},
		{one, []string{old, next}, true}, {one, []string{next, old}, true}, {one, []string{old}, false}, {one, []string{old, other}, false},
	} {
		conn, err := client.Connect(t.Context(), client.Options{Address: c.at.Address, Login: client.Member(c.keys)})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != c.in {
			t.Errorf("%v: %v", c.keys, err)
		}
	}
}
