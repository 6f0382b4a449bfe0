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

// Shards sends commands to replica sets, named "set/host:port,…".
type Shards interface {
	// Ask sends a command to the primary of a set. It retries if the command is known
	// not to have been executed. The caller owns the reply.
	Ask(ctx context.Context, host, db string, body bson.Doc) (bson.Doc, error)
}

// Primary tells whether this process is the primary of the config servers.
type Primary interface {
	// Term is the term in which it accepts writes, 0 if it does not.
	Term() uint64
	// Changed is closed when the term may have changed.
	Changed() <-chan struct{}
	// ReadIndex returns when this process has been the primary at a moment after the call.
	// Errors: 10107 if it is not.
	ReadIndex(ctx context.Context) error
}

// Options are the dependencies of a Server.
type Options struct {
	Catalog *catalog.Catalog
	Shards  Shards
	Primary Primary
	// Enter allows the caller to use the data until it calls leave.
	Enter func(ctx context.Context) (inside context.Context, leave func(), err error)
	// ClusterTime returns the current cluster time.
	ClusterTime func() uint64
	// Host names this process in config.changelog. ConfigDB is the config servers' set,
	// as "set/host:port,…".
	Host     string
	ConfigDB func() string
	Log      *slog.Logger
	// Pause is how long the driver waits before it retries, RoundPause how long the
	// balancer waits between rounds. Zero means the default. With a negative RoundPause no
	// round begins by itself.
	Pause, RoundPause time.Duration
	// Throttle returns how long the balancer waits behind a round that moved something, and at
	// least behind each; nil for the default.
	Throttle func() time.Duration
	// Dispatcher is where currentOp shows moves; nil for nowhere.
	Dispatcher *command.Dispatcher
	// SettingsChanged has this member go by the settings that are stored; nil: it has none.
	SettingsChanged func()
	// CriticalSection returns how long a resharding may block writes; nil for the default.
	CriticalSection func() time.Duration
}

const (
	defaultPause      = 100 * time.Millisecond
	defaultRoundPause = 10 * time.Second
)

// DefaultThrottle is mongod's balancerMigrationsThrottlingMs.
const DefaultThrottle = time.Second

// DefaultCriticalSection is mongod's reshardingCriticalSectionTimeoutMillis.
const DefaultCriticalSection = 5 * time.Second

// Server is a config server. Make one with New.
type Server struct {
	Options

	// mu guards every change of config.* (invariant one-change).
	mu sync.Mutex
	// maps caches the chunks of collections that were read in this term.
	maps map[bson.UUID]*shard.Map

	claims claims
	// now is the current term, taken the last one that has read the metadata.
	terms struct {
		sync.Mutex
		now, taken *term
	}
	balancer balancer
	unshards unshards
	sharing  sharing
}

// New makes a Server.
func New(o Options) *Server {
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.RoundPause == 0 {
		o.RoundPause = defaultRoundPause
	}
	if o.Throttle == nil {
		o.Throttle = func() time.Duration { return DefaultThrottle }
	}
	if o.CriticalSection == nil {
		o.CriticalSection = func() time.Duration { return DefaultCriticalSection }
	}
	s := &Server{Options: o, maps: map[bson.UUID]*shard.Map{}}
	s.balancer.soon = make(chan struct{}, 1)
	s.claims.init()
	o.Catalog.OnStepUp(func(context.Context) error { // before this process takes writes (invariant own-term)
		s.endTerm()
		return nil
	})
	return s
}

// Commands returns the commands that routers send.
func (s *Server) Commands() []*command.Command {
	return append(s.dedicatedSteps(),
		s.addShard(), s.transitionFromDedicatedConfigServer(), s.transitionToDedicatedConfigServer(), s.listShards(), s.removeShard(), s.startShardDraining(), s.stopShardDraining(), s.shardDrainingStatus(), s.commitShardRemoval(),
		s.createDatabase("CreateDatabase"), s.createDatabase("EnableSharding"), s.movePrimary(), s.dropDatabase(),
		s.moveCollection(), s.abortMoveCollection(), s.untrackUnshardedCollection(), s.unshardCollection(), s.abortUnshardCollection(),
		s.reshardCollection(), s.commitReshardCollection(), s.abortReshardCollection(),
		s.shardCollection(), s.drop(), s.renameCollection(), s.refineCollectionShardKey(), s.indexes("CreateIndexes"), s.indexes("DropIndexes"), s.indexes("CollMod"),
		s.split(), s.mergeChunks(), s.mergeAllChunksOnShard(), s.moveChunk(), s.moveRange(), s.clearJumboFlag(),
		s.addShardToZone(), s.removeShardFromZone(), s.updateZoneKeyRange(),
		s.balancerStart(), s.balancerStop(), s.balancerStatus(), s.balancerCollectionStatus(), s.configureCollectionBalancing(), s.setAllowMigrations(),
		s.configureQueryAnalyzer(), s.refreshQueryAnalyzers(), s.shareExpiry(),
		s.setUserWriteBlockMode(), s.setClusterParameter(), s.checkMetadataConsistency(),
	)
}

// newID returns a new ObjectId.
func (s *Server) newID() [12]byte { return bson.NewObjectID() }

// newUUID returns a random UUID.
func newUUID() (id bson.UUID) {
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// generation returns the generation of a collection that is created now.
func (s *Server) generation() shard.Generation {
	return shard.Generation{Epoch: s.newID(), Timestamp: s.ClusterTime()}
}
