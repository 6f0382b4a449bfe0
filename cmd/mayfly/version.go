package main

import (
	"flag"
	"fmt"
	"runtime"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/process"
)

const versionUsage = `Usage: mayfly version

Prints the version, the commit of a released binary, the version of MongoDB that it
behaves as, and the platform.
`

func version(args []string) int {
	if code, ok := parse(flag.NewFlagSet("mayfly version", flag.ContinueOnError), versionUsage, args); !ok {
		return code
	}
	built := ""
	if config.Revision != "" {
		built = "revision " + config.Revision + ", "
	}
	fmt.Printf("mayfly %s (%sbehaves as MongoDB %s, %s %s/%s)\n", config.Version, built, process.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return config.ExitClean
}
