package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// demoSessions is how many sample documents the demo keeps.
	demoSessions = 1000
	// demoSpread is the time over which they expire.
	demoSpread = 75 * time.Second
	// demoPort is where the demo's server listens.
	demoPort = 27017
	// demoDirectory is its data directory.
	demoDirectory = "data/demo"
	// demoDB and demoCollection are where the sessions are.
	demoDB, demoCollection = "demo", "sessions"
	// demoStart is how long the server may take until it answers.
	demoStart = 30 * time.Second
)

const demoUsage = `Usage: mayfly demo [--replSet | --cluster]

Runs a server on port 27017 of this machine with sessions that expire over the next
minute or so, and shows how many live and how many are gone, until Ctrl-C.

  --replSet   run a replica set of three members instead, and kill its primary
  --cluster   run config servers, three shards and a router instead, and move sessions
              between the shards

Data and logs go to data/demo, data/demo-replset or data/demo-cluster.
`

// demo runs a server on embedded storage with sessions that expire over the
// next minute or so, and shows how many live and how many went; with --replSet three
// members of a replica set, with --cluster a cluster.
func demo(args []string) int {
	var set, cluster bool
	f := flag.NewFlagSet("mayfly demo", flag.ContinueOnError)
	f.BoolVar(&set, "replSet", false, "run a replica set")
	f.BoolVar(&cluster, "cluster", false, "run a cluster")
	if code, ok := parse(f, demoUsage, args); !ok {
		return code
	}
	run := runDemo
	switch {
	case set && cluster:
		return misused(f, demoUsage, "--replSet and --cluster cannot be set together")
	case set:
		run = runDemoSet
	case cluster:
		run = runDemoCluster
	}
	// If the demo loses its reader or its terminal, what it has started ends, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "mayfly demo: %v\n", err)
		return config.ExitBadOptions
	}
	return config.ExitClean
}

func runDemo(ctx context.Context) error {
	if err := os.MkdirAll(demoDirectory, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.CommandContext(ctx, self, "serve", "--port", strconv.Itoa(demoPort), "--dbpath", demoDirectory,
		"--logpath", demoDirectory+"/server.log", "--setParameter", "ttlMonitorSleepSecs=1")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	shown := make(chan error, 1)
	go func() { shown <- showDemo(ctx) }()
	select {
	case err = <-ended:
		return fmt.Errorf("the server stopped (see %s/server.log): %w", demoDirectory, err)
	case err = <-shown:
		_ = server.Cancel()
		<-ended
		return err
	}
}

func showDemo(ctx context.Context) error {
	c, err := askDemo(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := fillDemo(ctx, c); err != nil {
		return err
	}
	fmt.Printf("\nMayfly is running. %d sessions expire over the next %s. Look at them:\n\n  %s mongodb://127.0.0.1:%d/%s\n\n", demoSessions, demoSpread, demoShell(), demoPort, demoDB)
	for {
		reply, err := c.Run(ctx, demoDB, new(bson.Builder).String("count", demoCollection).Doc("query", bson.Empty).Finish())
		if err != nil {
			return err
		}
		live := bson.ClampToInt64(reply.Lookup("n"))
		fmt.Printf("%s  %4d live, %4d gone\n", time.Now().Format(time.TimeOnly), live, demoSessions-live)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

// askDemo connects to the demo's server, which may not listen yet.
func askDemo(ctx context.Context) (*client.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, demoStart)
	defer cancel()
	for {
		c, err := client.Connect(limited, client.Options{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(demoPort)), AppName: "mayfly demo"})
		if err == nil {
			return c, nil
		}
		select {
		case <-limited.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fillDemo makes the collection of sessions anew.
func fillDemo(ctx context.Context, c *client.Conn) error {
	index := new(bson.Builder).OpenDoc("key").Int32("expiresAt", 1).Close().String("name", "expiresAt_1").Int32("expireAfterSeconds", 0).Finish()
	docs := make([]bson.Doc, demoSessions)
	for i := range docs {
		at := time.Now().Add(time.Duration(rand.Int64N(int64(demoSpread))))
		docs[i] = new(bson.Builder).Int32("_id", int32(i)).String("user", fmt.Sprintf("user%d", i%50)).Date("expiresAt", at.UnixMilli()).Finish()
	}
	for _, step := range []struct {
		command   bson.Doc
		sequences []wire.Sequence
	}{
		{command: new(bson.Builder).String("drop", demoCollection).Finish()},
		{command: new(bson.Builder).String("createIndexes", demoCollection).OpenArray("indexes").Doc("0", index).Close().Finish()},
		{new(bson.Builder).String("insert", demoCollection).Finish(), []wire.Sequence{wire.NewSequence("documents", docs...)}},
	} {
		reply, err := c.Run(ctx, demoDB, step.command, step.sequences...)
		if err != nil {
			return err
		}
		if failed := reply.Lookup("writeErrors"); !failed.IsMissing() {
			return fmt.Errorf("the sample data was refused: %s", failed)
		}
	}
	return nil
}
