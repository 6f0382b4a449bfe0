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
	o, err := config.Load(config.Input{Argv: os.Args, Args: args, Env: os.Environ(), CheckParameter: server.CheckParameter})
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Print("Usage: mayfly serve [options]\n\n", config.Help())
		return config.ExitClean
	case errors.Is(err, config.ErrVersion):
		return version(nil)
	case err != nil:
		fmt.Fprintf(os.Stderr, "mayfly: cannot start with these options:\n%v\n", err)
		return config.ExitBadOptions
	}
	code, err := server.Main(context.Background(), o, server.Assemble)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mayfly: %v\n", err)
	}
	return code
}
