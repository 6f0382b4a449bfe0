package router

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/process"
)

// Options are the dependencies of a Router.
type Options struct {
	// ConfigDB are the config servers.
	ConfigDB client.SetString
	// Keys are what the parts of the cluster share; nil for nothing.
	Keys []string
	// ByCertificate says that they may log in with their certificates.
	ByCertificate bool
	// AccessControl says that clients must log in, and may do what their roles grant.
	AccessControl bool
	// Client has the options of connections to other servers: TLS and login.
	Client     client.Options
	Dispatcher *command.Dispatcher
	Process    process.Process
	Log        *slog.Logger
	// JavaScript runs the functions of clients in the router's part of pipelines; nil for none.
	JavaScript *javascript.Engine
	// Memory is the memory budget of all operations; nil for none.
	Memory *memory.Budget
	// SpillDir is where the router's part of pipelines puts what memory cannot hold.
	SpillDir string
}

// Router is a cluster's router. Its methods are the handlers of its commands.
type Router struct {
	Options
	clock     client.Clock
	config    *client.Set
	shards    shards
	routes    routes
	concerns  defaultConcerns
	settings  querySettings
	streams   sync.WaitGroup // the ends of change streams, and who tells shards of snapshots
	snapshots snapshotReads
	samples   samples
	// transactions are those of its clients.
	transactions transactions
	ownSessions  ownSessions

	accounts *account.Store
	access   *access.Control
	// allowDiskUse says whether pipelines that do not say so may use the disk.
	allowDiskUse *command.BoolParam
	// userInterval is how often, in seconds, the router asks whether users have changed.
	userInterval *command.IntParam
}

// New returns a Router. It connects to the config servers in the background, until Close.
func New(o Options) *Router {
	r := &Router{Options: o}
	r.Client.AppName = "mayfly router"
	r.config = client.OpenSet(o.ConfigDB, r.Client, &r.clock)
	r.shards, r.routes.router, r.transactions.router = newShards(r), r, r
	r.concerns.turn, r.settings.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	r.Process.Kind = process.Mongos
	if r.JavaScript != nil {
		r.Process.JavaScriptEngine = node.JavaScriptEngine
	}
	r.accounts = account.New(account.Options{Source: configUsers{r}, Keys: o.Keys, ByCertificate: o.ByCertificate, Log: o.Log, Params: o.Dispatcher.Params})
	r.access = &access.Control{Accounts: r.accounts, Collections: collectionsOf{r}}
	r.allowDiskUse = o.Dispatcher.Params.Bool(command.BoolSpec{Name: "allowDiskUseByDefault", Default: true})
	r.userInterval = o.Dispatcher.Params.Int(command.IntSpec{Name: "userCacheInvalidationIntervalSecs", Default: 30, Min: 1, HasMin: true, Max: 86_400, HasMax: true})
	r.samples = samples{
		router: r,
		every:  o.Dispatcher.Params.Int(command.IntSpec{Name: "queryAnalyzerConfigurationRefreshSecs", Default: 10, Min: 1, HasMin: true, Max: 3600, HasMax: true}),
		life:   o.Dispatcher.Params.Int(command.IntSpec{Name: "queryAnalysisSampleExpirationSecs", Default: 7 * 24 * 3600, Min: 1, HasMin: true}),
	}
	o.Dispatcher.Background = append(o.Dispatcher.Background, r.samples.shown)
	if o.AccessControl {
		o.Dispatcher.Authorize = r.authorize
	}
	o.Dispatcher.Transact, o.Dispatcher.Abandon, o.Dispatcher.WithoutLocal = r.transact, r.transactions.abandon, true
	process.RegisterParameters(o.Dispatcher.Params)
	process.RegisterTestCommands(o.Dispatcher)
	o.Dispatcher.Clock, o.Dispatcher.DefaultWrite = &r.clock, r.defaultWrite
	return r
}

// Close closes all connections to other servers.
func (r *Router) Close(context.Context) error {
	r.streams.Wait()
	r.transactions.close()
	r.shards.close()
	r.config.Close()
	return nil
}

// Register adds the router's commands to a registry.
func (r *Router) Register(reg *command.Registry) {
	r.Process.RegisterStatus(r.Dispatcher.Status)
	reg.Register(r.Process.Commands()...)
	reg.Register(process.Hello(r.runHello), process.IsMaster(r.runHello))
	data := []*command.Command{
		r.find(), r.fileMD5(), r.count(), r.distinct(), r.aggregate(), r.mapReduce(), r.explain(),
		r.insert(), r.update(), r.delete(), r.findAndModify(), r.bulkWrite(),
	}
	data = append(data, r.validateMetadata())
	reg.Register(declared(slices.Concat(data, r.ddl(), r.lists(), r.stats(), r.planCaches()))...)
	reg.Register(declared(r.transactionCommands())...)
	r.Dispatcher.Status.Document("transactions", r.transactions.stats.write)
	reg.Register(r.clusterCommands()...)
	reg.Register(r.concernCommands()...)
	reg.Register(r.settingsCommands()...)
	reg.Register(r.analyzeShardKey(), r.checkMetadataConsistency(), r.isDBGrid())
	reg.Register(refused()...)
	reg.Register(r.userCommands()...)
	reg.Register(r.operations()...)
	reg.Register(r.everywhere()...)
	reg.Register(node.CommandsOfRouters(r.Dispatcher, r.Process, r.shards.sets, r.Log)...)
}

// declared gives commands the arguments that a server declares for those of the same name,
// so that a router refuses what a server refuses.
func declared(commands []*command.Command) []*command.Command {
	for _, d := range node.Declared() {
		for _, c := range commands {
			if c.Name == d.Name {
				c.Fields, c.CheckReadConcern = d.Fields, d.CheckReadConcern
			}
		}
	}
	return commands
}
