package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestDemoCluster: the demo tells where its servers are and how to look at them, moves
// ranges without a session lost, and leaves no process behind when it is interrupted.
func TestDemoCluster(t *testing.T) {
	moved, third := 0, regexp.MustCompile(`s2 +[1-9]`)
	hosts, text := watchDemo(t, "--cluster", "running as a cluster", func(line string) bool {
		if strings.Contains(line, "have moved") {
			moved++
			return false
		}
		return moved == 2 && third.MatchString(line)
	})
	if len(hosts) != demoClusterShards+2 || !strings.Contains(text, "mongosh mongodb://"+hosts[len(hosts)-1]) {
		t.Errorf("it said:\n%s", text)
	}
}
