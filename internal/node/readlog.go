package node

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// maxLogRead bounds the entries in one reply of _readLog, in bytes. A single entry that is
// larger comes in pieces.
const maxLogRead = 10 << 20

var readLogFields = command.NewFields("_readLog", command.Any("_readLog"), command.ExactInt64("after").Min(0).Required(), command.ExactInt64("term").Min(0).Required(),
	command.ExactInt64("offset").Min(0)).Lenient()

// readLog answers {_readLog: 1, after, term} with applied entries of the log behind the one
// with that index and term: {first, last, term, time, data, rest, prepared}, see repl.LogPart;
// last is after's, without data, if there are none. rest is how many bytes of a single large entry
// follow, which are read with offset. prepared is the earliest time at which a transaction over
// shards was prepared that this member has not heard the decision of, when it looked for entries.
func (n *Node) readLog() *command.Command {
	return &command.Command{Name: "_readLog", Run: n.runReadLog, Help: "read entries of the replicated log for a backup"}
}

func (n *Node) runReadLog(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, readLogFields)
	if err != nil {
		return err
	}
	st, err := n.setState()
	if err != nil {
		return err
	}
	after, offset := a.Int64("after"), a.Int64("offset")
	prepared := n.Catalog.OldestPrepared() // before: what is decided meanwhile is among the entries
	p, err := n.Dispatcher.Member.ReadLog(uint64(after), uint64(a.Int64("term")), maxLogRead)
	switch {
	case errors.Is(err, repl.ErrHistoryLost):
		return mongoerr.New(mongoerr.CappedPositionLost, "the log no longer has the entry behind %d", after)
	case errors.Is(err, repl.ErrOtherLog):
		return mongoerr.New(mongoerr.OplogStartMissing, "the log has another entry %d, of another term than %d: it is the log of another history of the set", after, a.Int64("term"))
	case err != nil:
		return err
	case offset > 0 && (offset >= int64(len(p.Bytes)) || p.First != p.Last):
		return mongoerr.New(mongoerr.BadValue, "no piece of the entry behind %d begins at offset %d", after, offset)
	}
	data := p.Bytes[offset:]
	data = data[:min(len(data), maxLogRead)]
	if err := op.GrowReply(len(data)); err != nil {
		return err
	}
	op.Reply.ObjectID("replicaSetId", st.Config.ID).Int64("first", int64(p.First)).Int64("last", max(int64(p.Last), after)).Int64("term", int64(p.Term)).
		Timestamp("time", uint64(p.Time)).Binary("data", 0, data).Int64("rest", int64(len(p.Bytes))-offset-int64(len(data))).
		Timestamp("prepared", prepared)
	return nil
}
