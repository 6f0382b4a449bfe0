package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindAddShard adds a replica set to the cluster as a shard.
//
// Args: {shard, host, clusterId, configdb, databases: {name: version}, settings: [those of the
// cluster, as KindSettings has them]}.
const KindAddShard = "addShard"

// KindRemoveShard removes a drained shard from the cluster.
//
// Args: {shard, host, clusterId, configdb, settings}.
const KindRemoveShard = "removeShard"

var (
	addShard = phases(
		stages{identify, settle},
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
		stages{unsettle, leave},
	)
	removeShard = phases(stages{leave, unsettle}, nil, stages{identify, settle})
)

func identify(o *Operation, _ Answers) []Request {
	return []Request{{Shard: o.Args.Lookup("shard").Str(), Body: new(bson.Builder).Int32("_shardsvrIdentify", 1).Value("clusterId", o.Args.Lookup("clusterId")).
		Value("name", o.Args.Lookup("shard")).Value("configdb", o.Args.Lookup("configdb")).Finish()}}
}

// settle tells the shard the settings of the cluster. The config servers have them, also where
// they are the shard, and an operation that an earlier version has begun says none.
func settle(o *Operation, _ Answers) []Request {
	if !o.Args.Has("settings") {
		return nil
	}
	return tellSettings([]string{o.Args.Lookup("shard").Str()}, o.Args.Lookup("settings"), o.Phase == Undone)
}

// unsettle takes them from the shard again, and none that arrives late is taken.
func unsettle(o *Operation, _ Answers) []Request {
	if !o.Args.Has("settings") {
		return nil
	}
	none := new(bson.Builder).OpenArray("none")
	for i, v := range o.Args.Lookup("settings").Doc().Slice() {
		none.OpenDoc(bson.Index(i)).Value("of", v.Doc().Lookup("of")).Value("id", v.Doc().Lookup("id")).Close()
	}
	return tellSettings([]string{o.Args.Lookup("shard").Str()}, none.Close().Finish().Lookup("none"), true)
}

// leave names the shard that leaves, too: a set that is another one, or one of another
// cluster, was never added.
func leave(o *Operation, _ Answers) []Request {
	return []Request{{Shard: o.Args.Lookup("shard").Str(), Body: new(bson.Builder).Int32("_shardsvrLeave", 1).
		Value("clusterId", o.Args.Lookup("clusterId")).Value("name", o.Args.Lookup("shard")).Finish()}}
}
