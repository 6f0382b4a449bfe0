package auth

import "sort"

// The sets of actions that several built-in roles grant. (Manual: Built-In
// Roles.)
var (
	reads = Of(ChangeStream, CollStats, DBHash, DBStats, Find, KillCursors, ListCollections, ListIndexes, ListSearchIndexes, PlanCacheRead)

	readsAndWrites = reads.With(Of(CleanupStructuredEncryptionData, CompactStructuredEncryptionData, ConvertToCapped, CreateCollection,
		CreateIndex, CreateSearchIndexes, DropCollection, DropIndex, DropSearchIndex, Insert, Remove, RenameCollectionSameDB, Update,
		UpdateSearchIndex))

	administersUsers = Of(ChangeCustomData, ChangePassword, CreateUser, CreateRole, DropUser, DropRole, GrantRole, RevokeRole,
		SetAuthenticationRestriction, ViewUser, ViewRole)

	administersData = Of(Analyze, BypassDocumentValidation, CollMod, CollStats, Compact, ConfigureQueryAnalyzer, ConvertToCapped, CreateCollection,
		DBStats, DropCollection, DropDatabase, DropIndex, DropSearchIndex, CreateIndex, CreateSearchIndexes, EnableProfiler, ListCollections,
		ListIndexes, ListSearchIndexes, UpdateSearchIndex, PlanCacheIndexFilter, PlanCacheRead, PlanCacheWrite, ReIndex, RenameCollectionSameDB,
		StorageDetails, Validate)

	administersProfile = reads.With(Of(ConvertToCapped, CreateCollection, DropCollection))

	readsAndIndexes = reads.With(Of(CreateIndex, CreateSearchIndexes, DropIndex, DropSearchIndex))

	monitors = Of(ConnPoolStats, GetCmdLineOpts, GetDefaultRWConcern, GetLog, GetParameter, GetShardMap, HostInfo, ListDatabases,
		ListSampledQueries, ListSessions, ListShards, Netstat, OperationMetrics, ReplSetGetConfig, ReplSetGetStatus, ServerStatus, Top, UseUUID,
		Inprog, ShardingState, AllCollectionStats, ShardedDataDistribution, ListClusterCatalog)

	monitorsData = Of(CollStats, DBStats, GetDatabaseVersion, GetShardVersion, IndexStats)

	managesHost = Of(ApplicationMessage, AuditConfigure, ConnPoolSync, DropConnections, LogRotate, OIDReset, SetParameter, Shutdown, Touch, Unlock,
		FlushRouterConfig, Fsync, InvalidateUserCache, KillAnyCursor, KillAnySession, Killop, ReplSetResizeOplog, Resync, TrafficRecord,
		RotateCertificates, OidcListKeys, OidcRefreshKeys)

	managesCluster = Of(AppendOplogNote, ApplicationMessage, ReplSetConfigure, ReplSetGetConfig, ReplSetGetStatus, ReplSetStateChange, Resync,
		AddShard, RemoveShard, ListSessions, ListShards, FlushRouterConfig, CleanupOrphaned, GetDefaultRWConcern, RunTenantMigration,
		SetDefaultRWConcern, SetFeatureCompatibilityVersion, SetClusterParameter, GetClusterParameter, SetChangeStreamState, GetChangeStreamState,
		QuerySettings, QueryStatsRead, QueryStatsReadTransformed, CheckMetadataConsistency, TransitionFromDedicatedConfigServer,
		TransitionToDedicatedConfigServer)

	managesShards = Of(AnalyzeShardKey, ConfigureQueryAnalyzer, ClearJumboFlag, SplitChunk, MoveChunk, MoveCollection, EnableSharding, SplitVector,
		RefineCollectionShardKey, ReshardCollection)

	writes = Of(Insert, Update, Remove)

	restores = Of(BypassDocumentValidation, CollMod, ConvertToCapped, CreateCollection, CreateIndex, CreateSearchIndexes, DropCollection, Insert,
		UpdateSearchIndex)
)

// builtin is what a built-in role grants in a database.
type builtin struct {
	adminOnly bool
	inherits  func(db string) []RoleName
	grants    func(db string) Privileges
}

func namespaces(db string, actions Actions, colls ...string) (ps Privileges) {
	for _, coll := range colls {
		ps = append(ps, Privilege{resourceOf(db, coll), actions})
	}
	return ps
}

