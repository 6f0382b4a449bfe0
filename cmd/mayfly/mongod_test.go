package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// as is mayfly started under another name.
func as(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := mayfly(t, args...)
	cmd.Args[0] = "/usr/bin/" + name
	return cmd
}

// TestAsMongod holds that under mongod's name the binary serves with mongod's options, from the
// command line and a file, and is asked for its version as one.
func TestAsMongod(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "mongod.conf")
	if err := os.WriteFile(file, []byte("storage:\n  dbPath: "+dir+"\nnet:\n  bindIp: 127.0.0.1\n  unixDomainSocket:\n    enabled: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runUntilItListens(t, as(t, "mongod", "--config", file, "--port", "0", "--noauth", "--storageEngine", "wiredTiger", "--quiet", "--setParameter", "ttlMonitorSleepSecs=1"))
	if reply := r.command(t, `{"hello": 1, "$db": "admin"}`); !reply.Lookup("isWritablePrimary").Bool() {
		t.Error(reply)
	}
	for name, first := range map[string]string{"mongod": "db version v8.0.", "mongos": "mongos version v8.0."} {
		out, err := as(t, name, "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), first) || !strings.Contains(string(out), `"mayfly": "`) {
			t.Errorf("%s --version: %v\n%s", name, err, out)
		}
	}
}

// TestAsMongodRefuses holds that what mongod has and this server has not is refused with the
// reason.
func TestAsMongodRefuses(t *testing.T) {
	for _, c := range []struct{ name, option, text string }{
		{"mongod", "--fork", "the server stays in the foreground"},
		{"mongod", "--storageEngine=inMemory", `"inMemory" is none of mayfly, wiredTiger`},
		{"mongod", "--serve", "unknown option"},
		{"mongos", "--dbpath=/nowhere", "a router has no data"},
		{"mongos", "--port=1", "a router needs --configdb"},
	} {
		cmd := as(t, c.name, c.option)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), c.text) {
			t.Errorf("%s %s: exit code %d, said %q; want 2, %q", c.name, c.option, cmd.ProcessState.ExitCode(), &stderr, c.text)
		}
	}
}
