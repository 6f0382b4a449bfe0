package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/doctor"
)

const doctorUsage = `Usage: mayfly doctor [--uri URI] [--json] [options]

Says what is wrong with a server, a replica set or, through a router, a cluster, and what to do:
rules that remove nothing, members that are down or behind, disks that fill, clocks that differ,
certificates that end, indexes that nobody uses, and more. It reads, and changes nothing.

  --uri URI             the server, members of the set, or routers,
                        mongodb://127.0.0.1/?directConnection=true
  --json                print the report as JSON
  --unusedFor DURATION  tell of indexes that were not used for so long, 168h
  --backups REPOSITORY  look at the backups there, DIR or s3://BUCKET/PREFIX, too
  --backupAge DURATION  how old the newest may be, 48h
  --encryptionKeyFile FILE  the key of an encrypted repository

With access control the user needs the role clusterMonitor. Members are asked at the addresses
that the set has for them, with the same user.

Exit codes: 0 nothing is wrong; 1 something is; 2 wrong options; 14 interrupted; 100 no server
answers.
`

// doctorOptions are the options of mayfly doctor.
type doctorOptions struct {
	uri                string
	json               bool
	unusedFor, maxAge  time.Duration
	backups, backupKey string
}

// examine runs mayfly doctor.
func examine(args []string) int {
	var o doctorOptions
	f := flag.NewFlagSet("mayfly doctor", flag.ContinueOnError)
	f.StringVar(&o.uri, "uri", "mongodb://127.0.0.1/?directConnection=true", "")
	f.BoolVar(&o.json, "json", false, "")
	f.DurationVar(&o.unusedFor, "unusedFor", 7*24*time.Hour, "")
	f.StringVar(&o.backups, "backups", "", "")
	f.DurationVar(&o.maxAge, "backupAge", 48*time.Hour, "")
	f.StringVar(&o.backupKey, "encryptionKeyFile", "", "")
	if code, ok := parse(f, doctorUsage, args); !ok {
		return code
	}
	uri, err := client.ParseURI(o.uri, client.PrimaryPreferred)
	if err != nil {
		return misused(f, doctorUsage, err.Error())
	}
	if o.unusedFor < 0 || o.maxAge <= 0 {
		return misused(f, doctorUsage, "--unusedFor is at least 0, and --backupAge above 0")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := o.run(ctx, uri)
	if err != nil {
		return toolFailed(ctx, "doctor", err)
	}
	if o.json {
		fmt.Printf("%s\n", r.Doc().AppendJSON(nil, bson.RelaxedJSON))
	} else if err := r.Write(os.Stdout); err != nil {
		return toolFailed(ctx, "doctor", err)
	}
	if len(r.Findings) > 0 {
		return config.ExitDamaged
	}
	return config.ExitClean
}

func (o *doctorOptions) run(ctx context.Context, uri *client.URI) (*doctor.Report, error) {
	asked := doctor.Options{Addresses: uri.Hosts, Open: doctor.OverWire(uri), UnusedFor: o.unusedFor}
	if o.backups != "" {
		asked.BackupAge = o.maxAge
		var err error
		if asked.Backups, err = o.newestBackups(ctx); err != nil {
			return nil, err
		}
	}
	return doctor.Examine(ctx, asked)
}

// newestBackups returns the newest backup of each server, set and cluster in the repository.
func (o *doctorOptions) newestBackups(ctx context.Context) (newest []doctor.Backup, err error) {
	r, err := (&backupOptions{key: o.backupKey}).repository(ctx, o.backups, false)
	if err != nil {
		return nil, err
	}
	all, err := r.Backups(ctx)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, m := range all {
		of := backupOf(m)
		i, known := at[of]
		if !known {
			i = len(newest)
			at[of] = i
			newest = append(newest, doctor.Backup{Of: of})
		}
		if m.Taken.After(newest[i].At) {
			newest[i].At = m.Taken
		}
	}
	return newest, nil
}
