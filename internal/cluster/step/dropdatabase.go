package step

// KindDropDatabase drops a database with all that is in it.
//
// Args: {shards: all of them}.
const KindDropDatabase = "dropDatabase"

var dropDatabase = phases(nil, stages{
	func(o *Operation, _ Answers) []Request {
		return each(texts(o.Args, "shards"), func(shard string) Request { return to(shard, "_shardsvrDropDatabase", o.Namespace, nil) })
	},
	dropChunks,
}, nil)
