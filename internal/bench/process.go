package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// startTimeout is how long a server may take until it answers.
	startTimeout = 60 * time.Second
	// ticksPerSecond is the unit of times in /proc (USER_HZ).
	ticksPerSecond = 100
)

// process is a server, a child process of the benchmark.
type process struct {
	cmd  *exec.Cmd
	out  *os.File
	done chan struct{} // closed when it has ended
}

// startProcess starts cmd, its output in a file called name in dir.
func startProcess(cmd *exec.Cmd, dir, name string) (*process, error) {
	out, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, err
	}
	p := &process{cmd: cmd, out: out, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
	}()
	return p, nil
}

// listening waits until something accepts connections on the port.
func (p *process) listening(ctx context.Context, port int) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		c, err := net.Dial("tcp", local(port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at once; see %s", p.cmd.Path, p.out.Name())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer; see %s", p.cmd.Path, p.out.Name())
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// freePort returns a port on which nothing listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", local(0))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// stop asks the process to end and waits for it.
func (p *process) stop(sig syscall.Signal) error {
	_ = p.cmd.Process.Signal(sig)
	<-p.done
	return p.out.Close()
}

// cpu is the processor time of the process, of the children it has waited for,
// and of those that still run.
func (p *process) cpu() (time.Duration, error) {
	pid := p.cmd.Process.Pid
	s, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	ticks := s.own + s.waited
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid { // one that has just ended is no error
			ticks += s.own
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// ownCPU is the processor time of this process.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// stat is a part of /proc/<pid>/stat (manual: proc(5)); times in ticks.
type stat struct {
	parent      int
	own, waited int64
}

func readStat(pid int) (s stat, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, err
	}
	// The command's name, in brackets, may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const parent, utime = 1, 11
	if len(fields) < utime+4 {
		return s, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	if s.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return s, err
	}
	var times [4]int64
	for i := range times {
		if times[i], err = strconv.ParseInt(string(fields[utime+i]), 10, 64); err != nil {
			return s, err
		}
	}
	s.own, s.waited = times[0]+times[1], times[2]+times[3]
	return s, nil
}
