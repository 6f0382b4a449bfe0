package server

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// appMetrics are the metrics of the components that Assemble opens.
func (s *Server) appMetrics(d *command.Dispatcher, data *data, ttl *expire.Monitor) []prometheus.Collector {
	var set []prometheus.Collector
	if data.member != nil {
		set = append(set, newGauges(func() command.TransactionCounts {
			counts := d.Transactions.Counts()
			counts.Prepared = data.catalog.CountPrepared()
			return counts
		}, transactionGauges...), newGauges(data.catalog.Pending, pendingGauges...), newGauges(data.member.State, oplogGauges...), newGauges(data.member.State, memberGauges...), newGauges(data.member.History, historyGauges...), newGauges(data.member.StreamStats, streamGauges...))
	}
	return append(append(set, s.operationMetrics(d)...), []prometheus.Collector{
		newGauges(s.storageMetrics(data), storageGauges...),
		newRuleMetrics(ttl),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mayfly", Name: "ttl_share",
			Help: "The share of time in which removal runs; less than 1 where it gives way to clients."}, ttl.Share),
		newGauges(func() *expire.Stats { return &ttl.Stats },
			gauge[*expire.Stats]{"ttl_deleted_documents_total", "Documents removed by TTL indexes.", true, func(st **expire.Stats) float64 { return float64((*st).Deleted.Load()) }},
			gauge[*expire.Stats]{"ttl_passes_total", "Passes of the TTL monitor.", true, func(st **expire.Stats) float64 { return float64((*st).Passes.Load()) }},
			gauge[*expire.Stats]{"ttl_archived_documents_total", "Documents archived before they were removed.", true, func(*(*expire.Stats)) float64 { return float64(ttl.Archived().Lookup("documents").Int64()) }},
			gauge[*expire.Stats]{"ttl_archive_failures_total", "Visits that ended because the store of an archive failed.", true, func(*(*expire.Stats)) float64 { return float64(ttl.Archived().Lookup("failures").Int64()) }},
			gauge[*expire.Stats]{"ttl_archive_away_rules", "Rules that remove nothing because the store of their archive fails.", false, func(*(*expire.Stats)) float64 { return float64(ttl.Archived().Lookup("rulesAway").Int64()) }},
			gauge[*expire.Stats]{"ttl_sub_passes_total", "Sub-passes of the TTL monitor.", true, func(st **expire.Stats) float64 { return float64((*st).SubPasses.Load()) }},
		),
	}...)
}

// operationMetrics are those of every server, with data or a router: operations and their memory.
func (s *Server) operationMetrics(d *command.Dispatcher) []prometheus.Collector {
	ops := func(kind string, n func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "mayfly", Name: "operations_total",
			Help: "Operations since start, as opcounters.", ConstLabels: prometheus.Labels{"type": kind}},
			func() float64 { return float64(n()) })
	}
	m := &d.Metrics
	return []prometheus.Collector{
		ops("insert", m.Insert.Load), ops("query", m.Query.Load), ops("update", m.Update.Load),
		ops("delete", m.Delete.Load), ops("getmore", m.GetMore.Load), ops("command", m.Command.Load),
		newGauges(s.memory.Stats, memoryGauges...),
	}
}

// pendingGauges are the metrics of a replica set's member.
var pendingGauges = []gauge[pending.Stats]{
	{"replication_pending_documents", "Documents as the log has them and the store has not yet, on which updates are evaluated.", false, func(p *pending.Stats) float64 { return float64(p.Documents) }},
	{"replication_pending_bytes", "Bytes of these documents.", false, func(p *pending.Stats) float64 { return float64(p.Bytes) }},
	{"replication_pending_evaluated_total", "Updates that were evaluated on one of them.", true, func(p *pending.Stats) float64 { return float64(p.Read) }},
	{"replication_pending_waits_total", "How often one had to be waited for.", true, func(p *pending.Stats) float64 { return float64(p.Waited) }},
}