func inAdmin(names ...string) func(string) []RoleName {
	return func(string) []RoleName {
		roles := make([]RoleName, len(names))
		for i, name := range names {
			roles[i] = RoleName{name, "admin"}
		}
		return roles
	}
}

func always(lists ...Privileges) func(string) Privileges {
	var all Privileges
	for _, ps := range lists {
		all = all.AddAll(ps)
	}
	return func(string) Privileges { return all }
}

// electionCollections are where members of a replica set keep their votes.
var electionCollections = []string{"replset.election", "replset.minvalid"}

// builtins are the built-in roles by name.
var builtins = map[string]builtin{
	"read": {grants: func(db string) Privileges {
		return Privileges{{Database(db), reads}, {Namespace(db, "system.js"), reads}}
	}},
	"readWrite": {grants: func(db string) Privileges {
		return Privileges{{Database(db), readsAndWrites}, {Namespace(db, "system.js"), readsAndWrites}}
	}},
	"userAdmin": {grants: func(db string) Privileges { return Privileges{{Database(db), administersUsers}} }},
	"dbAdmin": {grants: func(db string) Privileges {
		return Privileges{{Database(db), administersData}, {Namespace(db, "system.profile"), administersProfile}, {Namespace(db, "system.archive"), reads}}
	}},
	"dbOwner": {inherits: func(db string) []RoleName {
		return []RoleName{{"readWrite", db}, {"dbAdmin", db}, {"userAdmin", db}}
	}},
	"enableSharding": {grants: always(Privileges{{AnyNormal,
		Of(AnalyzeShardKey, EnableSharding, MoveCollection, RefineCollectionShardKey, ReshardCollection)}})},
	"readAnyDatabase": {adminOnly: true, grants: always(Privileges{
		{AnyNormal, reads}, {Cluster, Of(ListDatabases)}, {resourceOf("", "system.js"), reads}, {bucketsOf("", ""), reads},
	})},
	"readWriteAnyDatabase": {adminOnly: true, inherits: inAdmin("readAnyDatabase"), grants: always(Privileges{
		{AnyNormal, readsAndWrites}, {resourceOf("", "system.js"), readsAndWrites}, {bucketsOf("", ""), readsAndWrites},
	})},
	"userAdminAnyDatabase": {adminOnly: true, grants: always(Privileges{
		{AnyNormal, administersUsers.With(Of(ListCachedAndActiveUsers))},
		{Database("local"), administersUsers}, {Database("config"), administersUsers},
		{Cluster, Of(ListDatabases, AuthSchemaUpgrade, InvalidateUserCache, ViewUser)},
		{resourceOf("", "system.users"), reads},
	}, namespaces("admin", readsAndIndexes, "system.users", "system.roles"),
		namespaces("admin", reads, "system.version", "system.backup_users"))},
	"dbAdminAnyDatabase": {adminOnly: true, grants: always(Privileges{
		{Cluster, Of(ListDatabases, ApplyOps)}, {AnyNormal, administersData}, {resourceOf("", "system.profile"), administersProfile},
		{resourceOf("", "system.archive"), reads}, {bucketsOf("", ""), administersData.Without(Of(ConfigureQueryAnalyzer))},
	})},
	"clusterMonitor": {adminOnly: true,
		inherits: func(string) []RoleName { return []RoleName{{"read", "config"}, {"read", "local"}} },
		grants: always(Privileges{
			{Cluster, monitors}, {AnyNormal, monitorsData}, {Database("config"), monitorsData},
			{Namespace("config", "system.sessions"), monitorsData}, {Database("local"), monitorsData},
			{resourceOf("", "system.profile"), Of(Find)}, {resourceOf("", "system.archive"), Of(Find)},
		}, namespaces("local", Of(Find), append(electionCollections, "system.replset")...))},
	"hostManager": {adminOnly: true, grants: always(Privileges{{Cluster, managesHost}, {AnyNormal, Of(KillCursors)}})},
	"clusterManager": {adminOnly: true,
		inherits: func(string) []RoleName { return []RoleName{{"read", "config"}} },
		grants: always(Privileges{
			{Cluster, managesCluster}, {AnyNormal, managesShards}, {bucketsOf("", ""), managesShards},
			{Database("config"), managesShards.With(writes)}, {Database("local"), managesShards.With(writes)},
			{Resource{form: formAny}, Of(DBCheck)},
		}, namespaces("local", reads, "system.replset", "system.healthlog"), namespaces("local", writes, electionCollections...))},
	"clusterAdmin": {adminOnly: true, inherits: inAdmin("clusterMonitor", "hostManager", "clusterManager"),
		grants: always(Privileges{{AnyNormal, Of(DropDatabase)}, {Resource{form: formAny}, Of(ImportCollection, ExportCollection)}})},
	"__queryableBackup": {adminOnly: true, grants: always(Privileges{
		{Resource{form: formAny}, Of(CollStats, ListCollections, ListIndexes, ListSearchIndexes)},
		{AnyNormal, Of(Find)}, {bucketsOf("", ""), Of(Find)}, {Cluster, Of(GetParameter, ListDatabases, UseUUID)},
		{Database("config"), Of(Find)}, {Database("local"), Of(Find)}, {Namespace("config", "settings"), Of(Find)},
	}, namespaces("local", Of(Find), electionCollections...), namespaces("", Of(Find), "system.js", "system.users", "system.profile"),
		namespaces("admin", Of(Find), "system.backup_users", "system.roles", "system.version"))},
	"backup": {adminOnly: true, inherits: inAdmin("__queryableBackup"), grants: always(Privileges{
		{Cluster, Of(AppendOplogNote, Fsync, ServerStatus, SetUserWriteBlockMode)}, {Namespace("config", "settings"), Of(Insert, Update)},
	})},
	"restore": {adminOnly: true, grants: always(Privileges{
		{Cluster, Of(GetParameter, ForceUUID, UseUUID, BypassWriteBlockingMode, SetUserWriteBlockMode, ApplyOps)},
		{Database("local"), restores}, {Database("config"), restores}, {bucketsOf("", ""), restores},
		{Resource{form: formAny}, Of(ListCollections)}, {AnyNormal, restores.With(administersUsers)},
		{resourceOf("", "system.js"), restores}, {resourceOf("", "system.users"), restores.With(Of(Find, Update, Remove))},
		{Namespace("admin", "system.backup_users"), restores}, {Namespace("admin", "system.version"), restores.With(Of(Find))},
		{Namespace("admin", "system.roles"), Of(CreateIndex)},
	}, namespaces("local", restores, append(electionCollections, "system.replset")...),
		namespaces("admin", Of(Find), "tempusers", "temproles"))},
	"root": {adminOnly: true,
		inherits: inAdmin("clusterAdmin", "userAdminAnyDatabase", "dbAdminAnyDatabase", "readWriteAnyDatabase", "backup", "restore",
			"directShardOperations"),
		grants: always(Privileges{
			{Resource{form: formAny}, Of(Validate)}, {Cluster, Of(UseTenant)},
			{Namespace("config", "system.preimages"), Of(Find, Remove)},
			{Namespace("config", "system.change_collection"), Of(Find).With(writes)},
		})},
	"directShardOperations": {adminOnly: true, grants: always(Privileges{{Cluster, Of(IssueDirectShardOperations)}})},
	"__system":              {adminOnly: true, grants: always(Privileges{{Resource{form: formAny}, everything}})},
}

// IsBuiltin reports whether the role is one that every server has.
func (r RoleName) IsBuiltin() bool {
	b, ok := builtins[r.Role]
	return ok && (!b.adminOnly || r.DB == "admin")
}

// Builtins lists the built-in roles of a database in order of their names.
func Builtins(db string) []RoleName {
	var roles []RoleName
	for name := range builtins {
		if r := (RoleName{name, db}); r.IsBuiltin() {
			roles = append(roles, r)
		}
	}
	sort.Slice(roles, func(i, j int) bool { return roles[i].Role < roles[j].Role })
	return roles
}

// BuiltinPrivileges is what a built-in role grants, with what it inherits.
func BuiltinPrivileges(r RoleName) Privileges {
	b := builtins[r.Role]
	var ps Privileges
	if b.inherits != nil {
		for _, sub := range b.inherits(r.DB) {
			ps = ps.AddAll(BuiltinPrivileges(sub))
		}
	}
	if b.grants != nil {
		ps = ps.AddAll(b.grants(r.DB))
	}
	return ps
}
