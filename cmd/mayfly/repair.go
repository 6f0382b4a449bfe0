package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/config"
)

const repairUsage = `Usage: mayfly repair --dbpath DIR --into NEWDIR [options]

Creates the data directory NEWDIR from what can be read of DIR, and prints what is lost.
No server may have DIR open, and NEWDIR must not exist or be empty. Changes nothing in
DIR. NEWDIR appears when it is complete; until then it is NEWDIR.repairing. That of an
encrypted directory is encrypted under the same keys.

  --encryptionKeyFile FILE  the master key of an encrypted directory
  --encryptionKeyCommand P  the program that has it

Exit codes: 0 everything was recovered; 1 something is lost; 2 wrong options; 14 interrupted;
100 it could not be done, or a server has DIR open: there is no NEWDIR.
`

// repair makes a new data directory of what can be read of another.
func repair(args []string) int {
	var dir, into string
	f := flag.NewFlagSet("mayfly repair", flag.ContinueOnError)
	f.StringVar(&dir, "dbpath", "", "the data directory")
	f.StringVar(&into, "into", "", "the new data directory")
	var master masterOptions
	master.register(f, "encryption")
	if code, ok := parse(f, repairUsage, args); !ok {
		return code
	}
	if dir == "" || into == "" {
		return misused(f, repairUsage, "--dbpath and --into are both needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := master.unlock(dir)
	if err != nil {
		return toolFailed(ctx, "repair", err)
	}
	r, err := catalog.Repair(ctx, store, dir, into, progressTo(os.Stderr))
	if err != nil {
		return toolFailed(ctx, "repair", err)
	}
	tellRepaired(os.Stdout, r)
	if !r.Lossless() {
		fmt.Printf("%s holds what could be read of %s, which is unchanged. Something is lost: see above.\n", into, dir)
		return config.ExitDamaged
	}
	fmt.Printf("%s holds all of %s, which is unchanged.\n", into, dir)
	return config.ExitClean
}

// tellRepaired prints what was damaged, and what became of each collection.
func tellRepaired(w io.Writer, r *catalog.Repaired) {
	for _, d := range r.Damages {
		if !strings.HasSuffix(d.File, ".log") { // they are among the notes
			fmt.Fprintln(w, d)
		}
	}
	for _, c := range r.Collections {
		tellCollection(w, c)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
}

func tellCollection(w io.Writer, c *catalog.RepairedCollection) {
	fmt.Fprintf(w, "%s: %d documents", c.Namespace, c.Documents)
	switch {
	case c.Counted < 0:
		fmt.Fprint(w, "; how many there were before is not known")
	case c.Counted > c.Documents:
		fmt.Fprintf(w, " of %d, %d lost", c.Counted, c.Counted-c.Documents)
	case c.Counted < c.Documents:
		fmt.Fprintf(w, ", %d more than before: deleted ones are back", c.Documents-c.Counted)
	}
	fmt.Fprintln(w)
	id := "_id"
	if c.Buckets {
		id = "bucket"
	}
	for _, g := range c.Gaps {
		place := "somewhere"
		switch {
		case g.Open:
			place = "among its newest measurements"
		case g.After != "" && g.Before != "":
			place = fmt.Sprintf("between %s %s and %s %s", id, g.After, id, g.Before)
		case g.After != "":
			place = "after " + id + " " + g.After
		case g.Before != "":
			place = "before " + id + " " + g.Before
		}
		fmt.Fprintf(w, "  %s documents may be missing", place)
		if g.Older {
			fmt.Fprint(w, ", older than they were, or back after they were deleted")
		}
		if g.Damage.File != "" {
			fmt.Fprintf(w, " (%s, offset %d)", g.Damage.File, g.Damage.Offset)
		}
		fmt.Fprintln(w)
	}
	if c.Behind > 0 {
		fmt.Fprintf(w, "  at least %d newer writes, after the damage in a log, are left out\n", c.Behind)
	}
	if c.Invalid > 0 {
		fmt.Fprintf(w, "  %d documents cannot be read and are left out\n", c.Invalid)
	}
	if c.Duplicates > 0 {
		fmt.Fprintf(w, "  %d documents that share a unique key with another one are in %s\n", c.Duplicates, c.DuplicatesIn)
	}
}