var transactionGauges = []gauge[command.TransactionCounts]{
	{"transactions_open", "Transactions that are open.", false, func(c *command.TransactionCounts) float64 { return float64(c.Open) }},
	{"transactions_active", "Open transactions of which a statement runs.", false, func(c *command.TransactionCounts) float64 { return float64(c.Active) }},
	{"transactions_prepared", "Transactions over several shards that are prepared here, and not decided.", false, func(c *command.TransactionCounts) float64 { return float64(c.Prepared) }},
	{"transactions_started_total", "Transactions that were started.", true, func(c *command.TransactionCounts) float64 { return float64(c.Started) }},
	{"transactions_committed_total", "Transactions that were committed.", true, func(c *command.TransactionCounts) float64 { return float64(c.Committed) }},
	{"transactions_aborted_total", "Transactions that were aborted.", true, func(c *command.TransactionCounts) float64 { return float64(c.Aborted) }},
}

var oplogGauges = []gauge[*repl.State]{
	{"oplog_bytes", "Bytes of the replica set's log that this member keeps.", false, func(s **repl.State) float64 { return float64((*s).LogBytes) }},
	{"oplog_oldest_seconds", "Since when the oplog has everything, in seconds since 1970.", false, func(s **repl.State) float64 { return float64((*s).Base.Time.Seconds()) }},
	{"oplog_newest_seconds", "Up to when this member has applied the log, in seconds since 1970.", false, func(s **repl.State) float64 { return float64((*s).Applied.Time.Seconds()) }},
}

// silentAfter is after what time a member that was not heard from counts as silent.
const silentAfter = 10 * time.Second

var memberGauges = []gauge[*repl.State]{
	{"replication_primary", "1 on the member that is primary and takes writes.", false, func(s **repl.State) float64 {
		if (*s).Writable {
			return 1
		}
		return 0
	}},
	{"replication_term", "The term of the set, which each election raises.", false, func(s **repl.State) float64 { return float64((*s).Term) }},
	{"replication_members", "Members of the set by its configuration.", false, func(s **repl.State) float64 {
		if (*s).Config == nil {
			return 0
		}
		return float64(len((*s).Config.Members))
	}},
	{"replication_members_silent", "On the primary, other members that it has not heard from for ten seconds; 0 on others.", false, silentMembers},
}

func silentMembers(s **repl.State) (n float64) {
	st := *s
	if !st.Writable || st.Config == nil {
		return 0
	}
	for _, m := range st.Config.Members {
		if m.Raft != st.ID && time.Since(st.Others[m.Raft].Heard) > silentAfter {
			n++
		}
	}
	return n
}

var historyGauges = []gauge[repl.History]{
	{"oplog_history_seconds", "How far the log reaches back behind its newest entry; infinite where nothing was truncated.", false, func(h *repl.History) float64 {
		if !h.Truncated {
			return math.Inf(1)
		}
		return float64(h.Seconds)
	}},
	{"oplog_history_short", "1 while the size of the log holds less history than the default of oplogMinRetentionHours.", false, func(h *repl.History) float64 {
		if h.Short {
			return 1
		}
		return 0
	}},
	{"oplog_truncations_total", "How often the log was truncated.", true, func(h *repl.History) float64 { return float64(h.Truncations) }},
}

var streamGauges = []gauge[repl.StreamStats]{
	{"change_streams_open", "Open change streams.", false, func(s *repl.StreamStats) float64 { return float64(s.Open) }},
	{"change_streams_lost_total", "Change streams that could not go on, as the log no longer had their place.", true, func(s *repl.StreamStats) float64 { return float64(s.Lost) }},
	{"change_streams_behind_seconds", "How far the open change stream that was read least is behind what was applied.", false, func(s *repl.StreamStats) float64 { return float64(s.Behind) }},
	{"change_streams_left_seconds", "How far its place is from the oldest entry of the log; infinite where nothing was truncated.", false, func(s *repl.StreamStats) float64 {
		if !s.Truncated || s.OldestPosition == 0 {
			return math.Inf(1) // nothing was truncated, or nobody follows
		}
		return float64(s.Left)
	}},
}

