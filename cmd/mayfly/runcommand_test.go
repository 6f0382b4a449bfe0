package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestRunCommand holds that one command is run, that a failure is told from a server that does
// not answer, and that a failure can be expected.
func TestRunCommand(t *testing.T) {
	r := startServer(t, t.TempDir())
	uri := fmt.Sprintf("mongodb://127.0.0.1:%d/?directConnection=true", r.port)
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"--uri", uri, `{"hello": 1}`}, 0, `"isWritablePrimary":true`},
		{[]string{"--uri", uri, "--db", "shop", `{"insert": "c", "documents": [{"_id": 1}]}`}, 0, `"n":1`},
		{[]string{"--uri", uri, `{"replSetInitiate": 1}`}, 1, "(76)"},
		{[]string{"--uri", uri, "--accept", "76", `{"replSetInitiate": 1}`}, 0, "(76)"},
		{[]string{"--uri", "mongodb://127.0.0.1:1/", "--wait", "1ms", `{"hello": 1}`}, 100, "refused"},
		{[]string{"--uri", uri, "hello"}, 2, "extended JSON"},
		{[]string{"--uri", "http://127.0.0.1/", `{"hello": 1}`}, 2, "mongodb://"},
		{nil, 2, "extended JSON"},
		{[]string{"--uri=mongodb://user:secret@127.0.0.1/"}, 2, "extended JSON"},
		{[]string{"mongodb://user:secret@127.0.0.1/"}, 2, "extended JSON"},
		{[]string{"mongodb://user:secret@127.0.0.1/", `{"hello": 1}`}, 2, "mongodb://…"},
		{[]string{"--help"}, 0, "Usage: mayfly run"},
	} {
		cmd := mayfly(t, append([]string{"run"}, c.args...)...)
		out, _ := cmd.CombinedOutput() // the code below says it
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.out) || strings.Contains(string(out), "secret") {
			t.Errorf("mayfly run %q: exit code %d, want %d and %q:\n%s", c.args, got, c.code, c.out, out)
		}
	}
}
