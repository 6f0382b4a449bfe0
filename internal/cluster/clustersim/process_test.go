package clustersim

import (
	"context"
	"fmt"
	"github.com/mayflydb/mayfly/internal/catalog"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/server"
	"github.com/mayflydb/mayfly/internal/storage"
)

// process is a server or a router on a machine of its own, with a disk that survives it.
type process struct {
	t     *testing.T
	net   *network
	name  string
	args  []string
	fs    *storage.MemFS // nil for a router
	wrap  func(*life, server.Dispatcher) server.Dispatcher
	life  *life
	lives sync.WaitGroup // of those that have been killed, too
	logs  string

	skew struct {
		sync.Mutex
		by time.Duration
	}
}

// life is a process from its start to its end.
type life struct {
	dead   bool // under the network's lock
	server *server.Server
}

const port = "27017"

func (p *process) address() string { return p.name + ":" + port }

// start starts the process, and returns when it serves.
func (p *process) start() {
	in := config.Input{Args: append([]string{"--nounixsocket", "--port", port, "--logpath", p.logs + "/" + p.name + ".log", "--logappend"}, p.args...), Router: p.fs == nil}
	open := server.AssembleRouter
	if p.fs != nil {
		in.Args = append(in.Args, "--dbpath", p.logs, "--advertise", p.address())
		open = server.Assemble
	}
	o, err := config.Load(in)
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := server.OpenLog(o.Log)
	if err != nil {
		p.t.Fatal(err)
	}
	l := &life{}
	l.server = server.New(o, log, func(ctx context.Context, s *server.Server) (*server.App, error) {
		app, err := open(ctx, s)
		if err == nil && p.wrap != nil {
			app.Dispatcher = p.wrap(l, app.Dispatcher)
		}
		return app, err
	})
	l.server.Guest = true
	l.server.Network = server.Network{
		Listener: p.net.listen(p.address()),
		Dial:     func(ctx context.Context, to string) (net.Conn, error) { return p.net.dial(ctx, p.name, l, to) },
	}
	if p.fs != nil {
		l.server.FS = p.fs
		l.server.Clock = catalog.NewClock(func() time.Time {
			p.skew.Lock()
			defer p.skew.Unlock()
			return time.Now().Add(p.skew.by)
		})
	}
	p.life = l
	p.lives.Go(func() {
		if err := l.server.Run(context.Background()); err != nil {
			buf := make([]byte, 1<<22)
			panic(fmt.Sprintf("%s does not end: %v\n%s", p.name, err, buf[:runtime.Stack(buf, true)]))
		}
		_ = log.Close()
	})
	<-l.server.Ready()
}

// crash ends the process, and its machine with it: what was not synced stays on its disk by
// chance, in percent.
func (p *process) crash(percent int, rng *rand.Rand) {
	if p.fs != nil {
		p.fs = p.fs.Crash(percent, rng)
	}
	p.net.kill(p.name, p.address(), p.life)
	p.life.server.Stop() // what is left of it reaches nobody, and writes to a disk that is none any more
}

// end stops the process and waits for all of its lives.
func (p *process) end() {
	p.life.server.Stop()
	p.lives.Wait()
}

func (p *process) isAlive(l *life) bool {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return !l.dead
}

// jump moves the clock of the process.
func (p *process) jump(by time.Duration) {
	p.skew.Lock()
	defer p.skew.Unlock()
	p.skew.by = by
}