// storageMetrics reads the metrics of the current store, which a snapshot may replace.
func (s *Server) storageMetrics(d *data) func() storage.Metrics {
	return func() storage.Metrics {
		if d.member != nil {
			_, leave, err := d.member.Enter(s.life)
			if err != nil {
				return storage.Metrics{}
			}
			defer leave()
		}
		return d.catalog.Engine().Metrics()
	}
}

var storageGauges = []gauge[storage.Metrics]{
	{"storage_disk_bytes", "Bytes of all files of the store.", false, func(m *storage.Metrics) float64 { return float64(m.DiskBytes) }},
	{"storage_table_bytes", "Bytes of the tables.", false, func(m *storage.Metrics) float64 { return float64(m.TableBytes) }},
	{"storage_obsolete_bytes", "Bytes of tables that are to be removed.", false, func(m *storage.Metrics) float64 { return float64(m.ObsoleteBytes) }},
	{"storage_cache_bytes", "Bytes in the block cache.", false, func(m *storage.Metrics) float64 { return float64(m.CacheBytes) }},
	{"storage_cache_hits_total", "Blocks found in the cache.", true, func(m *storage.Metrics) float64 { return float64(m.CacheHits) }},
	{"storage_cache_misses_total", "Blocks read from disk.", true, func(m *storage.Metrics) float64 { return float64(m.CacheMisses) }},
	{"storage_memtable_bytes", "Bytes in memtables.", false, func(m *storage.Metrics) float64 { return float64(m.MemtableBytes) }},
	{"storage_read_amplification", "Tables that a read may have to look into.", false, func(m *storage.Metrics) float64 { return float64(m.ReadAmplification) }},
	{"storage_compaction_debt_bytes", "Bytes that are to be compacted.", false, func(m *storage.Metrics) float64 { return float64(m.CompactionDebt) }},
	{"storage_compactions_total", "Compactions.", true, func(m *storage.Metrics) float64 { return float64(m.Compactions) }},
	{"storage_flushes_total", "Flushes of memtables.", true, func(m *storage.Metrics) float64 { return float64(m.Flushes) }},
	{"storage_log_written_bytes_total", "Bytes written to the log.", true, func(m *storage.Metrics) float64 { return float64(m.LogBytesWritten) }},
	{"storage_journal_syncs_total", "Syncs of the log.", true, func(m *storage.Metrics) float64 { return float64(m.JournalSyncs) }},
	{"storage_journal_sync_seconds_total", "Time spent in syncs of the log.", true, func(m *storage.Metrics) float64 { return m.JournalTime.Seconds() }},
	{"storage_snapshots", "Open snapshots.", false, func(m *storage.Metrics) float64 { return float64(m.Snapshots) }},
	{"storage_disk_full", "1 while writes are refused for want of space.", false, func(m *storage.Metrics) float64 {
		if m.DiskFull {
			return 1
		}
		return 0
	}},
}

var memoryGauges = []gauge[memory.Stats]{
	{"operation_memory_limit_bytes", "The memory that operations share.", false, func(m *memory.Stats) float64 { return float64(m.Limit) }},
	{"operation_memory_held_bytes", "Bytes of it that operations hold.", false, func(m *memory.Stats) float64 { return float64(m.Operations.Held) }},
	{"operation_memory_waiting", "Operations that wait for it.", false, func(m *memory.Stats) float64 { return float64(m.Operations.Waiting) }},
	{"operation_memory_refused_total", "How often there was none for an operation.", true, func(m *memory.Stats) float64 { return float64(m.Operations.Refused) }},
	{"request_memory_held_bytes", "Bytes of it that requests hold.", false, func(m *memory.Stats) float64 { return float64(m.Requests.Held) }},
	{"request_memory_waiting", "Requests that wait for it.", false, func(m *memory.Stats) float64 { return float64(m.Requests.Waiting) }},
	{"request_memory_refused_total", "How often there was none for a request.", true, func(m *memory.Stats) float64 { return float64(m.Requests.Refused) }},
}
