package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/docfile"
)

const importUsage = `Usage: mayfly import --file FILE --uri mongodb://HOST/ --ns DB.COLLECTION [--format FORMAT]

Inserts the documents of a file into a collection of a running server, or by a router into a
cluster. Documents that are there already, by their _id or another unique key, stay as they are,
and are counted: so it can be run again. A document without _id gets one, each time. In a
time-series collection nothing is unique: what is there already is inserted once more.

  --file FILE         what mayfly export, mongodump (one .bson file) or mongoexport has written
  --uri URI           the server, members of the set, or routers
  --ns DB.COLLECTION  the collection; it is created if there is none
  --format FORMAT     jsonLines (extended JSON v2, a document on each line) or bson; else by the
                      file's name: .json, .jsonl, .ndjson, .bson

Exit codes: 0 done; 2 wrong options; 14 interrupted; 100 it could not be done: what was inserted
before stays.
`

const exportUsage = `Usage: mayfly export --uri mongodb://HOST/ --ns DB.COLLECTION --file FILE [--format FORMAT]

Writes the documents of a collection or view to a new file, which has its name when it is whole.
Documents that are written meanwhile may be in it or not: mayfly backup is of one time. Options and
indexes are not in it.

  --uri URI           the server, members of the set, or routers
  --ns DB.COLLECTION  the collection
  --file FILE         the file; there must be none of that name
  --format FORMAT     jsonLines (canonical extended JSON v2, a document on each line, keeps all
                      types), relaxedLines (does not) or bson; else by the file's name: .json,
                      .jsonl, .ndjson, .bson

Exit codes: 0 done; 2 wrong options; 14 interrupted; 100 it could not be done: there is no file.
`

// fileOptions are the options of mayfly import and export.
type fileOptions struct {
	file, uri, ns, format string
}

func importFile(args []string) int {
	return copyFile("import", importUsage, false, args, func(ctx context.Context, o *fileOptions, uri *client.URI, c *client.Conn, f docfile.Format) (err error) {
		file, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		db, coll, _ := strings.Cut(o.ns, ".")
		inserted, kept, err := docfile.Import(ctx, c, db, coll, docfile.NewReader(file, f), tellCopied())
		fmt.Printf("%d documents were inserted, and %d were there already.\n", inserted, kept)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		return nil
	})
}

func exportFile(args []string) int {
	return copyFile("export", exportUsage, true, args, func(ctx context.Context, o *fileOptions, uri *client.URI, c *client.Conn, f docfile.Format) error {
		w, err := docfile.Create(o.file, f)
		if err != nil {
			return err
		}
		db, coll, _ := strings.Cut(o.ns, ".")
		n, err := docfile.Export(ctx, c, client.ReadPreference{Mode: uri.Read}, db, coll, w, tellCopied())
		if err != nil {
			return errors.Join(err, w.Abort())
		}
		if err := w.Commit(); err != nil {
			return err
		}
		fmt.Printf("%s has %d documents.\n", o.file, n)
		return nil
	})
}

// copyFile reads the options of import or export, connects, and copies. Where it does not only read,
// it connects to the primary.
func copyFile(name, usage string, reads bool, args []string, copies func(context.Context, *fileOptions, *client.URI, *client.Conn, docfile.Format) error) int {
	var o fileOptions
	f := flag.NewFlagSet("mayfly "+name, flag.ContinueOnError)
	f.StringVar(&o.file, "file", "", "")
	f.StringVar(&o.uri, "uri", "", "")
	f.StringVar(&o.ns, "ns", "", "")
	f.StringVar(&o.format, "format", "", "")
	if code, ok := parse(f, usage, args); !ok {
		return code
	}
	if o.file == "" || o.uri == "" || o.ns == "" {
		return misused(f, usage, "--file, --uri and --ns are all needed")
	}
	if db, coll, ok := strings.Cut(o.ns, "."); !ok || db == "" || coll == "" {
		return misused(f, usage, "--ns is DB.COLLECTION")
	}
	format, err := docfile.ParseFormat(o.format, o.file)
	if err != nil {
		return misused(f, usage, err.Error())
	}
	uri, err := client.ParseURI(o.uri, client.Primary)
	if err != nil {
		return misused(f, usage, err.Error())
	}
	if !reads {
		uri.Read = client.Primary // the URI may be that of an application which reads elsewhere
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, _, err := uri.Connect(ctx)
	if err != nil {
		return toolFailed(ctx, name, err)
	}
	if err := errors.Join(copies(ctx, &o, uri, c, format), c.Close()); err != nil {
		return toolFailed(ctx, name, err)
	}
	return config.ExitClean
}

// tellCopied writes a line now and then.
func tellCopied() docfile.Progress {
	last := time.Now()
	return func(n int64) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(os.Stderr, "%d documents\n", n)
		}
	}
}
