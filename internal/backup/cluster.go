package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// A backup of a cluster has files of each part, of about the same time, and the log of each up to
// behind one time, to which all of them are restored: that of the backup, or a later one. What
// all logs have up to one time is a state of the cluster (invariant cause-first of package repl).

const (
	// configPart is the part that the config servers are; if they are a shard, that has the name.
	configPart = "config"
	// maxShards bounds the shards of a cluster that is backed up.
	maxShards = 10000
	// cutPatience is how long a backup waits until all parts have reached its time, and have
	// decided what was prepared then.
	cutPatience = 2 * time.Minute
	// cutPause is how long it waits before it asks again.
	cutPause = 100 * time.Millisecond
)

// shardAt is a shard, and where it is.
type shardAt struct{ name, at string }

// shards lists the shards of a router's cluster by their names.
func (c *connection) shards(ctx context.Context) (all []shardAt, err error) {
	docs, err := c.documents(ctx, "config", "shards")
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		id, host := d.Lookup("_id"), d.Lookup("host")
		if id.Type != bson.TypeString || host.Type != bson.TypeString {
			return nil, fmt.Errorf("config.shards has a document %s", d)
		}
		all = append(all, shardAt{strings.Clone(id.Str()), strings.Clone(host.Str())})
	}
	if len(all) == 0 || len(all) >= maxShards {
		return nil, fmt.Errorf("the cluster has %d shards: it cannot be backed up", len(all))
	}
	slices.SortFunc(all, func(a, b shardAt) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// cluster returns the id of a router's cluster.
func (c *connection) cluster(ctx context.Context) (string, error) {
	docs, err := c.documents(ctx, "config", "version")
	if err != nil {
		return "", err
	}
	for _, d := range docs {
		if id := d.Lookup("clusterId"); id.Type == bson.TypeObjectID {
			return hexOf(id), nil
		}
	}
	return "", errors.New("config.version does not say which cluster this is")
}

// parts lists the shards of a router's cluster, and the config servers, which a shard tells of
// unless they are one. uri is the router's.
func (c *connection) parts(ctx context.Context, uri *client.URI) (all []shardAt, err error) {
	if all, err = c.shards(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(s shardAt) bool { return s.name == configPart }) {
		return all, nil
	}
	at, err := client.ParseSetString(all[0].at)
	if err != nil {
		return nil, err
	}
	shard, err := connect(ctx, uri.Of(at, client.SecondaryPreferred))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", all[0].name, err)
	}
	defer func() { err = errors.Join(err, shard.Close()) }()
	docs, err := shard.documents(ctx, "admin", "system.version")
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if at := d.Lookup("configsvrConnectionString"); at.Type == bson.TypeString {
			return append(all, shardAt{configPart, strings.Clone(at.Str())}), nil
		}
	}
	return nil, fmt.Errorf("%s does not know the config servers of its cluster", shard.host)
}

