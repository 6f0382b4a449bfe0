package step

import "github.com/mayflydb/mayfly/internal/mongoerr"

// AllReceived compares, before the commit of an operation that moves all of a collection, how many
// documents the donors had when they blocked it and how many the recipients have received: what
// is not there is lost with the commit. Donors do not say it where they would have to count, or
// where a part moves: then nothing is compared. Errors: 96.
func (o *Operation) AllReceived(got Answers) error {
	var donors, to []string
	received := "_shardsvrReceived"
	if o.Kind == KindReshard {
		donors, to, received = texts(o.Args, "shards"), recipients(o, got), "_shardsvrReshardReceived"
	} else {
		donors, to = []string{o.Args.Lookup("from").Str()}, []string{o.Args.Lookup("to").Str()}
	}
	had, have := int64(0), int64(0)
	for _, shard := range donors {
		reply := got.last(shard, "_shardsvrBlock")
		if !reply.Has("documents") {
			return nil
		}
		had += number(reply, "documents")
	}
	for _, shard := range to {
		reply := got.last(shard, received)
		if !reply.Has("documents") {
			return nil
		}
		have += number(reply, "documents")
	}
	if had != have {
		return mongoerr.New(mongoerr.OperationFailed, "%d documents of %s were received, and there are %d", have, o.Namespace, had)
	}
	return nil
}
