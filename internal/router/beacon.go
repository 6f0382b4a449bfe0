package router

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/process"
)

const (
	// beaconPause is the interval between two updates of config.mongos.
	beaconPause = 10 * time.Second
	// beaconTime bounds the time of an update.
	beaconTime = 5 * time.Second
)

// Beacon updates the router's document in config.mongos until ctx ends. Shells list the
// active routers by it.
func (r *Router) Beacon(ctx context.Context) {
	for {
		now, cancel := context.WithTimeout(ctx, beaconTime)
		if _, err := r.config.Run(now, client.Call{DB: "config", Body: r.presence(), Idempotent: true}); err != nil && ctx.Err() == nil {
			r.Log.InfoContext(ctx, "The router could not update its document in config.mongos", "error", err)
		}
		cancel()
		if client.Sleep(ctx, beaconPause) != nil {
			return
		}
	}
}

// presence returns the update of config.mongos.
func (r *Router) presence() bson.Doc {
	name := r.Process.Name()
	b := new(bson.Builder).String("update", "mongos").OpenArray("updates").OpenDoc("0").OpenDoc("q").String("_id", name).Close()
	b.OpenDoc("u").OpenDoc("$set").Date("ping", time.Now().UnixMilli()).Int64("up", int64(time.Since(r.Process.StartTime)/time.Second)).
		Bool("waiting", true).String("mongoVersion", process.Version).OpenArray("advisoryHostFQDNs").Close().Close()
	b.OpenDoc("$setOnInsert").Date("created", r.Process.StartTime.UnixMilli()).Close().Close()
	return b.Bool("upsert", true).Close().Close().OpenDoc("writeConcern").String("w", "majority").Close().Finish()
}
