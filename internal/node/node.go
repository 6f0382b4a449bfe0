package node

import (
	"log/slog"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Node is one data-bearing member. The server assembles it; its methods are the
// handlers of its commands.
type Node struct {
	Dispatcher *command.Dispatcher
	Params     *command.Params
	Log        *slog.Logger
	Catalog    *catalog.Catalog
	Exec       *exec.Executor
	// JavaScript runs the functions of clients; nil if the server runs none.
	JavaScript *javascript.Engine
	// Keys are what the members of the set or the cluster share; nil for nothing.
	Keys []string
	// ToPrimary are the options of connections to the primary of the set; Address is not used.
	ToPrimary client.Options
	// ByCertificate says that members may log in with their certificates.
	ByCertificate bool
	// Process is the process around the node.
	Process process.Process
	// Sets returns the sets that a router has connections to; nil for a server.
	Sets func() []*client.Set
	// FS has the data.
	FS storage.FS
	// InMemory says that the data end with the process.
	InMemory bool
	// ConfigServer says that the node is one of the config servers of a cluster.
	ConfigServer bool
	// Expiry describes expiry rules; nil if no monitor applies them.
	Expiry ExpiryReport
	// Forget removes documents from archives; nil if no monitor does.
	Forget ArchiveForgetter
	// Archives are where rules may archive; Register sets it.
	Archives *archive.Places

	archiveRead *command.IntParam // archiveMaxBytesRead

	knobs      *knobs
	used       *operatorCounts
	updated    updateCounts // by update, and
	modified   updateCounts // by findAndModify
	created    validatorCounts
	collModded validatorCounts
	accounts   *account.Store
	access     *access.Control // nil without access control
	cluster    clusterParameters
	settings   atomic.Pointer[QuerySettings] // of queries; nil for none
	compaction compaction
	quorums    quorums
	shard      bool                            // see BecomeShard
	concerns   atomic.Pointer[defaultConcerns] // of clients that give none; on a member
	// concernsChange has room for who changes them.
	concernsChange chan struct{}
	block          userWriteBlock
	backups        backups
}

// Register adds the node's commands to r.
func (n *Node) Register(r *command.Registry) {
	n.knobs = newKnobs(n.Params)
	n.accounts = account.New(account.Options{Catalog: n.Catalog, Keys: n.Keys, ByCertificate: n.ByCertificate, Log: n.Log, Params: n.Params})
	n.registerParameters(n.Params)
	n.registerArchive(n.Params)
	n.Process.Kind, n.Process.JavaScriptEngine = process.Mongod, n.javascriptEngine()
	n.Process.RegisterStatus(n.Dispatcher.Status)
	n.registerStatus(n.Dispatcher.Status)
	n.registerSetStatus(n.Dispatcher.Status)
	n.used = newOperatorCounts(n.Dispatcher.Status)
	n.Dispatcher.Profiler.Sink = n.writeProfile
	n.Dispatcher.DefaultWrite = n.defaultWrite
	n.startClusterParameters()
	n.concernsChange = make(chan struct{}, 1)
	n.startUserWrites()
	n.registerDiagnostic(r)
	n.registerData(r)
	n.registerSchema(r)
	place(r)
}

// registerData adds the commands that read and write documents.
func (n *Node) registerData(r *command.Registry) {
	r.Register(
		n.find(), n.count(), n.distinct(), n.aggregate(), n.mapReduce(), n.explain(),
		n.insert(), n.update(), n.delete(), n.findAndModify(), n.bulkWrite(), n.applyOps(),
	)
}

// registerDiagnostic adds the commands about the server, its connections and
// its sessions.
func (n *Node) registerDiagnostic(r *command.Registry) {
	r.Register(
		process.Hello(n.runHello), process.IsMaster(n.runHello), n.getDiagnosticData(), n.readBackupFile(), n.logApplicationMessage(),
		n.lockInfo(), n.top(), n.dbHash(), n.Process.CurrentOp(), n.Process.KillOp(), n.profile(), n.fsync(), n.fsyncUnlock(),
		n.setFeatureCompatibilityVersion(),
		n.dropConnections(), n.connPoolStats(), n.shardingState(), n.getClusterParameter(), n.setClusterParameter(),
		n.autoCompact(), n.setIndexCommitQuorum(), n.setUserWriteBlockMode(), n.compactStructuredEncryptionData(),
	)
	r.Register(n.abortTransaction(), n.commitTransaction(), n.prepareTransaction())
	r.Register(n.Process.Commands()...)
	r.Register(n.accounts.Commands()...)
	r.Register(SearchIndexCommands()...)
	r.Register(n.planCacheCommands()...)
	r.Register(n.setQuerySettings(), n.removeQuerySettings())
	r.Register(n.replicaSetCommands()...)
}
