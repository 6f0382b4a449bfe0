package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/config"
)

// watchDemo runs a demo until read, which gets each line that it prints, says that it has seen
// enough; then it is interrupted. It must end in order, and leave no process behind. watchDemo
// returns the hosts of the line that has begins, and all text.
func watchDemo(t *testing.T, kind, begins string, read func(line string) (enough bool)) (hosts []string, text string) {
	t.Helper()
	cmd := mayfly(t, "demo", kind)
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	interrupted := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&all, line)
		if strings.Contains(line, begins) {
			hosts = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindAllString(line, -1)
		}
		if !interrupted && read(line) {
			interrupted = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || cmd.ProcessState.ExitCode() != config.ExitClean {
		t.Errorf("the demo ended with %v", err)
	}
	if !interrupted {
		t.Error("the demo ended by itself")
	}
	for _, h := range hosts {
		if c, err := net.Dial("tcp", h); err == nil {
			_ = c.Close()
			t.Errorf("%s still answers", h)
		}
	}
	return hosts, all.String()
}
