package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/importer"
)

const importServerUsage = `Usage: mayfly import --from mongodb://SOURCE/ --to mongodb://TARGET/ [options]
       mayfly import cutover --to mongodb://TARGET/ [--block]

Copies all databases of a MongoDB (6.0.9 or later) or Mayfly into an empty place of another one, with
indexes, rules, validators, views, users and roles, follows what is written meanwhile, and ends with
equal content. Killed, it goes on where it was when it is run again. Nothing at the target expires,
and nobody is to read it, before the end.

  --from URI       the source: a replica set, or routers; with --once also a standalone
  --to URI         the target: a replica set. It keeps what the import knows in mayfly_import
  --cutover        cut over as soon as all is copied; else mayfly import cutover asks for it
  --block          block the source's writes for the cut-over, or with --once from the start
                   (setUserWriteBlockMode); else nobody may write, nor anything expire, at the
                   source by then
  --once           copy a source whose writes have stopped, and follow nothing
  --dryRun         change nothing, and say what will differ
  --parallel N     copy so many collections at a time, 1 to 12 (4)
  --rate N[K|M|G]  copy not more than so many bytes a second; events and the comparison are not
                   bounded
  --restart        drop what an import that has not ended has made at the target, and begin anew
  --clockAhead     import although the target's clock is more than a second ahead

Exit codes: 0 done; 1 the target is not equal to the source; 2 wrong options; 14 interrupted; 100 it
could not be done.
`

// importAny imports from a file, from a server, or from an account.
func importAny(args []string) int {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h") {
		fmt.Print(importUsage + "\n" + importServerUsage + "\n" + importAccountUsage)
		return config.ExitClean
	}
	if len(args) > 0 && args[0] == "cutover" {
		return importServer(args[1:], true)
	}
	if slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "https://") || strings.Contains(a, "http://")
	}) {
		return importAccount(args)
	}
	if slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		return strings.HasPrefix(a, "-") && (name == "from" || name == "to")
	}) {
		return importServer(args, false)
	}
	return importFile(args)
}

func importServer(args []string, cutOver bool) int {
	o := importer.Options{Parallel: importer.DefaultParallel, Tell: func(line string) { fmt.Println(line) }}
	var from, to, rate string
	dryRun := false
	f := flag.NewFlagSet("mayfly import", flag.ContinueOnError)
	f.StringVar(&to, "to", "", "")
	f.BoolVar(&o.Block, "block", false, "")
	if !cutOver {
		f.StringVar(&from, "from", "", "")
		f.BoolVar(&o.CutOver, "cutover", false, "")
		f.BoolVar(&o.Once, "once", false, "")
		f.BoolVar(&dryRun, "dryRun", false, "")
		f.IntVar(&o.Parallel, "parallel", importer.DefaultParallel, "")
		f.StringVar(&rate, "rate", "", "")
		f.BoolVar(&o.Restart, "restart", false, "")
		f.BoolVar(&o.ClockAhead, "clockAhead", false, "")
	}
	if code, ok := parse(f, importServerUsage, args); !ok {
		return code
	}
	switch {
	case to == "" || from == "" && !cutOver:
		return misused(f, importServerUsage, "--from and --to are needed, and --to for cutover")
	case o.Once && o.CutOver:
		return misused(f, importServerUsage, "--once has no cut-over of its own")
	case o.Block && !o.Once && !o.CutOver && !cutOver:
		return misused(f, importServerUsage, "--block is for the cut-over: with --cutover, --once, or mayfly import cutover")
	case dryRun && o.Restart:
		return misused(f, importServerUsage, "--dryRun changes nothing, and --restart drops what was imported")
	case o.Parallel < 1 || o.Parallel > importer.MaxParallel:
		return misused(f, importServerUsage, fmt.Sprintf("--parallel is 1 to %d", importer.MaxParallel))
	}
	var err error
	if o.Rate, err = parseRate(rate); err != nil {
		return misused(f, importServerUsage, err.Error())
	}
	if o.To, err = client.ParseURI(to, client.Primary); err != nil {
		return misused(f, importServerUsage, "--to: "+err.Error())
	}
	if !cutOver {
		if o.From, err = client.ParseURI(from, client.Primary); err != nil {
			return misused(f, importServerUsage, "--from: "+err.Error())
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := importer.Run
	switch {
	case cutOver:
		run = importer.AskCutOver
	case dryRun:
		run = importer.DryRun
	}
	if err := run(ctx, o); err != nil {
		if errors.Is(err, importer.ErrDiffers) {
			fmt.Fprintln(os.Stderr, "mayfly import:", err)
			return config.ExitDamaged
		}
		return toolFailed(ctx, "import", err)
	}
	return config.ExitClean
}
