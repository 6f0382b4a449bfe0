package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/backup"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/objectstore/bucket"
	"github.com/mayflydb/mayfly/internal/storage"
)

const backupUsage = `Usage: mayfly backup --uri mongodb://HOST/ --to DIR [--follow] [options]
       mayfly backup list --from DIR
       mayfly backup verify --from DIR [--restore]
       mayfly backup prune --from DIR --keep N

Adds a backup of a running server, of a replica set, or by a router of a cluster, to the
repository DIR, which is created if it is empty or missing. Of a set, and of each part of a
cluster, at one time, a secondary is read if there is one. What the
repository has already is not stored again. A backup that was interrupted goes on where it
was. It runs with the least priority, as nice -n 19, but for --follow, which may not fall behind
the log. The user needs the role backup.

In place of DIR, s3://BUCKET/PREFIX is a repository in a bucket of Amazon S3, and
s3://BUCKET/PREFIX?endpoint=URL&pathStyle=true&region=NAME one in another store. Credentials
are in the environment or in ~/.aws, as other tools have them.

  --uri URI                 the server, members of the set, or routers
  --to, --from DIR          the repository
  --rate N[K|M|G]           read files at not more than so many bytes a second
  --follow                  stay: take a backup each --every, and keep the log of the set, by
                            which mayfly restore --at restores to any time
  --every DURATION          24h
  --logEvery DURATION       how often the log is stored, 10s: what was written since would be
                            lost with the set
  --encryptionKeyFile FILE  the key of an encrypted repository: 32 bytes in base64
  --set ID                  for verify --restore: of this replica set, cluster or standalone,
                            where there are several
  --dataEncryptionKeyFile FILE, --dataEncryptionKeyCommand PROGRAM
                            for verify --restore: the master key of the server whose data are
                            encrypted

list lists the backups. verify reads all that the repository has; with --restore, it also
restores the newest backup to a temporary directory in --tmp and verifies that. prune removes
all but the newest N backups of each cluster, set or standalone that can be restored, and the
log before them.

Exit codes: 0 done; 1 something is damaged or missing; 2 wrong options; 14 interrupted;
100 it could not be done.
`

// backupOptions are the options of mayfly backup and mayfly restore.
type backupOptions struct {
	from, to, uri, rate, key, tmp, set string
	restores, follow, drop             bool
	every, logEvery                    time.Duration
	keep                               int
	data                               masterOptions
}

// repository opens the repository.
func (o *backupOptions) repository(ctx context.Context, place string, create bool) (*backup.Repository, error) {
	var key backup.Key
	if o.key != "" {
		var err error
		if key, err = backup.ReadKey(o.key); err != nil {
			return nil, err
		}
	}
	store := objectstore.NewDirectory(place)
	if bucket.Is(place) {
		b, err := bucket.New(ctx, place)
		if err != nil {
			return nil, err
		}
		b.Owns, store = backup.IsObject, b
	} else if scheme, _, ok := strings.Cut(place, "://"); ok { // of the rest, some may be a password
		return nil, fmt.Errorf("a repository is in a directory or in a bucket, s3://BUCKET/PREFIX, and not in one of %s://", scheme)
	}
	return backup.Open(ctx, store, key, create)
}

// takeBackup runs mayfly backup.
func takeBackup(args []string) int {
	var o backupOptions
	name, run := "mayfly backup", o.take
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&o.key, "encryptionKeyFile", "", "")
	switch {
	case len(args) > 0 && args[0] == "list":
		args, run = args[1:], o.list
		f.StringVar(&o.from, "from", "", "")
	case len(args) > 0 && args[0] == "verify":
		args, run = args[1:], o.verify
		f.StringVar(&o.from, "from", "", "")
		f.StringVar(&o.tmp, "tmp", os.TempDir(), "")
		f.BoolVar(&o.restores, "restore", false, "")
		f.StringVar(&o.set, "set", "", "")
		o.data.register(f, "dataEncryption")
	case len(args) > 0 && args[0] == "prune":
		args, run = args[1:], o.prune
		f.StringVar(&o.from, "from", "", "")
		f.IntVar(&o.keep, "keep", 0, "")
	default:
		f.StringVar(&o.uri, "uri", "", "")
		f.StringVar(&o.to, "to", "", "")
		f.StringVar(&o.rate, "rate", "", "")
		f.BoolVar(&o.follow, "follow", false, "")
		f.DurationVar(&o.every, "every", 24*time.Hour, "")
		f.DurationVar(&o.logEvery, "logEvery", 10*time.Second, "")
		if code, ok := parse(f, backupUsage, args); !ok {
			return code
		}
		if o.uri == "" || o.to == "" {
			return misused(f, backupUsage, "--uri and --to are both needed")
		}
		if o.every <= 0 || o.logEvery <= 0 {
			return misused(f, backupUsage, "--every and --logEvery are above 0")
		}
		return o.run(name, run)
	}
	if code, ok := parse(f, backupUsage, args); !ok {
		return code
	}
	if o.from == "" {
		return misused(f, backupUsage, "--from is missing")
	}
	if f.Lookup("keep") != nil && o.keep < 1 {
		return misused(f, backupUsage, "--keep is at least 1")
	}
	return o.run(name, run)
}

// errDamaged says that a tool has told of damage.
var errDamaged = errors.New("something is damaged or missing: see above")

