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

  --file FILE         what mayfly export, mongodump (one .bson file), mongoexport or another tool has
                      written; decompressed if its name ends with .gz
  --uri URI           the server, members of the set, or routers
  --ns DB.COLLECTION  the collection; it is created if there is none
  --format FORMAT     jsonLines (extended JSON v2, a document on each line), bson, csv or parquet; else
                      by the file's name: .json, .jsonl, .ndjson, .bson, .csv, .parquet

CSV, as mongoimport has it:

  --headerline        the first line has the names of the columns: paths of fields, a.b
  --fields NAMES      they are these, with commas between
  --columnsHaveTypes  the names say their types: a.int32(),b.date(2006-01-02)
  --ignoreBlanks      an empty text is no field

Exit codes: 0 done; 2 wrong options; 14 interrupted; 100 it could not be done: what was inserted
before stays.
`

const exportUsage = `Usage: mayfly export --uri mongodb://HOST/ --ns DB.COLLECTION --file FILE [--format FORMAT]

Writes the documents of a collection or view to a new file, which has its name when it is whole.
Documents that are written meanwhile may be in it or not: mayfly backup is of one time. Options and
indexes are not in it.

  --uri URI           the server, members of the set, or routers
  --ns DB.COLLECTION  the collection
  --file FILE         the file; there must be none of that name. Compressed if it ends with .gz
  --format FORMAT     jsonLines (canonical extended JSON v2, a document on each line, keeps all
                      types), relaxedLines (does not), bson, csv (text of some fields) or parquet
                      (all, and columns); else by the file's name: .json, .jsonl, .ndjson, .bson,
                      .csv, .parquet
  --fields NAMES      of csv, the columns: paths of fields, a.b, with commas between; of parquet,
                      fields that have columns of their own
  --noHeaderLine      csv without the line that names the columns

Exit codes: 0 done; 2 wrong options; 14 interrupted; 100 it could not be done: there is no file.
`

// fileOptions are the options of mayfly import and export.
type fileOptions struct {
	file, uri, ns, format, fields string
	docfile.Options
}

func importFile(args []string) int {
	return copyFile("import", importUsage, false, args, func(ctx context.Context, o *fileOptions, uri *client.URI, c *client.Conn) (err error) {
		file, err := docfile.Open(o.file, o.Options)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		db, coll, _ := strings.Cut(o.ns, ".")
		inserted, kept, err := docfile.Import(ctx, c, db, coll, file, tellCopied())
		fmt.Printf("%d documents were inserted, and %d were there already.\n", inserted, kept)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		return nil
	})
}

func exportFile(args []string) int {
	return copyFile("export", exportUsage, true, args, func(ctx context.Context, o *fileOptions, uri *client.URI, c *client.Conn) error {
		w, err := docfile.Create(o.file, o.Options)
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
func copyFile(name, usage string, reads bool, args []string, copies func(context.Context, *fileOptions, *client.URI, *client.Conn) error) int {
	var o fileOptions
	f := flag.NewFlagSet("mayfly "+name, flag.ContinueOnError)
	f.StringVar(&o.file, "file", "", "")
	f.StringVar(&o.uri, "uri", "", "")
	f.StringVar(&o.ns, "ns", "", "")
	f.StringVar(&o.format, "format", "", "")
	f.StringVar(&o.fields, "fields", "", "")
	if reads {
		f.BoolVar(&o.NoHeaderLine, "noHeaderLine", false, "")
	} else {
		f.BoolVar(&o.HeaderLine, "headerline", false, "")
		f.BoolVar(&o.Types, "columnsHaveTypes", false, "")
		f.BoolVar(&o.IgnoreBlanks, "ignoreBlanks", false, "")
	}
	if code, ok := parse(f, usage, args); !ok {
		return code
	}
	if o.file == "" || o.uri == "" || o.ns == "" {
		return misused(f, usage, "--file, --uri and --ns are all needed")
	}
	if db, coll, ok := strings.Cut(o.ns, "."); !ok || db == "" || coll == "" {
		return misused(f, usage, "--ns is DB.COLLECTION")
	}
	if o.fields != "" {
		o.Fields = strings.Split(o.fields, ",")
	}
	var err error
	if o.Format, err = docfile.ParseFormat(o.format, o.file); err == nil {
		err = o.Check(reads)
	}
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
	if err := errors.Join(copies(ctx, &o, uri, c), c.Close()); err != nil {
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
