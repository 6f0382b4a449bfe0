package router

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// concernInterval is how long another router's setDefaultRWConcern may stay unknown, as
// in mongos.
const concernInterval = 30 * time.Second

// defaultConcerns are the cluster's concerns of clients that give none. The config servers
// store them, and the router adds the write concern to what it sends to shards.
type defaultConcerns struct {
	turn  chan struct{} // whoever has it reads them for the first time
	known atomic.Pointer[knownConcerns]
}

// knownConcerns are the defaults as they were read last. Immutable.
type knownConcerns struct {
	reply bson.Doc              // of getDefaultRWConcern
	write *command.WriteConcern // nil: the implicit one, which shards have as well
	at    time.Time
}

// defaultWrite is Dispatcher.DefaultWrite. It reads the defaults if nobody has yet.
func (r *Router) defaultWrite(ctx context.Context) *command.WriteConcern {
	k := r.concerns.known.Load()
	if k == nil {
		var err error
		if k, err = r.firstConcerns(ctx); err != nil {
			r.Log.InfoContext(ctx, "The config servers do not say the default write concern", "error", err)
			return nil
		}
	}
	return k.write
}

// firstConcerns returns the defaults, which it reads if nobody has before.
func (r *Router) firstConcerns(ctx context.Context) (*knownConcerns, error) {
	leave, err := inTurn(ctx, r.concerns.turn)
	if err != nil {
		return nil, err
	}
	defer leave()
	if k := r.concerns.known.Load(); k != nil {
		return k, nil
	}
	return r.readConcerns(ctx)
}

// readConcerns reads the defaults from the config servers, and keeps them.
func (r *Router) readConcerns(ctx context.Context) (*knownConcerns, error) {
	a, err := r.config.Run(ctx, client.Call{DB: "admin", Body: new(bson.Builder).Int32("getDefaultRWConcern", 1).Finish(), Idempotent: true})
	if err != nil {
		return nil, err
	}
	return r.keepConcerns(a.Reply)
}

// keepConcerns keeps the defaults of a reply to getDefaultRWConcern or setDefaultRWConcern.
func (r *Router) keepConcerns(reply bson.Doc) (*knownConcerns, error) {
	k := &knownConcerns{reply: reply.Clone(), at: time.Now()}
	if bson.Equal(reply.Lookup("defaultWriteConcernSource"), bson.String("global")) {
		w, err := command.ParseDefaultWrite(document(k.reply.Lookup("defaultWriteConcern")))
		if err != nil {
			return nil, err
		}
		k.write = &w
	}
	r.concerns.known.Store(k)
	return k, nil
}

// FollowConcerns reads the defaults again and again, until ctx ends: another router may
// have changed them.
func (r *Router) FollowConcerns(ctx context.Context) {
	for client.Sleep(ctx, concernInterval) == nil {
		if _, err := r.readConcerns(ctx); err != nil && ctx.Err() == nil {
			r.Log.InfoContext(ctx, "The config servers do not say the default write concern", "error", err)
		}
	}
}

// concernCommands get and set the cluster's defaults. (Manual: database commands
// getDefaultRWConcern, setDefaultRWConcern.)
func (r *Router) concernCommands() []*command.Command {
	return declared([]*command.Command{
		{Name: "getDefaultRWConcern", Flags: command.AdminOnly, Help: "get the current read/write concern defaults (cluster-wide)", Run: r.passConcerns},
		{Name: "setDefaultRWConcern", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "set the current read/write concern defaults (cluster-wide)", Run: r.passConcerns},
	})
}

func (r *Router) passConcerns(ctx context.Context, op *command.Op) error {
	if op.Name == "getDefaultRWConcern" && op.Args.Bool("inMemory") {
		k, err := r.firstConcerns(ctx)
		if err != nil {
			return err
		}
		passReply(op, withoutFields(k.reply, "localUpdateWallClockTime"))
		op.Reply.Date("localUpdateWallClockTime", k.at.UnixMilli()).Bool("inMemory", true)
		return nil
	}
	name, first := op.Body.First()
	b := new(bson.Builder).Value(name, first)
	appendRest(b, op.Body)
	if err := r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Finish(), Idempotent: true}); err != nil {
		return err
	}
	_, err := r.readConcerns(ctx)
	return err
}
