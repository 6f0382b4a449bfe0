package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// demoSetName is the name of the replica set of the demo, and demoSetDirectory has
	// the directories of its members.
	demoSetName      = "demo"
	demoSetDirectory = "data/demo-replset"
	demoSetMembers   = 3
	// demoKillAfter is when the primary is killed, demoBackAfter how long it then stays
	// away.
	demoKillAfter = 8 * time.Second
	demoBackAfter = 8 * time.Second
	// demoAsk is how long a member of the demo may take to answer.
	demoAsk = 2 * time.Second
)

// demoMember is a member of the demo's set, a process of its own.
type demoMember struct {
	port int
	dir  string
	cmd  *exec.Cmd
}

func (m *demoMember) host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port)) }

// start starts the process.
func (m *demoMember) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.cmd = exec.Command(self, "serve", "--replSet", demoSetName, "--port", strconv.Itoa(m.port), "--bind_ip", "127.0.0.1", "--dbpath", m.dir,
		"--logpath", m.dir+".log", "--logappend", "--setParameter", "ttlMonitorSleepSecs=1")
	m.cmd.Stderr = os.Stderr
	return m.cmd.Start()
}

// end ends the process by a signal and waits for it.
func (m *demoMember) end(s os.Signal) {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(s)
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// ask runs a command on the member.
func (m *demoMember) ask(ctx context.Context, command bson.Doc, beside ...wire.Sequence) (bson.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, demoAsk)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Address: m.host(), AppName: "mayfly demo"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Run(ctx, "admin", command, beside...)
}

// demoSet is the set of the demo.
type demoSet []*demoMember

// runDemoSet runs three members on this machine, with sessions that expire, kills the
// primary and brings it back.
func runDemoSet(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(demoSetDirectory), os.MkdirAll(demoSetDirectory, 0o755)); err != nil {
		return err
	}
	var set demoSet
	defer func() {
		for _, m := range set {
			m.end(syscall.SIGTERM)
		}
	}()
	for i := range demoSetMembers {
		m := &demoMember{port: demoPort + i, dir: filepath.Join(demoSetDirectory, strconv.Itoa(i))}
		set = append(set, m)
		if err := m.start(); err != nil {
			return err
		}
	}
	if err := set.initiate(ctx); err != nil {
		return err
	}
	p, err := set.primary(ctx, nil)
	if err != nil {
		return err
	}
	c, err := client.Connect(ctx, client.Options{Address: p.host(), AppName: "mayfly demo"})
	if err != nil {
		return err
	}
	if err := errors.Join(fillDemo(ctx, c), c.Close()); err != nil {
		return err
	}
	set.introduce()
	return set.show(ctx)
}

// initiate makes a set of the members.
func (s demoSet) initiate(ctx context.Context) error {
	b := new(bson.Builder).OpenDoc("replSetInitiate").String("_id", demoSetName).OpenArray("members")
	for i, m := range s {
		b.OpenDoc(bson.Index(i)).Int32("_id", int32(i)).String("host", m.host()).Close()
	}
	command := b.Close().Close().Finish()
	return s.retry(ctx, func() error {
		_, err := s[0].ask(ctx, command)
		return err
	})
}

// retry tries something until it succeeds, for as long as a server may take to start.
func (s demoSet) retry(ctx context.Context, f func() error) error {
	for end := time.Now().Add(demoStart); ; {
		err := f()
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// primary is the member that takes writes, another one than not.
func (s demoSet) primary(ctx context.Context, not *demoMember) (p *demoMember, err error) {
	hello := new(bson.Builder).Int32("hello", 1).Finish()
	return p, s.retry(ctx, func() error {
		for _, m := range s {
			if m == not || m.cmd == nil {
				continue
			}
			if reply, err := m.ask(ctx, hello); err == nil && reply.Lookup("isWritablePrimary").Truthy() {
				p = m
				return nil
			}
		}
		return errors.New("no member is primary")
	})
}

// introduce says what there is to see.
func (s demoSet) introduce() {
	shell := "mongosh"
	if _, err := exec.LookPath(shell); err != nil {
		shell = "npx --yes mongosh"
	}
	var hosts []string
	for _, m := range s {
		hosts = append(hosts, m.host())
	}
	fmt.Printf("\nMayfly is running as a replica set on %s. %d sessions expire over the next %s. Look at them and at rs.status():\n\n  %s \"mongodb://%s/%s?replicaSet=%s\"\n\nIn a moment the primary will be killed.\n\n",
		strings.Join(hosts, ", "), demoSessions, demoSpread, shell, strings.Join(hosts, ","), demoDB, demoSetName)
}

// show prints what is in the set every second, and meanwhile kills the primary and
// brings it back.
func (s demoSet) show(ctx context.Context) error {
	begun := time.Now()
	var killed *demoMember
	var back time.Time
	for {
		p, err := s.primary(ctx, nil)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.line(ctx, p)
		switch {
		case killed == nil && time.Since(begun) > demoKillAfter:
			killed, back = p, time.Now().Add(demoBackAfter)
			if err := s.kill(ctx, p); err != nil {
				return err
			}
		case killed != nil && killed.cmd == nil && time.Now().After(back):
			fmt.Printf("%s  the member that was killed starts again on %s\n", time.Now().Format(time.TimeOnly), killed.host())
			if err := killed.start(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// kill kills the primary, as kill -9 does, and waits for the next one.
func (s demoSet) kill(ctx context.Context, p *demoMember) error {
	fmt.Printf("%s  kill -9 of the primary %s\n", time.Now().Format(time.TimeOnly), p.host())
	p.end(syscall.SIGKILL)
	died := time.Now()
	next, err := s.primary(ctx, p)
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s is primary after %.1f s\n", time.Now().Format(time.TimeOnly), next.host(), time.Since(died).Seconds())
	return nil
}

// line prints how many sessions live, and what each member is.
func (s demoSet) line(ctx context.Context, p *demoMember) {
	c, err := p.ask(ctx, new(bson.Builder).Int32("replSetGetStatus", 1).Finish())
	if err != nil {
		return
	}
	var states []string
	for v := range c.Lookup("members").Doc().Values() {
		d := v.Doc()
		_, port, _ := net.SplitHostPort(d.Lookup("name").Str())
		states = append(states, port+" "+d.Lookup("stateStr").Str())
	}
	conn, err := client.Connect(ctx, client.Options{Address: p.host(), AppName: "mayfly demo"})
	if err != nil {
		return
	}
	defer conn.Close()
	reply, err := conn.Run(ctx, demoDB, new(bson.Builder).String("count", demoCollection).Doc("query", bson.Empty).Finish())
	if err != nil {
		return
	}
	live := bson.ClampToInt64(reply.Lookup("n"))
	fmt.Printf("%s  %4d live, %4d gone; %s\n", time.Now().Format(time.TimeOnly), live, demoSessions-live, strings.Join(states, ", "))
}
