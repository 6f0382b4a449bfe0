package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindMovePrimary moves the unsharded collections of a database to another shard.
//
// Args: {from, to, host: the donor's, version, next: the version after it}.
const KindMovePrimary = "movePrimary"

var movePrimary = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return []Request{o.setDatabase("from", "version", true, true)}
		},
		func(o *Operation, _ Answers) []Request {
			r := to(o.Args.Lookup("to").Str(), "_shardsvrCloneDatabase", o.Namespace, func(b *bson.Builder) { b.Value("from", o.Args.Lookup("host")) })
			r.ready = func(reply bson.Doc) (bool, error) { return reply.Lookup("done").Truthy(), failure(reply) }
			return []Request{r}
		},
	},
	// The donor first: it answers reads by what it has until it is told, and they must not
	// miss what is written on the recipient.
	stages{
		func(o *Operation, _ Answers) []Request {
			return []Request{o.setDatabase("from", "next", false, false)}
		},
		func(o *Operation, _ Answers) []Request { return []Request{o.setDatabase("to", "next", true, false)} },
		func(o *Operation, _ Answers) []Request { return []Request{o.dropUnsharded("from")} },
	},
	stages{func(o *Operation, _ Answers) []Request {
		return []Request{o.dropUnsharded("to"), o.setDatabase("from", "version", true, false)}
	}},
)

func (o *Operation) dropUnsharded(who string) Request {
	return to(o.Args.Lookup(who).Str(), "_shardsvrDropUnsharded", o.Namespace, nil)
}
