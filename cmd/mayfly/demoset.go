package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
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
)

// demoSet is the set of the demo.
type demoSet []*demoProcess

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
	ports, err := demoPorts(demoPort, demoSetMembers)
	if err != nil {
		return err
	}
	for i, port := range ports {
		dir := filepath.Join(demoSetDirectory, strconv.Itoa(i))
		m := &demoProcess{name: "member " + strconv.Itoa(i), port: port, log: dir + ".log",
			args: []string{"serve", "--replSet", demoSetName, "--dbpath", dir, "--setParameter", "ttlMonitorSleepSecs=1"}}
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
	c, err := p.connect(ctx)
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
	return retryDemo(ctx, s, func() error {
		_, err := s[0].ask(ctx, "admin", command)
		return err
	})
}

// primary is the member that takes writes, another one than not.
func (s demoSet) primary(ctx context.Context, not *demoProcess) (p *demoProcess, err error) {
	hello := new(bson.Builder).Int32("hello", 1).Finish()
	return p, retryDemo(ctx, s, func() error {
		for _, m := range s {
			if m == not || m.cmd == nil {
				continue
			}
			if reply, err := m.ask(ctx, "admin", hello); err == nil && reply.Lookup("isWritablePrimary").Truthy() {
				p = m
				return nil
			}
		}
		return errors.New("no member is primary")
	})
}

// introduce says what there is to see.
func (s demoSet) introduce() {
	var hosts []string
	for _, m := range s {
		hosts = append(hosts, m.host())
	}
	fmt.Printf("\nMayfly is running as a replica set on %s. %d sessions expire over the next %s. Look at them and at rs.status():\n\n  %s \"mongodb://%s/%s?replicaSet=%s\"\n\nIn a moment the primary will be killed.\n\n",
		strings.Join(hosts, ", "), demoSessions, demoSpread, demoShell(), strings.Join(hosts, ","), demoDB, demoSetName)
}

// show prints what is in the set every second, and meanwhile kills the primary and
// brings it back.
func (s demoSet) show(ctx context.Context) error {
	begun := time.Now()
	var killed *demoProcess
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
			demoLine("the member that was killed starts again on %s", killed.host())
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
func (s demoSet) kill(ctx context.Context, p *demoProcess) error {
	demoLine("kill -9 of the primary %s", p.host())
	p.end(syscall.SIGKILL)
	died := time.Now()
	next, err := s.primary(ctx, p)
	if err != nil {
		return err
	}
	demoLine("%s is primary after %.1f s", next.host(), time.Since(died).Seconds())
	return nil
}

// line prints how many sessions live, and what each member is.
func (s demoSet) line(ctx context.Context, p *demoProcess) {
	c, err := p.ask(ctx, "admin", new(bson.Builder).Int32("replSetGetStatus", 1).Finish())
	if err != nil {
		return
	}
	var states []string
	for v := range c.Lookup("members").Doc().Values() {
		d := v.Doc()
		_, port, _ := net.SplitHostPort(d.Lookup("name").Str())
		states = append(states, port+" "+d.Lookup("stateStr").Str())
	}
	reply, err := p.ask(ctx, demoDB, new(bson.Builder).String("count", demoCollection).Doc("query", bson.Empty).Finish())
	if err != nil {
		return
	}
	live := bson.ClampToInt64(reply.Lookup("n"))
	demoLine("%4d live, %4d gone; %s", live, demoSessions-live, strings.Join(states, ", "))
}
