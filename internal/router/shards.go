package router

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// configShard is the name of the config servers as the shard of the databases admin and
// config.
const configShard = "config"

// shards is the cache of config.shards, with a connection pool for each shard.
type shards struct {
	router *Router
	// read reads config.shards, sorted by name.
	read func(context.Context) ([]bson.Doc, error)
	// turn is held by whoever reads: of two reads at a time the older one could be the last to
	// be kept.
	turn   chan struct{}
	mu     sync.Mutex
	all    map[string]*knownShard
	began  int // reads that have begun
	newest int // the last of them that was kept
	closed bool
}

func newShards(r *Router) shards {
	return shards{router: r, turn: make(chan struct{}, 1), read: func(ctx context.Context) ([]bson.Doc, error) {
		return r.readConfig(ctx, "shards", bson.Empty, byID)
	}}
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

// list returns all shards, sorted by name, as config.shards has had them after it was called. It
// closes the connections to removed shards. Those who wait for the same read share the next.
func (s *shards) list(ctx context.Context) ([]*knownShard, error) {
	s.mu.Lock()
	began := s.began
	s.mu.Unlock()
	leave, err := inTurn(ctx, s.turn)
	if err != nil {
		return nil, err
	}
	defer leave()
	s.mu.Lock()
	if s.newest > began && !s.closed {
		defer s.mu.Unlock()
		return s.sortedLocked(), nil
	}
	s.began++
	s.mu.Unlock()
	docs, err := s.read(ctx)
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
	s.all, s.newest = now, s.began
	return s.sortedLocked(), nil
}

// sortedLocked are the shards by name. REQUIRES: mu held.
func (s *shards) sortedLocked() []*knownShard {
	invariant.Held(&s.mu, "router: mu of the shards is held")
	sorted := slices.Collect(maps.Values(s.all))
	slices.SortFunc(sorted, func(a, b *knownShard) int { return strings.Compare(a.name, b.name) })
	return sorted
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
