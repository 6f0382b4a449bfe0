package router

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// configShard is the name of the config servers as the shard of the databases admin and
// config.
const configShard = "config"

// shards is the cache of config.shards, with a connection pool for each shard.
type shards struct {
	router *Router
	mu     sync.Mutex
	all    map[string]*knownShard
	closed bool
}

// knownShard is a document of config.shards.
type knownShard struct {
	name string
	host string // its replica set: "rs0/h1:27017"
	set  *client.Set
	doc  bson.Doc // of config.shards
}

// shard returns the client of a shard. It reads config.shards if the shard is not
// cached. Error 70.
func (s *shards) shard(ctx context.Context, name string) (*client.Set, error) {
	if name == configShard {
		return s.router.config, nil
	}
	s.mu.Lock()
	known := s.all[name]
	s.mu.Unlock()
	if known != nil {
		return known.set, nil
	}
	list, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if k.name == name {
			return k.set, nil
		}
	}
	return nil, mongoerr.New(mongoerr.ShardNotFound, "Shard %s not found", name)
}

// errClosed is the error of statements that still run when the router ends.
var errClosed = mongoerr.New(mongoerr.ShutdownInProgress, "the router is ending")

var byID = new(bson.Builder).Int32("_id", 1).Finish()

// list reads config.shards and returns all shards, sorted by name. It closes the
// connections to removed shards.
func (s *shards) list(ctx context.Context) ([]*knownShard, error) {
	docs, err := s.router.readConfig(ctx, "shards", bson.Empty, byID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	now := map[string]*knownShard{}
	for _, d := range docs {
		name, host := d.Lookup("_id"), d.Lookup("host")
		if name.Type != bson.TypeString || host.Type != bson.TypeString {
			return nil, mongoerr.New(mongoerr.UnsupportedFormat, "invalid document in config.shards: %s", d)
		}
		if name.Str() == configShard {
			now[configShard] = &knownShard{configShard, strings.Clone(host.Str()), s.router.config, d}
			continue
		}
		at, err := client.ParseSetString(host.Str())
		if err != nil {
			return nil, err
		}
		known := s.all[name.Str()]
		if known == nil || known.set.Name() != at.Name {
			known = &knownShard{name: strings.Clone(name.Str()), set: client.OpenSet(at, s.router.Client, &s.router.clock)}
		}
		now[known.name] = &knownShard{known.name, strings.Clone(host.Str()), known.set, d}
	}
	for name, k := range s.all {
		if n := now[name]; n == nil || n.set != k.set {
			s.closeSet(k)
		}
	}
	s.all = now
	sorted := slices.Collect(maps.Values(now))
	slices.SortFunc(sorted, func(a, b *knownShard) int { return strings.Compare(a.name, b.name) })
	return sorted, nil
}

func (s *shards) closeSet(k *knownShard) {
	if k.set != s.router.config {
		k.set.Close()
	}
}

// names returns the sorted names of all shards.
func (s *shards) names(ctx context.Context) ([]string, error) {
	list, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, k := range list {
		names[i] = k.name
	}
	return names, nil
}

// sets are those that the router has connections to: the config servers and the shards that it
// knows of, sorted by name.
func (s *shards) sets() []*client.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*client.Set{s.router.config}
	for _, k := range s.all {
		if k.set != s.router.config {
			all = append(all, k.set)
		}
	}
	slices.SortFunc(all, func(a, b *client.Set) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

func (s *shards) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		s.closeSet(k)
	}
	s.all, s.closed = nil, true
}
