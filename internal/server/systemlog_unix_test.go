//go:build unix

package server

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/bson"
)

// Events reach who listens as the system's log does, in one line each, and one that is larger than
// a datagram can be keeps none behind it.
func TestSystemLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	at, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	out, err := dialSystemLog("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.New(audit.Options{Output: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		b := make([]byte, 1<<20)
		n, err := at.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	tell := func(what string) {
		t.Helper()
		if err := log.Tell(nil, "createCollection", new(bson.Builder).String("ns", what).Finish(), 0); err != nil {
			t.Fatal(err)
		}
	}
	tell("d.c")
	line := next() // of the facility authpriv, 10, and the severity info, 6
	if !strings.HasPrefix(line, "<86>") || !strings.Contains(line, " mayfly[") || !strings.HasSuffix(line, "\n") {
		t.Errorf("%q", line)
	}
	_, text, _ := strings.Cut(line, "]: ")
	if d, err := bson.ParseJSON(strings.TrimSpace(text)); err != nil || d.Lookup("atype").Str() != "createCollection" || d.Lookup("param").Doc().Lookup("ns").Str() != "d.c" {
		t.Errorf("%v: %q", err, text)
	}
	tell(strings.Repeat("x", 8<<20))
	if line := next(); len(line) > 2*maxSystemLine || !strings.Contains(line, `"atype":"createCollection"`) || !strings.Contains(line, "... cut, of 838") {
		t.Errorf("%d bytes: %.300q", len(line), line)
	}
	tell("d.e")
	if line := next(); !strings.Contains(line, "d.e") {
		t.Errorf("%q", line)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
