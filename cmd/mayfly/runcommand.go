package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const runCommandUsage = `Usage: mayfly run [--uri URI] [--db DATABASE] [--accept CODE] [--wait DURATION] [--keyFile FILE] COMMAND

Runs one command on a server, {"hello": 1} for example, and prints the reply, both as
extended JSON: for health checks and scripts, where there is no shell.

  --uri URI        the server, mongodb://127.0.0.1/?directConnection=true
  --db DATABASE    the database of the command, admin
  --accept CODE    an error with this code is none: 23, a set that is initiated already
  --wait DURATION  try again for so long if the server does not answer, 0s
  --keyFile FILE   log in as the members of the set or cluster do, with their key: everything
                   is allowed then

Exit codes: 0 the command succeeded; 1 it failed; 2 wrong options; 14 interrupted;
100 the server does not answer.
`

const (
	// runTimeout bounds each attempt.
	runTimeout = 30 * time.Second
	// runRetry is how long mayfly run waits between two.
	runRetry = 500 * time.Millisecond
)

// runOptions are the options of mayfly run.
type runOptions struct {
	uri, db, keyFile string
	accept           int
	wait             time.Duration
}

// runCommand runs mayfly run.
func runCommand(args []string) int {
	var o runOptions
	f := flag.NewFlagSet("mayfly run", flag.ContinueOnError)
	f.StringVar(&o.uri, "uri", "mongodb://127.0.0.1/?directConnection=true", "")
	f.StringVar(&o.db, "db", "admin", "")
	f.IntVar(&o.accept, "accept", 0, "")
	f.DurationVar(&o.wait, "wait", 0, "")
	f.StringVar(&o.keyFile, "keyFile", "", "")
	text := ""
	if n := len(args); n > 0 && args[n-1] != "--help" && args[n-1] != "-h" {
		text, args = args[n-1], args[:n-1]
	}
	if code, ok := parse(f, runCommandUsage, args); !ok {
		return code
	}
	command, err := bson.ParseJSON(text)
	if err != nil || command.IsEmpty() {
		return misused(f, runCommandUsage, fmt.Sprintf("the last argument is to be a command: %v", cmp.Or(err, errors.New("extended JSON that is not empty")))) // it may be the URI, with a password
	}
	uri, err := client.ParseURI(o.uri, client.PrimaryPreferred)
	if err != nil {
		return misused(f, runCommandUsage, err.Error())
	}
	if o.keyFile != "" {
		keys, err := config.ReadMemberKeys(o.keyFile)
		if err != nil {
			return misused(f, runCommandUsage, err.Error())
		}
		uri = uri.WithLogin(client.Member(keys))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var failed *mongoerr.Error
	switch err := o.run(ctx, uri, command); {
	case err == nil:
		return config.ExitClean
	case errors.As(err, &failed):
		fmt.Fprintf(os.Stderr, "mayfly run: %v (%d)\n", failed, failed.Code)
		if int(failed.Code) == o.accept {
			return config.ExitClean
		}
		return config.ExitDamaged
	default:
		return toolFailed(ctx, "run", err)
	}
}

// run runs the command as soon as the server answers.
func (o *runOptions) run(ctx context.Context, uri *client.URI, command bson.Doc) error {
	for end := time.Now().Add(o.wait); ; {
		err := o.try(ctx, uri, command)
		if err == nil || errors.As(err, new(*mongoerr.Error)) || time.Now().After(end) || client.Sleep(ctx, runRetry) != nil {
			return err
		}
	}
}

func (o *runOptions) try(ctx context.Context, uri *client.URI, command bson.Doc) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	c, _, err := uri.Connect(ctx)
	if err != nil {
		return err
	}
	reply, err := c.Run(ctx, o.db, command)
	if err == nil {
		fmt.Printf("%s\n", reply.AppendJSON(nil, bson.RelaxedJSON))
	}
	return errors.Join(err, c.Close())
}
