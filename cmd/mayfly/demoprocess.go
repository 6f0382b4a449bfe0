package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// demoAsk is how long a process of the demo may take to answer.
	demoAsk = 2 * time.Second
	// demoRetry is the pause between two tries.
	demoRetry = 50 * time.Millisecond
)

// demoProcess is a process of a demo that has several.
type demoProcess struct {
	name string // "s0"
	port int
	log  string   // its log file
	args []string // what kind of server, and its own options

	cmd   *exec.Cmd // nil while it does not run
	ended chan struct{}
}

func (p *demoProcess) host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// start starts the process.
func (p *demoProcess) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.cmd = exec.Command(self, append(p.args, "--port", strconv.Itoa(p.port), "--bind_ip", "127.0.0.1", "--nounixsocket", "--logpath", p.log, "--logappend")...)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	ended, cmd := make(chan struct{}), p.cmd
	go func() {
		_ = cmd.Wait() // whoever ends it knows why; else alive says so
		close(ended)
	}()
	p.ended = ended
	return nil
}

// end ends the process by a signal and waits for it.
func (p *demoProcess) end(s os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
		<-p.ended
		p.cmd = nil
	}
}

// alive is an error if the process has ended by itself.
func (p *demoProcess) alive() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.ended:
		return fmt.Errorf("%s stopped: see %s", p.name, p.log)
	default:
		return nil
	}
}

// ask runs a command on the process.
func (p *demoProcess) ask(ctx context.Context, db string, command bson.Doc, sequences ...wire.Sequence) (bson.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, demoAsk)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Address: p.host(), AppName: "mayfly demo"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Run(ctx, db, command, sequences...)
}

// connect is a connection to the process, which may not listen yet.
func (p *demoProcess) connect(ctx context.Context) (c *client.Conn, err error) {
	return c, retryDemo(ctx, []*demoProcess{p}, func() error {
		c, err = client.Connect(ctx, client.Options{Address: p.host(), AppName: "mayfly demo"})
		return err
	})
}

// retryDemo tries something until it succeeds, for as long as servers may take to start,
// and as long as these live.
func retryDemo(ctx context.Context, all []*demoProcess, f func() error) error {
	for end := time.Now().Add(demoStart); ; {
		err := f()
		for _, p := range all {
			if dead := p.alive(); dead != nil && ctx.Err() == nil {
				return dead
			}
		}
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(demoRetry):
		}
	}
}

// demoPorts are n ports that nobody listens on: those from first on, or any where one of
// these is in use.
func demoPorts(first, n int) ([]int, error) {
	ports, err := listenable(n, func(i int) int { return first + i })
	if err != nil {
		ports, err = listenable(n, func(int) int { return 0 })
	}
	return ports, err
}

// listenable are n ports that can be listened on at once; port 0 stands for any.
func listenable(n int, port func(i int) int) (ports []int, err error) {
	for i := range n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port(i))))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// demoShell is how the shell is started.
func demoShell() string {
	if _, err := exec.LookPath("mongosh"); err != nil {
		return "npx --yes mongosh"
	}
	return "mongosh"
}

// demoLine prints a line with the time.
func demoLine(format string, args ...any) {
	fmt.Println(time.Now().Format(time.TimeOnly) + "  " + fmt.Sprintf(format, args...))
}
