package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/server"
)

// router runs a router until it is asked to stop.
func router(args []string) int {
	o, err := config.Load(config.Input{Argv: os.Args, Args: args, Env: os.Environ(), CheckParameter: server.CheckRouterParameter, Router: true})
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Print("Usage: mayfly router --configdb set/host:port,host:port [options]\n\n", config.Help())
		return config.ExitClean
	case errors.Is(err, config.ErrVersion):
		return version(nil)
	case err != nil:
		fmt.Fprintf(os.Stderr, "mayfly: cannot start with these options:\n%v\n", err)
		return config.ExitBadOptions
	}
	code, err := server.Main(context.Background(), o, server.AssembleRouter)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mayfly: %v\n", err)
	}
	return code
}
