package configsvr

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/shard"
)

// Shards asks replica sets, by "set/host:port,…".
type Shards interface {
	// Ask sends a command to the primary of a set, once or, where nothing is known to
	// have been executed, again. The reply is the caller's.
	Ask(ctx context.Context, host, db string, body bson.Doc) (bson.Doc, error)
}

// Primary says whether this process is the primary of the config servers.
type Primary interface {
	// Term is the term in which it takes writes, 0 where it does not.
	Term() uint64
	// Changed is closed when that may be another.
	Changed() <-chan struct{}
}

// Options are what a Server works with.
type Options struct {
	Catalog *catalog.Catalog
	Shards  Shards
	Primary Primary
	// Enter lets work use the data until it calls leave.
	Enter func(ctx context.Context) (inside context.Context, leave func(), err error)
	// ClusterTime is the time of the cluster's clock.
	ClusterTime func() uint64
	// Host is this process in config.changelog; ConfigDB is the config servers' set as
	// "set/host:port,…".
	Host     string
	ConfigDB func() string
	Log      *slog.Logger
	// Pause is how long the driver waits before it asks again, and the balancer between
	// rounds; the defaults where zero.
	Pause, RoundPause time.Duration
}

const (
	defaultPause      = 100 * time.Millisecond
	defaultRoundPause = 10 * time.Second
)

// Server is a config server. Make one with New.
type Server struct {
	Options

	// mu guards every change of config.* (invariant one-change).
	mu sync.Mutex
	// maps are the chunks of collections, as far as they were read in this term.
	maps map[bson.UUID]*shard.Map

	claims claims
	// now is the term under way.
	terms struct {
		sync.Mutex
		now *term
	}
	balancer balancer
}

// New makes a Server.
func New(o Options) *Server {
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.RoundPause == 0 {
		o.RoundPause = defaultRoundPause
	}
	s := &Server{Options: o, maps: map[bson.UUID]*shard.Map{}}
	s.claims.init()
	return s
}

// Commands are the commands that routers send.
func (s *Server) Commands() []*command.Command {
	return []*command.Command{
		s.addShard(), s.listShards(), s.removeShard(),
		s.createDatabase("CreateDatabase"), s.createDatabase("EnableSharding"), s.movePrimary(), s.dropDatabase(),
		s.shardCollection(), s.drop(), s.renameCollection(), s.refineCollectionShardKey(), s.indexes("CreateIndexes"), s.indexes("DropIndexes"), s.indexes("CollMod"),
		s.split(), s.mergeChunks(), s.mergeAllChunksOnShard(), s.moveChunk(), s.moveRange(), s.clearJumboFlag(),
		s.addShardToZone(), s.removeShardFromZone(), s.updateZoneKeyRange(),
		s.balancerStart(), s.balancerStop(), s.balancerStatus(), s.balancerCollectionStatus(), s.configureCollectionBalancing(), s.setAllowMigrations(),
	}
}

// newID makes an ObjectId.
func (s *Server) newID() [12]byte { return bson.NewObjectID() }

// newUUID makes a random UUID.
func newUUID() (id bson.UUID) {
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// generation makes that of a collection which begins now.
func (s *Server) generation() shard.Generation {
	return shard.Generation{Epoch: s.newID(), Timestamp: s.ClusterTime()}
}
