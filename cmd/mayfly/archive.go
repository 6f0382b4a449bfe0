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

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
)

const archiveUsage = `Usage: mayfly archive restore --uri URI --ns DB.COLLECTION --to DB.COLLECTION [--filter FILTER] [--all] [--progress FILE]
       mayfly archive forget --uri URI --ns DB.COLLECTION --filter FILTER [--all] [--dryRun]

restore inserts archived documents of a collection into another one, object by object. Those that are
there already, by their _id or another unique key, stay as they are: so it can be run again. With
--progress it goes on behind the objects that it has finished. Choose a collection whose rules do not
remove them again.

forget removes documents from the archive for good: each object that has some is replaced by one
without them. It can be run again when it was interrupted. Live documents stay, and so do copies of
objects that others keep: versions of the bucket, backups of the place.

  --uri URI           the server, or members of the set
  --ns DB.COLLECTION  the collection that was archived
  --to DB.COLLECTION  where documents are inserted
  --filter FILTER     which documents, as extended JSON: {"user": "ann"}; dates in it spare objects
  --all               also of collections that had the name before and were dropped
  --progress FILE     the objects that are finished, a line each; a new file, or that of the last try of
                      the same restore: another one is refused
  --dryRun            only say how many documents there are

Exit codes: 0 done; 2 wrong options; 14 interrupted; 100 it could not be done, or not wholly.
`

// archiveOptions are the options of mayfly archive.
type archiveOptions struct {
	uri, ns, to, filter, progress string
	all, dry                      bool
	query                         bson.Doc // filter
	db, coll                      string   // of ns
}

// archiveTool runs mayfly archive.
func archiveTool(args []string) int {
	name := ""
	if len(args) > 0 && (args[0] == "restore" || args[0] == "forget") {
		name, args = args[0], args[1:]
	}
	var o archiveOptions
	f := flag.NewFlagSet("mayfly archive", flag.ContinueOnError)
	f.StringVar(&o.uri, "uri", "", "")
	f.StringVar(&o.ns, "ns", "", "")
	f.StringVar(&o.filter, "filter", "", "")
	f.BoolVar(&o.all, "all", false, "")
	switch name {
	case "restore":
		f.StringVar(&o.to, "to", "", "")
		f.StringVar(&o.progress, "progress", "", "")
	case "forget":
		f.BoolVar(&o.dry, "dryRun", false, "")
	}
	if code, ok := parse(f, archiveUsage, args); !ok {
		return code
	}
	wrong := o.check(name)
	if wrong != "" {
		return misused(f, archiveUsage, wrong)
	}
	uri, err := client.ParseURI(o.uri, client.Primary)
	if err != nil {
		return misused(f, archiveUsage, err.Error())
	}
	uri.Read = client.Primary // the URI may be that of an application which reads elsewhere
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := o.forget
	if name == "restore" {
		run = o.restore
	}
	if err := run(ctx, uri); err != nil {
		if other := (*otherProgress)(nil); errors.As(err, &other) {
			return misused(f, archiveUsage, other.Error())
		}
		return toolFailed(ctx, "archive "+name, err)
	}
	return config.ExitClean
}

// check completes the options, and returns what is wrong with them.
func (o *archiveOptions) check(name string) string {
	o.query = bson.Empty
	if o.filter != "" {
		var err error
		if o.query, err = bson.ParseJSON(o.filter); err != nil {
			return "--filter is extended JSON: " + err.Error()
		}
	}
	ok := false
	o.db, o.coll, ok = strings.Cut(o.ns, ".")
	switch {
	case name == "":
		return "restore or forget?"
	case o.uri == "" || !ok || o.db == "" || o.coll == "":
		return "--uri and --ns DB.COLLECTION are needed"
	case name == "forget" && o.filter == "":
		return "--filter is needed; {} is all"
	case name == "restore":
		if db, coll, ok := strings.Cut(o.to, "."); !ok || db == "" || coll == "" {
			return "--to DB.COLLECTION is needed"
		}
	}
	return ""
}

// of is the value of the option of.
func (o *archiveOptions) of() string {
	if o.all {
		return "all"
	}
	return "collection"
}

// forget has the server remove documents from the archive.
func (o *archiveOptions) forget(ctx context.Context, uri *client.URI) error {
	c, _, err := uri.Connect(ctx)
	if err != nil {
		return err
	}
	r, err := c.Run(ctx, o.db, new(bson.Builder).String("archiveForget", o.coll).Doc("filter", o.query).String("of", o.of()).Bool("dryRun", o.dry).Finish())
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	n := func(name string) int64 { return bson.ClampToInt64(r.Lookup(name)) }
	if o.dry {
		fmt.Printf("%d documents would be removed: %d objects have others, too, and %d have none. %d objects with %d bytes were read.\n", n("documents"), n("rewritten"), n("removed"), n("read"), n("readBytes"))
		return nil
	}
	fmt.Printf("%d documents were removed: %d objects were replaced, and %d removed. %d objects with %d bytes were read.\n", n("documents"), n("rewritten"), n("removed"), n("read"), n("readBytes"))
	if waiting := n("waiting"); waiting > 0 {
		return fmt.Errorf("%d objects could not be removed yet: the server tries again within the hour", waiting)
	}
	more := ""
	if v := r.Lookup("more"); v.Type == bson.TypeBool && v.Bool() {
		more = "; there are more: run it again"
	}
	if left := r.Lookup("left"); left.Type == bson.TypeArray && !left.Doc().IsEmpty() {
		return fmt.Errorf("these objects belong to another server, of which this one is a copy, and were not removed: %s%s", left, more)
	}
	return nil
}