// run runs a part of a command until it is interrupted, and returns the exit code.
func (o *backupOptions) run(name string, part func(ctx context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := part(ctx)
	var damage *backup.DamageError
	switch {
	case err == nil:
		return config.ExitClean
	case ctx.Err() == nil && (errors.Is(err, errDamaged) || errors.As(err, &damage)):
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return config.ExitDamaged
	}
	return toolFailed(ctx, strings.TrimPrefix(name, "mayfly "), err)
}

func (o *backupOptions) take(ctx context.Context) error {
	uri, err := client.ParseURI(o.uri, client.SecondaryPreferred)
	if err != nil {
		return err
	}
	rate, err := parseRate(o.rate)
	if err != nil {
		return err
	}
	r, err := o.repository(ctx, o.to, true)
	if err != nil {
		return err
	}
	options := backup.TakeOptions{URI: uri, Rate: rate, Progress: backup.Progress(progressTo(os.Stderr))}
	if o.follow {
		return r.Follow(ctx, backup.FollowOptions{
			TakeOptions: options, Every: o.every, LogEvery: o.logEvery,
			Taken: tellTaken, Note: func(err error) { fmt.Fprintf(os.Stderr, "mayfly backup: %v\n", err) },
		})
	}
	if err := lowerPriority(); err != nil { // the server may be on this machine; a backup is worth more than that
		fmt.Fprintf(os.Stderr, "mayfly backup: it runs with the priority of others: %v\n", err)
	}
	t, err := r.Take(ctx, options)
	if err == nil {
		tellTaken(t)
	}
	return err
}

// tellTaken prints what a backup is.
func tellTaken(t *backup.Taken) {
	fmt.Printf("%s: %s at %s, %d files of %d bytes; %d bytes were read, and the repository has grown by %d.\n",
		t.Name(), t.Server, t.Time.Said(), t.Count(), t.Bytes, t.Read, t.Grown)
}

// parseRate reads a number of bytes, with K, M or G for powers of 1024; "" is 0.
func parseRate(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	shift := map[byte]int{'K': 10, 'M': 20, 'G': 30}[text[len(text)-1]]
	digits := text
	if shift > 0 {
		digits = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(digits, 10, 33)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("--rate %s: no number of bytes", text)
	}
	return n << shift, nil
}

func (o *backupOptions) list(ctx context.Context) error {
	r, err := o.repository(ctx, o.from, false)
	if err != nil {
		return err
	}
	all, err := r.Backups(ctx)
	for _, m := range all {
		fmt.Printf("%s  %s  %s  %s  %d files\n", m.Name(), m.Time.Said(), m.Server, backupOf(m), m.Count())
	}
	return err
}

// backupOf names the server, set or cluster of a backup.
func backupOf(m *backup.Manifest) string {
	switch {
	case m.Cluster != "":
		of := "cluster " + m.Cluster
		for _, p := range m.Parts {
			of += " " + p.Shard
		}
		return of
	case m.Set != "":
		return "set " + m.Set + " " + m.SetID
	}
	return "standalone " + m.Of()
}

func (o *backupOptions) prune(ctx context.Context) error {
	r, err := o.repository(ctx, o.from, false)
	if err != nil {
		return err
	}
	p, err := r.Prune(ctx, o.keep)
	if err != nil {
		return err
	}
	for _, m := range p.Backups {
		fmt.Printf("removed %s\n", m.Name())
	}
	for _, m := range p.Broken {
		fmt.Printf("%s cannot be restored, as objects of it are missing: it stays, and is not counted\n", m.Name())
	}
	fmt.Printf("%d backups and %d other objects were removed: %d bytes.\n", len(p.Backups), p.Objects, p.Bytes)
	return nil
}

func (o *backupOptions) verify(ctx context.Context) error {
	r, err := o.repository(ctx, o.from, false)
	if err != nil {
		return err
	}
	v, err := r.Verify(ctx, backup.Progress(progressTo(os.Stderr)))
	if err != nil {
		return err
	}
	for _, p := range v.Problems {
		fmt.Println(p)
	}
	for _, n := range v.Notes {
		fmt.Println(n)
	}
	if len(v.Problems) > 0 {
		return errDamaged
	}
	fmt.Printf("%d backups, %d objects are intact.\n", v.Backups, v.Objects)
	if !o.restores {
		return nil
	}
	return o.verifyRestored(ctx, r)
}

// verifyRestored restores the newest backup, and verifies that.
func (o *backupOptions) verifyRestored(ctx context.Context, r *backup.Repository) (err error) {
	dir, err := os.MkdirTemp(o.tmp, "mayfly-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	progress := progressTo(os.Stderr)
	master, err := o.data.master()
	if err != nil {
		return err
	}
	done, err := r.Restore(ctx, backup.RestoreOptions{To: dir, Set: o.set, Look: true, KeepExpired: true, Master: master, Progress: backup.Progress(progress)})
	if err != nil {
		return err
	}
	valid := true
	for _, dir := range done.Dirs {
		store, err := storage.Unlock(storage.OSFS(), dir, master)
		if err != nil {
			return err
		}
		v, err := catalog.Verify(ctx, store, dir, progress)
		if err != nil {
			return err
		}
		tellVerification(os.Stdout, dir, v)
		valid = valid && v.Valid()
	}
	if !valid {
		return errDamaged
	}
	return nil
}
