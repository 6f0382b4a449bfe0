package router

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/node"
)

// settingsInterval is how long another router's setQuerySettings may stay unknown, as in
// mongos.
const settingsInterval = 30 * time.Second

// querySettings are those of the cluster. The config servers store them; the router finds the
// settings of a client's query by its shape, refuses what is to be rejected, and tells shards
// the rest.
type querySettings struct {
	turn  chan struct{} // whoever has it reads them for the first time
	known atomic.Pointer[knownSettings]
}

// knownSettings are the settings as they were read last. Immutable.
type knownSettings struct{ all *node.QuerySettings }

// querySettings returns the settings, which it reads if nobody has before. While the config
// servers do not say them, there are none.
func (r *Router) querySettings(ctx context.Context) *node.QuerySettings {
	if k := r.settings.known.Load(); k != nil {
		return k.all
	}
	leave, err := inTurn(ctx, r.settings.turn)
	if err != nil {
		return nil
	}
	defer leave()
	if k := r.settings.known.Load(); k != nil {
		return k.all
	}
	if err := r.readSettings(ctx); err != nil {
		r.Log.InfoContext(ctx, "The config servers do not say the query settings", "error", err)
		r.settings.known.Store(new(knownSettings)) // until FollowSettings knows better
	}
	return r.settings.known.Load().all
}

// readSettings reads the settings from the config servers, and keeps them, and the cluster's
// parameter defaultMaxTimeMS.
func (r *Router) readSettings(ctx context.Context) error {
	b := new(bson.Builder).String("find", "clusterParameters").OpenDoc("filter").OpenDoc("_id").Strings("$in", node.SettingsField, node.DefaultMaxTime).Close().Close().Int32("limit", 2).Bool("singleBatch", true)
	b.OpenDoc("readConcern").String("level", "majority").Close()
	a, err := r.config.Run(ctx, client.Call{DB: "config", Body: b.Finish(), Idempotent: true})
	if err != nil {
		return err
	}
	k, readTime := new(knownSettings), int64(0)
	for _, d := range documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch")) {
		if bson.Equal(d.Lookup("_id"), bson.String(node.DefaultMaxTime)) {
			readTime = bson.ClampToInt64(d.Lookup("readOperations"))
			continue
		}
		k.all = node.NewQuerySettings(d.Clone())
	}
	r.Dispatcher.DefaultReadTime.Store(readTime)
	r.settings.known.Store(k)
	return nil
}

// FollowSettings reads the settings again and again, until ctx ends: another router may have
// changed them.
func (r *Router) FollowSettings(ctx context.Context) {
	for client.Sleep(ctx, settingsInterval) == nil {
		r.refreshSettings(ctx)
	}
}

// refreshSettings reads the settings, if the config servers answer: else FollowSettings will. What
// was set is in effect on the shards.
func (r *Router) refreshSettings(ctx context.Context) {
	if err := r.readSettings(ctx); err != nil && ctx.Err() == nil {
		r.Log.InfoContext(ctx, "The config servers do not say the query settings", "error", err)
	}
}

// settingsCommands set and remove them. (Manual: database commands setQuerySettings,
// removeQuerySettings.)
func (r *Router) settingsCommands() []*command.Command {
	return declared([]*command.Command{
		{Name: "setQuerySettings", Flags: command.AdminOnly, Help: "Sets the query settings for the query shape of a given query.", Run: r.passSettings},
		{Name: "removeQuerySettings", Flags: command.AdminOnly, Help: "Removes the query settings for the query shape of a given query.", Run: r.passSettings},
	})
}

func (r *Router) passSettings(ctx context.Context, op *command.Op) error {
	name, first := op.Body.First()
	b := new(bson.Builder).Value(name, first)
	appendRest(b, op.Body)
	if err := r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Finish(), Idempotent: true}); err != nil {
		return err
	}
	r.refreshSettings(ctx)
	return nil
}

// bySettings runs a query by what is set for its shape: shards hear it in a field of the
// command. Errors: 411.
func (r *Router) bySettings(run func(context.Context, *command.Op) error) func(context.Context, *command.Op) error {
	return func(ctx context.Context, op *command.Op) error {
		if err := node.CheckSettingsField(op); err != nil {
			return err
		}
		if all := r.querySettings(ctx); all != nil && !op.Body.Lookup("explain").Truthy() {
			s, err := all.Of(op.DB, op.Body)
			if err != nil {
				return err
			}
			if s != nil {
				op.Body = withField(op.Body, node.SettingsField, bson.Document(s))
			}
		}
		return run(ctx, op)
	}
}

// withSettings returns a query that is explained with what is set for its shape.
func (r *Router) withSettings(ctx context.Context, db string, query, sent bson.Doc) bson.Doc {
	if s, _ := r.querySettings(ctx).Of(db, query); s != nil { // an explain of what is rejected shows it
		return withField(sent, node.SettingsField, bson.Document(s))
	}
	return sent
}
