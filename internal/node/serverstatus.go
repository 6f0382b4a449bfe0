package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// registerStatus adds the sections about the data, and those that are always
// empty.
func (n *Node) registerStatus(s *command.Status) {
	s.Metric("query", n.appendQueryMetrics)
	s.Metric("changeStreams", n.appendChangeStreams)
	s.Document("storageEngine", n.appendStorageEngine)
	s.Document("transactions", n.appendTransactions)
	s.Document("locks", func(*bson.Builder) {})
	s.Document("catalogStats", n.appendCatalogStats)
	s.Document("featureCompatibilityVersion", n.appendFCV)
	s.Register(command.Section{Name: "mirroredReads", OnDemand: true, Value: func(context.Context, *command.Op) bson.Value {
		return bson.Document(new(bson.Builder).Int64("seen", 0).Int64("sent", 0).Finish())
	}})
}

func (n *Node) appendStorageEngine(b *bson.Builder) {
	b.String("name", process.StorageEngine).Bool("supportsCommittedReads", true).Timestamp("oldestRequiredTimestampForCrashRecovery", 0).
		Bool("supportsPendingDrops", true).Int64("dropPendingIdents", 0).Bool("supportsSnapshotReadConcern", true).
		Bool("readOnly", false).Bool("persistent", true).Bool("backupCursorOpen", n.backups.isOpen())
}

// appendTransactions counts retryable writes and transactions.
func (n *Node) appendTransactions(b *bson.Builder) {
	m, writes, prepared := &n.Dispatcher.Metrics, int64(0), int64(0)
	if n.Catalog != nil {
		writes, prepared = n.Catalog.SessionWrites(), n.Catalog.CountPrepared()
	}
	b.Int64("retriedCommandsCount", m.RetriedCommands.Load()).Int64("retriedStatementsCount", m.RetriedStatements.Load()).
		Int64("transactionsCollectionWriteCount", writes)
	n.Dispatcher.Transactions.AppendStatus(b, prepared)
}

func (n *Node) appendFCV(b *bson.Builder) {
	v := n.featureVersion()
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
