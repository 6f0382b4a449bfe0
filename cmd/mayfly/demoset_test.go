package main

import (
	"strings"
	"testing"
)

// TestDemoSet: the demo tells where its members are and how to look at them, kills the primary,
// goes on with another one, brings the first one back, and leaves no process behind when it
// is interrupted.
func TestDemoSet(t *testing.T) {
	killed, back := false, false
	hosts, text := watchDemo(t, "--replSet", "running as a replica set", func(line string) bool {
		enough := back
		killed = killed || strings.Contains(line, "is primary after")
		back = back || strings.Contains(line, "starts again on")
		return enough
	})
	if !killed || len(hosts) != demoSetMembers || !strings.Contains(text, "mongodb://"+strings.Join(hosts, ",")) {
		t.Errorf("it said:\n%s", text)
	}
}
