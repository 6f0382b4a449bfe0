package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// registerSetStatus adds the sections of serverStatus about a replica set;
// nothing on a standalone.
func (n *Node) registerSetStatus(s *command.Status) {
	s.Register(command.Section{Name: "repl", Value: func(context.Context, *command.Op) bson.Value {
		m := n.Dispatcher.Member
		if m == nil {
			return bson.Value{}
		}
		b := new(bson.Builder)
		n.Dispatcher.AppendTopologyVersion(b)
		appendRole(b, m, true, "")
		n.Dispatcher.UserWrites.AppendStatus(b)
		return bson.Document(b.Finish())
	}})
	s.Register(command.Section{Name: "oplog", OnDemand: true, Value: func(context.Context, *command.Op) bson.Value {
		m := n.Dispatcher.Member
		if m == nil {
			return bson.Value{}
		}
		oldest, err := m.Oldest()
		if err != nil {
			n.Log.Warn("serverStatus: cannot read the oldest document of the oplog", "error", err)
			return bson.Value{}
		}
		return bson.Document(new(bson.Builder).Timestamp("latestOptime", uint64(m.Applied().Time)).Timestamp("earliestOptime", uint64(oldest)).Finish())
	}})
	if n.Dispatcher.Member == nil {
		return
	}
	s.Document("oplogTruncation", func(b *bson.Builder) { n.Dispatcher.Member.AppendTruncation(b) })
	s.Metric("repl", func(b *bson.Builder) {
		st := n.Dispatcher.Member.State()
		b.OpenDoc("apply").Int64("ops", int64(st.Applied.Index)).Close()
		// What is committed and not applied: on a member with secondaryDelaySecs.
		b.OpenDoc("buffer").Int64("count", int64(st.Committed-min(st.Committed, st.Applied.Index))).Close()
		b.OpenDoc("waiters").Int64("replication", int64(st.Waiting)).Close()
		// Counts of pending documents, which MongoDB does not have.
		p := n.Catalog.Pending()
		b.OpenDoc("pending").Int64("documents", int64(p.Documents)).Int64("bytes", int64(p.Bytes)).
			Int64("handedOver", p.Writes).Int64("evaluatedOn", p.Read).Int64("waits", p.Waited).Int64("refused", p.Refused).Int64("tooLarge", p.Kept).Close()
	})
}
