// Command mayfly is the database: `mayfly serve` runs a server. Each
// subcommand is one file, and listed in the table in main.go.
//
// Started under the name mongod or mongos it takes the options of those, without a subcommand
// (mongod.go).
//
// Start reading at serve.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mayflydb/mayfly/internal/config"
)

// subcommand is one thing that the binary does.
type subcommand struct {
	name, help string
	// run gets what follows the name and returns the exit code.
	run subcommandFunc
}

type subcommandFunc = func(args []string) int

var subcommands = []subcommand{
	{"serve", "run a server", serve},
	{"router", "run a router of a cluster", router},
	{"verify", "check a data directory without changing it", verify},
	{"backup", "add a backup of a running server to a repository; list, verify and prune them", takeBackup},
	{"restore", "make a data directory of a backup, as it was at any time", restore},
	{"archive", "bring archived documents back, or remove some from an archive", archiveTool},
	{"import", "insert the documents of a file into a collection, or all of a server into another", importAny},
	{"export", "write the documents of a collection to a file", exportFile},
	{"repair", "recover what can be read of a data directory into a new one", repair},
	{"rotatekey", "give an encrypted data directory another master key", rotateKey},
	{"doctor", "say what is wrong with a server, set or cluster, and what to do", examine},
	{"run", "run one command on a server, for health checks and scripts", runCommand},
	{"demo", "run a server, a replica set or a cluster with sample data that expires", demo},
	{"version", "print the version", version},
}

func main() { os.Exit(run(os.Args)) }

// run runs what a command line asks for, the program's name first, and returns the exit code.
func run(argv []string) int {
	if as, ok := mongods[programName(argv[0])]; ok {
		return as(argv[1:])
	}
	args := argv[1:]
	if len(args) == 0 {
		usage(os.Stdout)
		return config.ExitClean
	}
	switch args[0] {
	case "help", "--help", "-h":
		usage(os.Stdout)
		return config.ExitClean
	case "--version":
		return version(nil)
	}
	for _, c := range subcommands {
		if c.name == args[0] {
			return c.run(args[1:])
		}
	}
	fmt.Fprintf(os.Stderr, "mayfly: unknown command %q\n\n", args[0])
	usage(os.Stderr)
	return config.ExitBadOptions
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Mayfly, a document database for data that expires.\n\nUsage: mayfly <command> [options]\n\n")
	for _, c := range subcommands {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.help)
	}
	fmt.Fprint(w, "\nmayfly <command> --help lists the options of a command.\n")
}

// parse reads the options of a subcommand into f. If ok is false, there is nothing to
// run: the usage was printed, to standard output if it was asked for, and code is the exit
// code.
func parse(f *flag.FlagSet, usage string, args []string) (code int, ok bool) {
	f.Usage = func() {} // printed below, where it belongs
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return config.ExitClean, false
	case err != nil: // Parse has printed it
		fmt.Fprintf(os.Stderr, "\n%s", usage)
		return config.ExitBadOptions, false
	case f.NArg() > 0:
		arg := f.Arg(0)
		if scheme, _, ok := strings.Cut(arg, "://"); ok { // the rest may have a password
			arg = scheme + "://…"
		}
		return misused(f, usage, fmt.Sprintf("unexpected argument %q", arg)), false
	}
	return config.ExitClean, true
}

// misused prints what is wrong with the options of a subcommand, and its usage.
func misused(f *flag.FlagSet, usage, wrong string) int {
	fmt.Fprintf(os.Stderr, "%s: %s\n\n%s", f.Name(), wrong, usage)
	return config.ExitBadOptions
}
