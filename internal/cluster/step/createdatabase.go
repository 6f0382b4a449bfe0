package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindCreateDatabase creates a database and tells its primary shard.
//
// Args: {primary, version}.
const KindCreateDatabase = "createDatabase"

var createDatabase = phases(nil, stages{func(o *Operation, _ Answers) []Request {
	return []Request{o.setDatabase("primary", "version", true, false)}
}}, nil)

// setDatabase tells a shard whether it is the primary shard of a database.
func (o *Operation) setDatabase(who, version string, primary, blocked bool) Request {
	return to(o.Args.Lookup(who).Str(), "_shardsvrSetDatabase", o.Namespace, func(b *bson.Builder) {
		b.Value("version", o.Args.Lookup(version))
		b.Bool("primary", primary).Bool("blocked", blocked)
	})
}
