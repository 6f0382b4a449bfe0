package step

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// KindSettings changes what holds for a whole cluster, also on shards that are added later: a
// parameter of the cluster, or whether user writes are blocked. Once it is committed it is in
// effect on all shards; if one of them cannot, they all get back what was before. An operation
// that adds a shard tells it all of them.
//
// A setting is {of: a collection of the database config, id, is: its document there, or none}.
//
// Args: {shards, settings: [setting], before: [the same ones as they were], ddl: true if
// definitions are not changed from the operation's beginning on}.
const KindSettings = "settings"

// AwaitDDL and RestoreSettings are executed by the config primary itself: the one waits for
// changes of definitions that began before the operation, the other writes what was before.
const (
	AwaitDDL        = "awaitDDL"
	RestoreSettings = "restoreSettings"
)

// ofCluster is what the requests about settings are about: they have one fence.
const ofCluster = "config"

// tellSettings tells shards a list of settings. A shard of an earlier version has none: it
// cannot be given any, and there are none to take from it. (undo)
func tellSettings(shards []string, settings bson.Value, undo bool) []Request {
	return each(shards, func(shard string) Request {
		r := to(shard, "_shardsvrSettings", ofCluster, func(b *bson.Builder) { b.Value("settings", settings) })
		r.unknown = func() error {
			if undo {
				return nil
			}
			return mongoerr.New(mongoerr.IncompatibleServerVersion, "the shard %s is of an earlier version, which has no settings of the cluster: upgrade it first", shard)
		}
		return r
	})
}

// tellAll tells all shards those of an argument.
func tellAll(name string) stage {
	return func(o *Operation, _ Answers) []Request {
		return tellSettings(texts(o.Args, "shards"), o.Args.Lookup(name), o.Phase == Undone)
	}
}

// here is a request that the config primary executes, of an operation with ddl.
func here(name string) stage {
	return func(o *Operation, _ Answers) []Request {
		if !o.Args.Lookup("ddl").Truthy() {
			return nil
		}
		return []Request{to(Here, name, o.Namespace, nil)}
	}
}

var settings = phases(stages{here(AwaitDDL), tellAll("settings")}, nil, stages{here(RestoreSettings), tellAll("before")})
