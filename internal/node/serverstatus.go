package node

import (
	"context"
	"os"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// serverStatus tells how the server is: the head below, and the sections that
// its parts contribute. {section: 0} leaves one out, {section: 1} asks for one
// that is left out otherwise.
func (n *Node) serverStatus() *command.Command {
	return &command.Command{
		Name: "serverStatus", Flags: command.Quiet, Help: "returns lots of administrative server statistics", Run: n.runServerStatus,
	}
}

func (n *Node) runServerStatus(ctx context.Context, op *command.Op) error {
	n.writeStatus(ctx, op, op.Reply)
	return nil
}

// writeStatus writes what serverStatus answers with into b.
func (n *Node) writeStatus(ctx context.Context, op *command.Op, b *bson.Builder) {
	up := n.uptime()
	b.String("host", n.host()).String("version", Version).String("process", "mongod").
		Strings("service", "shard").Int64("pid", int64(os.Getpid())).Double("uptime", float64(up/time.Second)).
		Int64("uptimeMillis", up.Milliseconds()).Int64("uptimeEstimate", int64(up/time.Second)).
		Date("localTime", time.Now().UnixMilli())
	all := op.Body.Lookup("all").Truthy()
	for _, s := range op.Dispatcher.Status.Sections() {
		wanted := all || !s.OnDemand
		if named(op.Body, s.Name) {
			v := op.Body.Lookup(s.Name)
			wanted = v.Truthy()
		}
		if wanted {
			b.Value(s.Name, s.Value(ctx, op))
		}
	}
}

// registerStatus adds the sections about the process and what it does not have.
func (n *Node) registerStatus(s *command.Status) {
	s.Document("connections", n.appendConnections)
	s.Metric("query", n.appendQueryMetrics)
	s.Document("network", n.appendNetwork)
	s.Document("mem", appendMemory)
	s.Document("extra_info", appendExtraInfo)
	s.Document("storageEngine", appendStorageEngine)
	s.Document("transactions", n.appendTransactions)
	s.Document("locks", func(*bson.Builder) {})
	s.Document("catalogStats", n.appendCatalogStats)
	s.Document("featureCompatibilityVersion", n.appendFCV)
	s.Register(command.Section{Name: "mirroredReads", OnDemand: true, Value: func(context.Context, *command.Op) bson.Value {
		return bson.Document(new(bson.Builder).Int64("seen", 0).Int64("sent", 0).Finish())
	}})
}

func (n *Node) appendConnections(b *bson.Builder) {
	var c Connections
	if n.Process.Connections != nil {
		c = n.Process.Connections()
	}
	b.Int("current", c.Current).Int("available", c.Available).Int("totalCreated", c.Created).Int("rejected", c.Rejected).
		Int("active", c.Active).Int("threaded", c.Current).Int("exhaustIsMaster", 0).Int("exhaustHello", c.Awaiting).
		Int("awaitingTopologyChanges", c.Awaiting)
}

func (n *Node) appendNetwork(b *bson.Builder) {
	var t Traffic
	if n.Process.Traffic != nil {
		t = n.Process.Traffic()
	}
	b.Int64("bytesIn", t.BytesIn).Int64("bytesOut", t.BytesOut).Int64("physicalBytesIn", t.BytesIn).
		Int64("physicalBytesOut", t.BytesOut).Int64("numSlowDNSOperations", 0).Int64("numSlowSSLOperations", 0).
		Int64("numRequests", t.Requests)
	if t.Compression != nil {
		b.Doc("compression", t.Compression)
	}
}

func appendStorageEngine(b *bson.Builder) {
	b.String("name", storageEngine).Bool("supportsCommittedReads", true).Timestamp("oldestRequiredTimestampForCrashRecovery", 0).
		Bool("supportsPendingDrops", true).Int64("dropPendingIdents", 0).Bool("supportsSnapshotReadConcern", true).
		Bool("readOnly", false).Bool("persistent", true).Bool("backupCursorOpen", false)
}

// appendTransactions counts retryable writes, and the transactions of a server that takes
// none.
func (n *Node) appendTransactions(b *bson.Builder) {
	m, writes := &n.Dispatcher.Metrics, int64(0)
	if n.Catalog != nil {
		writes = n.Catalog.SessionWrites()
	}
	b.Int64("retriedCommandsCount", m.RetriedCommands.Load()).Int64("retriedStatementsCount", m.RetriedStatements.Load()).
		Int64("transactionsCollectionWriteCount", writes)
	for _, name := range []string{
		"currentActive", "currentInactive", "currentOpen", "totalAborted", "totalCommitted", "totalStarted", "totalPrepared",
		"totalPreparedThenCommitted", "totalPreparedThenAborted", "currentPrepared",
	} {
		b.Int64(name, 0)
	}
}

func (n *Node) appendFCV(b *bson.Builder) {
	v := n.fcv.get()
	b.Int32("major", int32(v[0]-'0')).Int32("minor", int32(v[2]-'0')).Int32("transitioning", 0)
}

// appendCatalogStats counts collections by kind.
func (n *Node) appendCatalogStats(b *bson.Builder) {
	var collections, capped, clustered, timeseries, views, internal, internalViews int32
	if n.Catalog != nil {
		for _, db := range n.Catalog.Databases() {
			own := db == "admin" || db == "config" || db == "local"
			for _, c := range n.Catalog.Collections(db) {
				switch {
				case own && c.IsView():
					internalViews++
				case own:
					internal++
				case c.IsTimeseries():
					timeseries++
				case c.IsView():
					views++
				default:
					collections++
					if c.Capped {
						capped++
					}
					if !c.Options.Lookup("clusteredIndex").IsMissing() {
						clustered++
					}
				}
			}
		}
	}
	b.Int32("collections", collections).Int32("capped", capped).Int32("clustered", clustered).Int32("timeseries", timeseries).
		Int32("views", views).Int32("internalCollections", internal).Int32("internalViews", internalViews).
		Int32("systemProfile", 0).Int32("csfle", 0).Int32("queryableEncryption", 0)
}
