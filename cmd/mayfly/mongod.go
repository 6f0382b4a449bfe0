package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/server"
)

// mongods are the names under which the binary takes another program's command line: scripts and
// test libraries that start a mongod need no change then.
var mongods = map[string]subcommandFunc{
	"mongod": func(args []string) int {
		return runServer("mongod [options]", versionAs("db"), config.Input{Args: args, CheckParameter: server.CheckParameter}, server.Assemble)
	},
	"mongos": func(args []string) int {
		return runServer("mongos --configdb set/host:port,host:port [options]", versionAs("mongos"),
			config.Input{Args: args, CheckParameter: server.CheckRouterParameter, Router: true}, server.AssembleRouter)
	},
}

// programName is the name of the program with that path.
func programName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// versionAs prints the version as mongod and mongos do, which say db and mongos in front of it.
func versionAs(what string) subcommandFunc {
	return func([]string) int {
		type environment struct {
			Go     string `json:"go"`
			OS     string `json:"target_os"`
			Target string `json:"target_arch"`
		}
		fmt.Printf("%s version v%s\nBuild Info: ", what, process.Version)
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "    ")
		_ = e.Encode(struct {
			Version     string      `json:"version"`
			GitVersion  string      `json:"gitVersion"`
			Mayfly      string      `json:"mayfly"`
			Modules     []string    `json:"modules"`
			Environment environment `json:"environment"`
		}{process.Version, process.GitVersion, config.Version, []string{}, environment{runtime.Version(), runtime.GOOS, runtime.GOARCH}}) // to a terminal that is gone
		return config.ExitClean
	}
}
