package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/server"
)

// serve runs a server until it is asked to stop.
func serve(args []string) int {
	return runServer("mayfly serve [options]", version, config.Input{Args: args, CheckParameter: server.CheckParameter}, server.Assemble)
}

// router runs a router until it is asked to stop.
func router(args []string) int {
	return runServer("mayfly router --configdb set/host:port,host:port [options]", version,
		config.Input{Args: args, CheckParameter: server.CheckRouterParameter, Router: true}, server.AssembleRouter)
}

// runServer runs what open opens with the options of in, and returns the exit code. version is
// what --version runs.
func runServer(usage string, version subcommandFunc, in config.Input, open server.Open) int {
	in.Argv, in.Env = os.Args, os.Environ()
	o, err := config.Load(in)
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Printf("Usage: %s\n\n%s", usage, config.Help(in.Router))
		return config.ExitClean
	case errors.Is(err, config.ErrVersion):
		return version(nil)
	case err != nil:
		fmt.Fprintf(os.Stderr, "mayfly: cannot start with these options:\n%v\n", err)
		return config.ExitBadOptions
	}
	code, err := server.Main(context.Background(), o, open)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mayfly: %v\n", err)
	}
	return code
}
