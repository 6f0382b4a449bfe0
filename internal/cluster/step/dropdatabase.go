package step

// KindDropDatabase drops a database with all that is in it, on its primary shard last.
//
// Args: {shards: all of them, primary}.
const KindDropDatabase = "dropDatabase"

var dropDatabase = phases(nil, stages{
	func(o *Operation, _ Answers) []Request { return each(o.others(), o.dropDatabaseOn) },
	func(o *Operation, _ Answers) []Request { return each(o.primary(), o.dropDatabaseOn) },
	dropChunks,
}, nil)

func (o *Operation) dropDatabaseOn(shard string) Request {
	return to(shard, "_shardsvrDropDatabase", o.Namespace, nil)
}
