package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/config"
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
)

// demo runs a server on embedded storage with sessions that expire over the
// next minute or so, and shows how many live and how many went.
func demo([]string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runDemo(ctx); err != nil && ctx.Err() == nil {
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
		return fmt.Errorf("the server ended (see %s/server.log): %w", demoDirectory, err)
	case err = <-shown:
		_ = server.Cancel()
		<-ended
		return err
	}
}

func showDemo(ctx context.Context) error {
	uri := fmt.Sprintf("mongodb://127.0.0.1:%d/demo", demoPort)
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	c := client.Database("demo").Collection("sessions")
	if err := c.Drop(ctx); err != nil {
		return err
	}
	_, err = c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "expiresAt", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)})
	if err != nil {
		return err
	}
	docs := make([]any, demoSessions)
	for i := range docs {
		at := time.Now().Add(time.Duration(rand.Int64N(int64(demoSpread))))
		docs[i] = bson.D{{Key: "_id", Value: i}, {Key: "user", Value: fmt.Sprintf("user%d", i%50)}, {Key: "expiresAt", Value: at}}
	}
	if _, err := c.InsertMany(ctx, docs); err != nil {
		return err
	}
	shell := "mongosh"
	if _, err := exec.LookPath(shell); err != nil {
		shell = "npx --yes mongosh"
	}
	fmt.Printf("\nMayfly runs. %d sessions expire over the next %s. Look at them:\n\n  %s %s\n\n", demoSessions, demoSpread, shell, uri)
	for {
		live, err := c.CountDocuments(ctx, bson.D{})
		if err != nil {
			return err
		}
		fmt.Printf("%s  %4d live, %4d gone\n", time.Now().Format(time.TimeOnly), live, demoSessions-live)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}
