package config

// Component is a part of the server that logs under its own name and verbosity.
type Component struct {
	Path string // in systemLog.component and in logComponentVerbosity
	Tag  string // in the "c" of a log line
}

// Components are the components, each after the one that its path lies below.
// The names are mongod's, also those of parts that this server does not have,
// so that its configuration files and scripts work.
var Components = []Component{
	{"accessControl", "ACCESS"}, {"assert", "ASSERT"}, {"command", "COMMAND"}, {"control", "CONTROL"}, {"executor", "EXECUTOR"},
	{"ftdc", "FTDC"}, {"geo", "GEO"}, {"globalIndex", "GBL_IDX"}, {"index", "INDEX"},
	{"network", "NETWORK"}, {"network.asio", "ASIO"}, {"network.bridge", "BRIDGE"}, {"network.connectionPool", "CONNPOOL"},
	{"processHealth", "HEALTH"},
	{"query", "QUERY"}, {"query.ce", "QUERY_CE"}, {"query.optimizer", "OPTIMIZER"}, {"query.rejected", "QUERY_REJECTED"}, {"queryStats", "QUERYSTATS"},
	{"replication", "REPL"}, {"replication.election", "ELECTION"}, {"replication.heartbeats", "REPL_HB"},
	{"replication.initialSync", "INITSYNC"}, {"replication.rollback", "ROLLBACK"},
	{"resharding", "RESHARD"}, {"sharding", "SHARDING"}, {"sharding.shardingCatalogRefresh", "SH_REFR"}, {"sharding.migration", "MIGRATE"},
	{"storage", "STORAGE"}, {"storage.journal", "JOURNAL"}, {"storage.recovery", "RECOVERY"}, {"storage.wt", "WT"},
	{"storage.wt.wtBackup", "WTBACKUP"}, {"storage.wt.wtCheckpoint", "WTCHKPT"}, {"storage.wt.wtCompact", "WTCMPCT"},
	{"storage.wt.wtEviction", "WTEVICT"}, {"storage.wt.wtHS", "WTHS"}, {"storage.wt.wtRecovery", "WTRECOV"}, {"storage.wt.wtRTS", "WTRTS"},
	{"storage.wt.wtSalvage", "WTSLVG"}, {"storage.wt.wtTiered", "WTTIER"}, {"storage.wt.wtTimestamp", "WTTS"},
	{"storage.wt.wtTransaction", "WTTXN"}, {"storage.wt.wtVerify", "WTVRFY"}, {"storage.wt.wtWriteLog", "WTWRTLOG"},
	{"tenantMigration", "TENANT_M"}, {"test", "TEST"}, {"transaction", "TXN"}, {"write", "WRITE"},
}
