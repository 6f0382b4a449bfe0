package router

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/process"
)

const (
	// beaconPause is how often a router says that it is there.
	beaconPause = 10 * time.Second
	// beaconTime is how long that may take.
	beaconTime = 5 * time.Second
)

// Beacon says in config.mongos that the router is there, until ctx ends: so shells show
// which routers are active.
func (r *Router) Beacon(ctx context.Context) {
	for {
		now, cancel := context.WithTimeout(ctx, beaconTime)
		if _, err := r.config.Run(now, client.Call{DB: "config", Body: r.presence(), Idempotent: true}); err != nil && ctx.Err() == nil {
			r.Log.InfoContext(ctx, "The config servers were not told that this router is there", "error", err)
		}
		cancel()
		if rest(ctx, beaconPause) != nil {
			return
		}
	}
}

// presence is the update of config.mongos.
func (r *Router) presence() bson.Doc {
	name := r.Process.Name()
	b := new(bson.Builder).String("update", "mongos").OpenArray("updates").OpenDoc("0").OpenDoc("q").String("_id", name).Close()
	b.OpenDoc("u").OpenDoc("$set").Date("ping", time.Now().UnixMilli()).Int64("up", int64(time.Since(r.Process.StartTime)/time.Second)).
		Bool("waiting", true).String("mongoVersion", process.Version).OpenArray("advisoryHostFQDNs").Close().Close()
	b.OpenDoc("$setOnInsert").Date("created", r.Process.StartTime.UnixMilli()).Close().Close()
	return b.Bool("upsert", true).Close().Close().OpenDoc("writeConcern").String("w", "majority").Close().Finish()
}
