package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// connPoolStats counts the connections of Node.Sets. (Manual: database command
// connPoolStats.)
func (n *Node) connPoolStats() *command.Command {
	return &command.Command{
		Name: "connPoolStats", Help: "stats about connections between servers in a replica set or sharded cluster.",
		Run: func(_ context.Context, op *command.Op) error {
			sets := n.openSets()
			all, total := map[string][]client.MemberConnections{}, client.MemberConnections{}
			for _, s := range sets {
				members := s.Connections()
				all[s.Name()] = members
				for _, m := range members {
					total.InUse, total.Available, total.Created = total.InUse+m.InUse, total.Available+m.Available, total.Created+m.Created
				}
			}
			b := op.Reply.Int32("numClientConnections", 0).Int32("numAScopedConnections", 0)
			appendPool(b, "totalInUse", "totalAvailable", "totalLeased", "totalCreated", "totalRefreshing", "totalRefreshed", "totalWasNeverUsed", total)
			b.OpenDoc("pools").Close().OpenDoc("hosts")
			for _, s := range sets {
				for _, m := range all[s.Name()] {
					appendPool(b.OpenDoc(m.Address), "inUse", "available", "leased", "created", "refreshing", "refreshed", "wasNeverUsed", m)
					b.Close()
				}
			}
			b.Close().OpenDoc("replicaSets")
			for _, s := range sets {
				b.OpenDoc(s.Name()).OpenArray("hosts")
				for i, m := range all[s.Name()] {
					b.OpenDoc(bson.Index(i)).String("addr", m.Address).Bool("ok", m.Reachable).Bool("ismaster", m.Primary).Bool("hidden", false).
						Bool("secondary", m.Secondary).Int32("pingTimeMillis", int32(m.Ping.Milliseconds())).Close()
				}
				b.Close().Close()
			}
			b.Close()
			return nil
		},
	}
}

// appendPool writes the numbers of a pool. Nothing is leased, and connections are not
// refreshed: who wants one gets one that is open, or opens it.
func appendPool(b *bson.Builder, inUse, available, leased, created, refreshing, refreshed, neverUsed string, m client.MemberConnections) {
	b.Int32(inUse, int32(m.InUse)).Int32(available, int32(m.Available)).Int32(leased, 0).Int32(created, int32(m.Created)).
		Int32(refreshing, 0).Int32(refreshed, 0).Int32(neverUsed, 0)
}

// openSets are the sets that the process has connections to.
func (n *Node) openSets() []*client.Set {
	if n.Sets == nil {
		return nil
	}
	return n.Sets()
}
