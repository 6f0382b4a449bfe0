package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/config"
)

// progressEvery is the pause between two lines of progress.
const progressEvery = 2 * time.Second

const verifyUsage = `Usage: mayfly verify --dbpath DIR [options]

Reads every file of a data directory that no server has open, and compares all documents
with all index entries. Changes nothing.

  --encryptionKeyFile FILE  the master key of an encrypted directory
  --encryptionKeyCommand P  the program that has it

Exit codes: 0 intact; 1 something is damaged; 2 wrong options; 14 interrupted;
100 it could not be read, or a server has it open.
`

// verify checks a data directory.
func verify(args []string) int {
	var dir string
	f := flag.NewFlagSet("mayfly verify", flag.ContinueOnError)
	f.StringVar(&dir, "dbpath", "", "the data directory")
	var master masterOptions
	master.register(f, "encryption")
	if code, ok := parse(f, verifyUsage, args); !ok {
		return code
	}
	if dir == "" {
		return misused(f, verifyUsage, "--dbpath is missing")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := master.unlock(dir)
	if err != nil {
		return toolFailed(ctx, "verify", err)
	}
	v, err := catalog.Verify(ctx, store, dir, progressTo(os.Stderr))
	if err != nil {
		return toolFailed(ctx, "verify", err)
	}
	tellVerification(os.Stdout, dir, v)
	if !v.Valid() {
		return config.ExitDamaged
	}
	return config.ExitClean
}

// toolFailed says why a tool did not do its work, and is its exit code.
func toolFailed(ctx context.Context, name string, err error) int {
	if ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "mayfly %s: interrupted\n", name)
		return config.ExitAbrupt
	}
	fmt.Fprintf(os.Stderr, "mayfly %s: %v\n", name, err)
	return config.ExitUncaught
}

// progressTo writes a line now and then.
func progressTo(w io.Writer) catalog.Progress {
	last := time.Now()
	return func(stage string, done, total int64) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(w, "%s: %d of %d (%d%%)\n", stage, done, total, 100*done/max(1, total))
		}
	}
}

// tellVerification prints what was found.
func tellVerification(w io.Writer, dir string, v *catalog.Verification) {
	for _, d := range v.Damages {
		fmt.Fprintln(w, d)
	}
	for _, c := range v.Invalid {
		fmt.Fprintf(w, "collection %s is inconsistent:\n", c.Namespace)
		for _, e := range c.Errors {
			fmt.Fprintf(w, "  %s\n", e)
		}
		for _, ix := range c.Indexes {
			for _, e := range ix.Errors {
				fmt.Fprintf(w, "  %s\n", e)
			}
		}
	}
	if v.Unread != "" {
		fmt.Fprintf(w, "The documents were not compared with the indexes: %s.\n", v.Unread)
	}
	if v.Valid() {
		fmt.Fprintf(w, "%s is intact: %d collections, %d documents, %d index entries.\n", dir, v.Collections, v.Documents, v.Entries)
		return
	}
	fmt.Fprintf(w, "%s is damaged. Nothing was changed. mayfly repair --dbpath %s --into NEWDIR recovers what can be read.\n", dir, dir)
}
