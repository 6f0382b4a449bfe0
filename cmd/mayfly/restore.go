package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/mayflydb/mayfly/internal/backup"
)

const restoreUsage = `Usage: mayfly restore --from DIR --to NEWDIR [options]

Makes the data directory NEWDIR, which must be empty or not exist, of a backup. No server
opens it before it is whole. It is that of a standalone: serve --replSet NAME --initiate
makes a new set of it.

  --from DIR                the repository: a directory, or s3:// as mayfly backup has it
  --to NEWDIR               the new data directory
  --at TIME                 the state of a time, by the log: 2026-11-28T16:30:00Z, a cluster
                            time as 1795883400.1, or latest for the end of the log
  --backup NAME             this backup (its name may be cut off); else the newest
  --set ID                  of this replica set, where there are several
  --keepExpired             leave what is due to the TTL monitor: else the server removes it
                            before it serves
  --encryptionKeyFile FILE  the key of an encrypted repository
  --dataEncryptionKeyFile FILE, --dataEncryptionKeyCommand PROGRAM
                            the master key of NEWDIR: where the server's data are encrypted the
                            server's; else NEWDIR is encrypted under it

Exit codes: 0 done; 1 the repository is damaged; 2 wrong options; 14 interrupted;
100 it could not be done.
`

// restore makes a data directory of a backup.
func restore(args []string) int {
	var o backupOptions
	var r backup.RestoreOptions
	var at string
	f := flag.NewFlagSet("mayfly restore", flag.ContinueOnError)
	f.StringVar(&o.from, "from", "", "")
	f.StringVar(&r.To, "to", "", "")
	f.StringVar(&at, "at", "", "")
	f.StringVar(&r.Backup, "backup", "", "")
	f.StringVar(&r.Set, "set", "", "")
	f.BoolVar(&r.KeepExpired, "keepExpired", false, "")
	f.StringVar(&o.key, "encryptionKeyFile", "", "")
	var master masterOptions
	master.register(f, "dataEncryption")
	if code, ok := parse(f, restoreUsage, args); !ok {
		return code
	}
	if o.from == "" || r.To == "" {
		return misused(f, restoreUsage, "--from and --to are both needed")
	}
	if at != "" {
		var err error
		if r.At, err = backup.ParseTime(at); err != nil {
			return misused(f, restoreUsage, "--at: "+err.Error())
		}
	}
	return o.run("mayfly restore", func(ctx context.Context) error {
		repository, err := o.repository(ctx, o.from, false)
		if err != nil {
			return err
		}
		if r.Master, err = master.master(); err != nil {
			return err
		}
		r.Progress = backup.Progress(progressTo(os.Stderr))
		done, err := repository.Restore(ctx, r)
		if err != nil {
			return err
		}
		fmt.Printf("%s has %s and %d entries of the log behind it, up to %s.\n", r.To, done.Name(), done.Entries, done.Reached.Said())
		if !r.KeepExpired {
			fmt.Println("Documents that are due are removed before a server serves it (--keepExpired leaves them to the TTL monitor).")
		}
		return nil
	})
}
