package hosts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var proxied = flag.Bool("hosts.proxies", false, "run servers behind proxies, as where there are no namespaces")

// insideNamespace marks the test's own process in namespaces of its own; it says where
// the directory of temporary files was before.
const insideNamespace = "MAYFLY_TEST_HOSTS"

// Inside runs the test again in namespaces of its own for network and mounts, so that all
// that it makes is gone with the process. It says whether this is that process, or the
// system does not let it: then the test goes on.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideNamespace) != "" || *proxied {
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$"}
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "test.run" && f.Name != "test.testlogfile" {
			args = append(args, fmt.Sprintf("-%s=%v", f.Name, f.Value))
		}
	})
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), insideNamespace+"="+os.TempDir(), "TMPDIR="+t.TempDir(), "MAYFLY_BIN="+testkit.Binary(t))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // its end would be taken for this process's
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Logf("no namespaces here, but proxies: %v", err)
		return true
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return false
}

// LogDirectory is where the output of members is kept when the test fails.
func LogDirectory() string {
	if dir := os.Getenv(insideNamespace); dir != "" {
		return dir
	}
	return os.TempDir()
}

// newNetwork is the best network that can be had.
func newNetwork(t *testing.T, n int) Network {
	t.Helper()
	if os.Getenv(insideNamespace) == "" {
		return newProxies(t, n)
	}
	h, err := newHosts(n)
	if err != nil {
		t.Logf("no hosts here, but proxies: %v", err)
		if err := loopback(); err != nil {
			t.Fatal(err)
		}
		return newProxies(t, n)
	}
	return h
}
