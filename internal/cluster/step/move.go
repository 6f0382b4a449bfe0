package step

import "github.com/mayflydb/mayfly/internal/bson"

// KindMove moves a range from one shard to another.
//
// Args: {from, to, host: the donor's, min, max, uuid, key, unique, generation}.
// Told: {given, own}, the versions of both.
const KindMove = "move"

// BehindMS is the largest lag of the recipient, in milliseconds, at which the donor
// begins to block writes.
const BehindMS = 1200

var move = phases(
	stages{
		func(o *Operation, _ Answers) []Request {
			return []Request{o.ranged("to", "_shardsvrReceive", func(b *bson.Builder) {
				copied(b, o.Args, "uuid", "key", "unique", "generation")
				b.Value("from", o.Args.Lookup("host"))
			})}
		},
		func(o *Operation, _ Answers) []Request {
			r := o.ranged("to", "_shardsvrReceived", func(b *bson.Builder) { b.Int64("behind", BehindMS) })
			r.Asks, r.ready = true, func(reply bson.Doc) (bool, error) {
				return reply.Has("behind") && number(reply, "behind") <= BehindMS, failure(reply)
			}
			return []Request{r}
		},
		func(o *Operation, _ Answers) []Request {
			return []Request{o.ranged("from", "_shardsvrBlock", func(b *bson.Builder) { b.Bool("reads", false) })}
		},
		func(o *Operation, got Answers) []Request {
			position := got.From(o.Args.Lookup("from").Str(), "_shardsvrBlock").Lookup("position")
			r := o.ranged("to", "_shardsvrReceived", func(b *bson.Builder) { b.Value("until", position) })
			r.ready = func(reply bson.Doc) (bool, error) { return true, failure(reply) }
			return []Request{r}
		},
		func(o *Operation, _ Answers) []Request {
			return []Request{o.ranged("from", "_shardsvrBlock", func(b *bson.Builder) { b.Bool("reads", true) })}
		},
	},
	// In parallel: the donor hides the range from the commit on.
	stages{func(o *Operation, _ Answers) []Request {
		return []Request{
			o.ranged("to", "_shardsvrOwn", func(b *bson.Builder) { b.Value("version", o.Told.Lookup("own")) }),
			o.ranged("from", "_shardsvrGiven", func(b *bson.Builder) { b.Value("version", o.Told.Lookup("given")) }),
		}
	}},
	// Shards that have not seen the move get it too, so that a late request meets the fence.
	stages{func(o *Operation, _ Answers) []Request {
		return []Request{o.ranged("to", "_shardsvrAbort", nil), o.ranged("from", "_shardsvrAbort", nil)}
	}},
)

// ranged is a request about the range of a move. who is the argument that names the
// shard.
func (o *Operation) ranged(who, command string, fill func(b *bson.Builder)) Request {
	return to(o.Args.Lookup(who).Str(), command, o.Namespace, func(b *bson.Builder) {
		copied(b, o.Args, "min", "max")
		if fill != nil {
			fill(b)
		}
	})
}
