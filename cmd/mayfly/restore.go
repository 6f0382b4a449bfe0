package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mayflydb/mayfly/internal/backup"
	"github.com/mayflydb/mayfly/internal/client"
)

const restoreUsage = `Usage: mayfly restore --from DIR --to NEWDIR [options]
       mayfly restore --from DIR --uri mongodb://HOST/ --ns DB.COLLECTION [options]

Makes the data directory NEWDIR, which must be empty or not exist, of a backup. No server
opens it before it is whole. It is that of a standalone: serve --replSet NAME --initiate
makes a new set of it.

With --uri, collections are inserted into a running server, or by a router into a cluster, with
their options and indexes. Documents that are there already, by their _id, stay as they are.

  --from DIR                the repository: a directory, or s3:// as mayfly backup has it
  --to NEWDIR               the new data directory
  --at TIME                 the state of a time, by the log: 2026-11-28T16:30:00Z, a cluster
                            time as 1795883400.1, or latest for the end of the log
  --backup NAME             this backup (its name may be cut off); else the newest
  --ns DB.COLLECTION        only this collection; * stands for any characters, as for
                            mongorestore --nsInclude; may be repeated
  --uri URI                 the server, members of the set, or routers
  --drop                    with --uri: drop each collection there before it is restored
  --tmp DIR                 with --uri: where a directory is made with what is restored
  --set ID                  of this replica set, cluster or standalone, where there are several:
                            mayfly backup list has the ids
  --host PART=SET/HOST:PORT,…
                            of a cluster: where a shard, or the part config, will be; needed
                            for each. NEWDIR gets a data directory for each part
  --part PART               only this part of a cluster; may be repeated. It needs --at with a
                            time, or --backup, the same for each part
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
	f.StringVar(&o.uri, "uri", "", "")
	f.BoolVar(&o.drop, "drop", false, "")
	f.StringVar(&o.tmp, "tmp", os.TempDir(), "")
	f.Func("ns", "", r.Only.ParseNamespace)
	f.Func("host", "", func(text string) error {
		part, at, ok := strings.Cut(text, "=")
		if !ok || part == "" || at == "" {
			return fmt.Errorf("%q is not PART=SET/HOST:PORT", text)
		}
		if r.Hosts == nil {
			r.Hosts = map[string]string{}
		}
		r.Hosts[part] = at
		return nil
	})
	f.Func("part", "", func(name string) error {
		r.Parts = append(r.Parts, name)
		return nil
	})
	f.StringVar(&o.key, "encryptionKeyFile", "", "")
	var master masterOptions
	master.register(f, "dataEncryption")
	if code, ok := parse(f, restoreUsage, args); !ok {
		return code
	}
	if o.from == "" || (r.To == "") == (o.uri == "") {
		return misused(f, restoreUsage, "--from is needed, and either --to or --uri")
	}
	if o.uri != "" && len(r.Only) == 0 {
		return misused(f, restoreUsage, "--uri needs --ns")
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
		if o.uri != "" {
			return o.restoreInto(ctx, repository, r)
		}
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

// restoreInto restores collections into a running server.
func (o *backupOptions) restoreInto(ctx context.Context, repository *backup.Repository, r backup.RestoreOptions) (err error) {
	uri, err := client.ParseURI(o.uri, client.Primary)
	if err != nil {
		return err
	}
	if r.To, err = os.MkdirTemp(o.tmp, "mayfly-restore-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.To)) }()
	done, err := repository.RestoreInto(ctx, backup.IntoOptions{RestoreOptions: r, URI: uri, Drop: o.drop})
	if err != nil {
		return err
	}
	fmt.Printf("%d collections of %s, up to %s: %d documents were inserted, and %d were there already.\n", done.Collections, done.Name(), done.Reached.Said(), done.Documents, done.Kept)
	return nil
}
