// Command mayfly-bench measures a server, bin/mayfly next to it, and PostgreSQL
// and Pebble in the same run, and prints a table (docs/perf). It is a separate
// binary, as the server needs none of the drivers that it uses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/mayflydb/mayfly/internal/bench"
	"github.com/mayflydb/mayfly/internal/config"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	o := bench.Default()
	f := flag.NewFlagSet("mayfly-bench", flag.ContinueOnError)
	f.StringVar(&o.Rows, "rows", "", "the rows to measure, separated by commas: "+strings.Join(bench.RowNames(), ", ")+" (default all)")
	f.BoolFunc("small", "small sizes, to try the rows; options after it change them", func(string) error {
		o.Small()
		return nil
	})
	f.Func("clients", "the numbers of clients, separated by commas (default 1,8)", func(s string) (err error) {
		o.Clients, err = parseClients(s)
		return err
	})
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long each row runs on each system")
	f.Int64Var(&o.Documents, "documents", o.Documents, "how many documents the rows work on")
	f.Int64Var(&o.ExpiryDocuments, "expiry-documents", o.ExpiryDocuments, "how many documents the row expiry removes")
	f.Int64Var(&o.AnalysisDocuments, "analysis-documents", o.AnalysisDocuments, "how many orders the rows of analysis ask about")
	f.Int64Var(&o.Items, "items", o.Items, "how many items the rows of the Cosmos DB endpoint work on")
	f.StringVar(&o.CosmosLoad, "cosmos-load", "", "the program that sends requests to the Cosmos DB endpoint (default cosmosload next to this one)")
	f.IntVar(&o.ExpiryReads, "expiry-reads", o.ExpiryReads, "how many reads a second run during the row expiry")
	f.Int64Var(&o.PointDocuments, "point-documents", o.PointDocuments, "how many documents the row points chooses from")
	f.Int64Var(&o.RelayoutDocuments, "relayout-documents", o.RelayoutDocuments, "how many documents the row relayout moves to another layout")
	f.Int64Var(&o.ShardedDocuments, "sharded-documents", o.ShardedDocuments, "how many documents the rows of a cluster move and spread, and how many chunks shardedTarget has")
	f.Int64Var(&o.LiveDocuments, "live-documents", o.LiveDocuments, "how many documents the row expiryLive begins with; half of them go")
	f.Int64Var(&o.ShapeDocuments, "shape-documents", o.ShapeDocuments, "how many documents the rows expiryLog, expiryTouched and expiryOwn begin with; half of them go")
	f.Int64Var(&o.SeriesReadings, "readings", o.SeriesReadings, "how many readings the rows of time series have, of 1000 sensors")
	f.StringVar(&o.Readings, "readings-file", "", "the real readings that they are made of (default seattle-weather-hourly-normals.csv next to this program)")
	f.Float64Var(&o.CacheGB, "cache", o.CacheGB, "the cache of the server and of Pebble, in GiB")
	f.Func("set-parameter", "a parameter of the server, name=value; repeat it for more", func(s string) error {
		o.SetParameters = append(o.SetParameters, s)
		return nil
	})
	f.BoolVar(&o.Postgres, "postgres", o.Postgres, "also measure PostgreSQL")
	f.BoolVar(&o.Pebble, "pebble", o.Pebble, "also measure plain Pebble")
	f.BoolVar(&o.Wire, "wire", o.Wire, "also measure an exchange of the same bytes")
	f.BoolVar(&o.Hollow, "hollow", o.Hollow, "also measure the driver against a server that has every answer ready")
	f.BoolVar(&o.Redis, "redis", o.Redis, "also measure how fast Redis expires keys")
	f.StringVar(&o.ProfileDir, "profile", "", "a directory for processor profiles of the server, one for each row")
	f.StringVar(&o.Binary, "server", "", "the server to measure (default mayfly next to this program)")
	f.StringVar(&o.Dir, "dir", "", "the directory for the data (default that for temporary files)")
	port := f.Int("wire-server", 0, "serve -wire on this port (the benchmark starts it itself)")
	hollow := f.Int("hollow-server", 0, "serve -hollow on this port (the benchmark starts it itself)")
	hollowCosmos := f.Int("hollow-cosmos", 0, "serve -hollow for the rows of the Cosmos DB endpoint on this port (the benchmark starts it itself)")
	forwarder := f.Int("forwarder", 0, "forward connections to this port to -forward-to (the benchmark starts it itself)")
	forwardTo := f.Int("forward-to", 0, "the port to which -forwarder forwards")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return config.ExitClean
	case err != nil:
		return config.ExitBadOptions
	}
	if *port != 0 {
		return benchEnd(bench.ServeWire(*port))
	}
	if *hollow != 0 {
		return benchEnd(bench.ServeHollow(*hollow))
	}
	if *hollowCosmos != 0 {
		return benchEnd(bench.ServeHollowCosmos(*hollowCosmos))
	}
	if *forwarder != 0 {
		return benchEnd(bench.ServeForwarder(*forwarder, *forwardTo))
	}
	self, err := os.Executable()
	if err != nil {
		return benchEnd(err)
	}
	o.Self, o.Out = self, os.Stdout
	if o.Binary == "" {
		o.Binary = filepath.Join(filepath.Dir(self), "mayfly")
	}
	if o.Readings == "" {
		o.Readings = filepath.Join(filepath.Dir(self), "seattle-weather-hourly-normals.csv")
	}
	if o.CosmosLoad == "" {
		o.CosmosLoad = filepath.Join(filepath.Dir(self), "cosmosload")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return benchEnd(bench.Run(ctx, o))
}

func benchEnd(err error) int {
	if err == nil {
		return config.ExitClean
	}
	fmt.Fprintf(os.Stderr, "mayfly-bench: %v\n", err)
	return config.ExitBadOptions
}

func parseClients(s string) (clients []int, err error) {
	for c := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(c)
		if err != nil {
			return nil, err
		}
		clients = append(clients, n)
	}
	return clients, nil
}