// openCluster opens copies of the shards and the config servers of a router's cluster, and closes
// the connection to the router.
func (t *taking) openCluster(ctx context.Context, router *connection) (_ context.Context, err error) {
	defer func() { err = errors.Join(err, router.Close()) }()
	m := t.taken.Manifest
	m.Format, m.Server = clusterManifestFormat, router.host
	parts, err := router.parts(ctx, t.o.URI)
	if err != nil {
		return nil, err
	}
	for _, s := range parts {
		if ctx, err = t.addPart(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := t.each(ctx, func(ctx context.Context, p *takenPart) error { return p.open(ctx) }); err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		id, name := p.remote.head.Lookup("clusterId"), p.remote.head.Lookup("shard")
		if id.Type != bson.TypeObjectID || name.Type != bson.TypeString || name.Str() != p.part.Shard {
			return nil, fmt.Errorf("%s is not the part %s of a cluster", p.c.host, p.part.Shard)
		}
		switch of := hexOf(id); {
		case m.Cluster == "":
			m.Cluster = of
		case m.Cluster != of:
			return nil, fmt.Errorf("%s is part of the cluster %s, and %s of %s", t.parts[0].c.host, m.Cluster, p.c.host, of)
		}
		m.Time = max(m.Time, p.part.Time)
	}
	return ctx, m.distinctSets()
}

// addPart adds a part of the cluster.
func (t *taking) addPart(ctx context.Context, s shardAt) (context.Context, error) {
	at, err := client.ParseSetString(s.at)
	if err != nil {
		return nil, err
	}
	uri := t.o.URI.Of(at, client.SecondaryPreferred)
	c, err := connect(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	part := &Part{Shard: s.name}
	ctx, _, err = t.add(ctx, part, uri, c)
	t.taken.Parts = append(t.taken.Parts, part)
	return ctx, err
}

// sameShards returns an error if the shards have changed since the backup has begun: what one
// that was added has is not in it.
func (t *taking) sameShards(ctx context.Context) (err error) {
	router, err := connect(ctx, t.o.URI) // the one of before may have been restarted since
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, router.Close()) }()
	shards, err := router.shards(ctx)
	if err != nil {
		return err
	}
	for _, s := range shards {
		if !slices.ContainsFunc(t.parts, func(p *takenPart) bool { return p.part.Shard == s.name }) {
			return fmt.Errorf("the shard %s was added while the backup was taken: take another one", s.name)
		}
	}
	return nil
}

// cut stores the log of each part up to behind the time of the backup.
func (t *taking) cut(ctx context.Context) error {
	ctx, end := context.WithTimeoutCause(ctx, cutPatience, fmt.Errorf("a part has not reached the time of the backup, %s, or has not decided a transaction that was prepared before, within %s", t.taken.Time.Said(), cutPatience))
	defer end()
	return t.each(ctx, func(ctx context.Context, p *takenPart) error { return p.cut(ctx, t.taken.Time) })
}

// cut stores the log of the part until it proves what was at a time: an entry of a later time is
// there, and the decisions of all transactions that were prepared then.
func (p *takenPart) cut(ctx context.Context, at Time) error {
	if err := p.c.mayShip(ctx, p.t.r); err != nil {
		return err
	}
	// Where nothing is written it would take a while until the set writes an entry by itself.
	idle := p.pass(ctx, at)
	position, reached := position{p.part.Index, p.part.Term}, p.part.Time
	for {
		past := reached > at
		undecided, err := p.ship(ctx, &position, &reached)
		if err != nil {
			return err
		}
		if past && (undecided == 0 || undecided > at) {
			return nil
		}
		if err := client.Sleep(ctx, cutPause); err != nil {
			return errors.Join(context.Cause(ctx), idle)
		}
	}
}

// ship stores the log behind a position, and moves that, and what was reached. It returns when the
// first transaction was prepared of which the log that is stored then has no decision, 0 for none.
func (p *takenPart) ship(ctx context.Context, at *position, reached *Time) (undecided Time, err error) {
	for first, more := true, true; more; first = false {
		var o logObject
		var b []byte
		if o, b, more, err = p.c.readLog(ctx, p.part.SetID, *at); err != nil {
			return 0, err
		}
		if first {
			undecided = o.prepared
		}
		if len(b) == 0 {
			break
		}
		if err := p.t.r.putLog(ctx, &o, p.part.SetID, b); err != nil {
			return 0, err
		}
		*at, *reached = position{o.last, o.term}, max(*reached, o.time)
	}
	return undecided, nil
}

// putLog stores entries of the log of a set.
func (r *Repository) putLog(ctx context.Context, o *logObject, set string, b []byte) error {
	_, _, err := r.put(ctx, func(sum string) string { return o.nameOf(set, sum) }, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	return err
}

// pass has the set's primary write an entry behind a time.
func (p *takenPart) pass(ctx context.Context, at Time) (err error) {
	uri := p.part.uri
	c, err := connect(ctx, uri.Of(client.SetString{Name: uri.Set, Hosts: uri.Hosts}, client.Primary))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	b := new(bson.Builder).Int32("appendOplogNote", 1).OpenDoc("data").String("msg", "backup of a cluster").Close()
	client.AppendTime(b, uint64(at))
	_, err = c.Run(ctx, "admin", b.Finish())
	return err
}
