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

// configShard is the name of the shard that the config servers are to those who ask for
// the databases admin and config.
const configShard = "config"

// shards are the shards that the router knows, and the connections to each.
type shards struct {
	router *Router
	mu     sync.Mutex
	all    map[string]*knownShard
}

// knownShard is a shard as config.shards has it.
type knownShard struct {
	name string
	host string // its replica set: "rs0/h1:27017"
	set  *client.Set
	doc  bson.Doc // of config.shards
}

// shard is the set of a shard. One that is not known is looked up. Error 70.
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

var byID = new(bson.Builder).Int32("_id", 1).Finish()

// list reads config.shards: all shards, in the order of their names. Connections to what
// is none any more are closed.
func (s *shards) list(ctx context.Context) ([]*knownShard, error) {
	docs, err := s.router.readConfig(ctx, "shards", bson.Empty, byID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]*knownShard{}
	for _, d := range docs {
		name, host := d.Lookup("_id"), d.Lookup("host")
		if name.Type != bson.TypeString || host.Type != bson.TypeString {
			return nil, mongoerr.New(mongoerr.UnsupportedFormat, "a document of config.shards is not what it must be: %s", d)
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

// names are the names of all shards, in order.
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

func (s *shards) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		s.closeSet(k)
	}
	s.all = nil
}
