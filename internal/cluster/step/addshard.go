package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindAddShard adds a replica set to the cluster as a shard.
//
// Args: {shard, host, clusterId, configdb, databases: {name: version}}.
const KindAddShard = "addShard"

// KindRemoveShard removes a drained shard from the cluster.
//
// Args: {shard, host, clusterId, configdb}.
const KindRemoveShard = "removeShard"

var (
	addShard = phases(
		stages{identify},
		stages{func(o *Operation, _ Answers) []Request {
			var out []Request
			for db, version := range o.Args.Lookup("databases").Doc().All() {
				out = append(out, to(o.Args.Lookup("shard").Str(), "_shardsvrSetDatabase", db, func(b *bson.Builder) {
					b.Value("version", version)
					b.Bool("primary", true).Bool("blocked", false)
				}))
			}
			return out
		}},
		stages{leave},
	)
	removeShard = phases(stages{leave}, nil, stages{identify})
)

func identify(o *Operation, _ Answers) []Request {
	return []Request{{Shard: o.Args.Lookup("shard").Str(), Body: new(bson.Builder).Int32("_shardsvrIdentify", 1).Value("clusterId", o.Args.Lookup("clusterId")).
		Value("name", o.Args.Lookup("shard")).Value("configdb", o.Args.Lookup("configdb")).Finish()}}
}

// leave names the shard that leaves, too: a set that is another one, or one of another
// cluster, was never added.
func leave(o *Operation, _ Answers) []Request {
	return []Request{{Shard: o.Args.Lookup("shard").Str(), Body: new(bson.Builder).Int32("_shardsvrLeave", 1).
		Value("clusterId", o.Args.Lookup("clusterId")).Value("name", o.Args.Lookup("shard")).Finish()}}
}
