package auth

import (
	"math/bits"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Action is one kind of thing that a privilege lets its holder do. (Manual:
// Privilege Actions.)
type Action uint8

// The actions, in the order in which privileges list them.
const (
	AddShard Action = iota
	AllCollectionStats
	Analyze
	AnalyzeShardKey
	AnyAction
	AppendOplogNote
	ApplicationMessage
	ApplyOps
	AuditConfigure
	AuditLogRotate
	AuthCheck
	Authenticate
	AuthSchemaUpgrade
	BypassDefaultMaxTimeMS
	BypassDocumentValidation
	BypassWriteBlockingMode
	ChangeCustomData
	ChangeOwnCustomData
	ChangeOwnPassword
	ChangePassword
	ChangeStream
	CheckFreeMonitoringStatus
	CheckMetadataConsistency
	CleanupOrphaned
	CleanupStructuredEncryptionData
	ClearJumboFlag
	CollMod
	CollStats
	Compact
	CompactStructuredEncryptionData
	ConfigureQueryAnalyzer
	ConnPoolStats
	ConnPoolSync
	ConvertToCapped
	CpuProfiler
	CreateCollection
	CreateDatabase
	CreateIndex
	CreateRole
	CreateSearchIndexes
	CreateUser
	DBCheck
	DBHash
	DBStats
	DropCollection
	DropConnections
	DropDatabase
	DropIndex
	DropRole
	DropSearchIndex
	DropUser
	Emptycapped
	EnableProfiler
	EnableSharding
	ExportCollection
	Find
	FlushRouterConfig
	ForceUUID
	Fsync
	GetChangeStreamState
	GetClusterParameter
	GetCmdLineOpts
	GetDatabaseVersion
	GetDefaultRWConcern
	GetLog
	GetParameter
	GetShardMap
	GetShardVersion
	GrantRole
	HostInfo
	Impersonate
	ImportCollection
	IndexStats
	Inprog
	Insert
	Internal
	InvalidateUserCache
	IssueDirectShardOperations
	KillAnyCursor
	KillAnySession
	KillCursors
	Killop
	ListCachedAndActiveUsers
	ListClusterCatalog
	ListCollections
	ListCursors
	ListDatabases
	ListIndexes
	ListSampledQueries
	ListSearchIndexes
	ListSessions
	ListShards
	LogRotate
	MoveChunk
	MoveCollection
	Netstat
	OidcListKeys
	OidcRefreshKeys
	OIDReset
	OperationMetrics
	PlanCacheIndexFilter
	PlanCacheRead
	PlanCacheWrite
	QueryStatsRead
	QueryStatsReadTransformed
	QuerySettings
	RefineCollectionShardKey
	ReIndex
	Remove
	RemoveShard
	RenameCollection
	RenameCollectionSameDB
	RepairDatabase
	ReplSetConfigure
	ReplSetGetConfig
	ReplSetGetStatus
	ReplSetHeartbeat
	ReplSetReconfig
	ReplSetResizeOplog
	ReplSetStateChange
	ReshardCollection
	Resync
	RevokeRole
	RotateCertificates
	RunTenantMigration
	ServerStatus
	SetAuthenticationRestriction
	SetChangeStreamState
	SetClusterParameter
	SetDefaultRWConcern
	SetFeatureCompatibilityVersion
	SetFreeMonitoring
	SetParameter
	SetUserWriteBlockMode
	ShardCollection
	ShardedDataDistribution
	ShardingState
	Shutdown
	SplitChunk
	SplitVector
	StorageDetails
	Top
	Touch
	TrafficRecord
	TransitionFromDedicatedConfigServer
	TransitionToDedicatedConfigServer
	Unlock
	Update
	UpdateSearchIndex
	UseTenant
	UseUUID
	Validate
	ViewRole
	ViewUser
	actionCount
)

var actionNames = [actionCount]string{
	AddShard:                            "addShard",
	AllCollectionStats:                  "allCollectionStats",
	Analyze:                             "analyze",
	AnalyzeShardKey:                     "analyzeShardKey",
	AnyAction:                           "anyAction",
	AppendOplogNote:                     "appendOplogNote",
	ApplicationMessage:                  "applicationMessage",
	ApplyOps:                            "applyOps",
	AuditConfigure:                      "auditConfigure",
	AuditLogRotate:                      "auditLogRotate",
	AuthCheck:                           "authCheck",
	Authenticate:                        "authenticate",
	AuthSchemaUpgrade:                   "authSchemaUpgrade",
	BypassDefaultMaxTimeMS:              "bypassDefaultMaxTimeMS",
	BypassDocumentValidation:            "bypassDocumentValidation",
	BypassWriteBlockingMode:             "bypassWriteBlockingMode",
	ChangeCustomData:                    "changeCustomData",
	ChangeOwnCustomData:                 "changeOwnCustomData",
	ChangeOwnPassword:                   "changeOwnPassword",
	ChangePassword:                      "changePassword",
	ChangeStream:                        "changeStream",
	CheckFreeMonitoringStatus:           "checkFreeMonitoringStatus",
	CheckMetadataConsistency:            "checkMetadataConsistency",
	CleanupOrphaned:                     "cleanupOrphaned",
	CleanupStructuredEncryptionData:     "cleanupStructuredEncryptionData",
	ClearJumboFlag:                      "clearJumboFlag",
	CollMod:                             "collMod",
	CollStats:                           "collStats",
	Compact:                             "compact",
	CompactStructuredEncryptionData:     "compactStructuredEncryptionData",
	ConfigureQueryAnalyzer:              "configureQueryAnalyzer",
	ConnPoolStats:                       "connPoolStats",
	ConnPoolSync:                        "connPoolSync",
	ConvertToCapped:                     "convertToCapped",
	CpuProfiler:                         "cpuProfiler",
	CreateCollection:                    "createCollection",
	CreateDatabase:                      "createDatabase",
	CreateIndex:                         "createIndex",
	CreateRole:                          "createRole",
	CreateSearchIndexes:                 "createSearchIndexes",
	CreateUser:                          "createUser",
	DBCheck:                             "dbCheck",
	DBHash:                              "dbHash",
	DBStats:                             "dbStats",
	DropCollection:                      "dropCollection",
	DropConnections:                     "dropConnections",
	DropDatabase:                        "dropDatabase",
	DropIndex:                           "dropIndex",
	DropRole:                            "dropRole",
	DropSearchIndex:                     "dropSearchIndex",
	DropUser:                            "dropUser",
	Emptycapped:                         "emptycapped",
	EnableProfiler:                      "enableProfiler",
	EnableSharding:                      "enableSharding",
	ExportCollection:                    "exportCollection",
	Find:                                "find",
	FlushRouterConfig:                   "flushRouterConfig",
	ForceUUID:                           "forceUUID",
	Fsync:                               "fsync",
	GetChangeStreamState:                "getChangeStreamState",
	GetClusterParameter:                 "getClusterParameter",
	GetCmdLineOpts:                      "getCmdLineOpts",
	GetDatabaseVersion:                  "getDatabaseVersion",
	GetDefaultRWConcern:                 "getDefaultRWConcern",
	GetLog:                              "getLog",
	GetParameter:                        "getParameter",
	GetShardMap:                         "getShardMap",
	GetShardVersion:                     "getShardVersion",
	GrantRole:                           "grantRole",
	HostInfo:                            "hostInfo",
	Impersonate:                         "impersonate",
	ImportCollection:                    "importCollection",
	IndexStats:                          "indexStats",
	Inprog:                              "inprog",
	Insert:                              "insert",
	Internal:                            "internal",
	InvalidateUserCache:                 "invalidateUserCache",
	IssueDirectShardOperations:          "issueDirectShardOperations",
	KillAnyCursor:                       "killAnyCursor",
	KillAnySession:                      "killAnySession",
	KillCursors:                         "killCursors",
	Killop:                              "killop",
	ListCachedAndActiveUsers:            "listCachedAndActiveUsers",
	ListClusterCatalog:                  "listClusterCatalog",
	ListCollections:                     "listCollections",
	ListCursors:                         "listCursors",
	ListDatabases:                       "listDatabases",
	ListIndexes:                         "listIndexes",
	ListSampledQueries:                  "listSampledQueries",
	ListSearchIndexes:                   "listSearchIndexes",
	ListSessions:                        "listSessions",
	ListShards:                          "listShards",
	LogRotate:                           "logRotate",
	MoveChunk:                           "moveChunk",
	MoveCollection:                      "moveCollection",
	Netstat:                             "netstat",
	OidcListKeys:                        "oidcListKeys",
	OidcRefreshKeys:                     "oidcRefreshKeys",
	OIDReset:                            "oidReset",
	OperationMetrics:                    "operationMetrics",
	PlanCacheIndexFilter:                "planCacheIndexFilter",
	PlanCacheRead:                       "planCacheRead",
	PlanCacheWrite:                      "planCacheWrite",
	QueryStatsRead:                      "queryStatsRead",
	QueryStatsReadTransformed:           "queryStatsReadTransformed",
	QuerySettings:                       "querySettings",
	RefineCollectionShardKey:            "refineCollectionShardKey",
	ReIndex:                             "reIndex",
	Remove:                              "remove",
	RemoveShard:                         "removeShard",
	RenameCollection:                    "renameCollection",
	RenameCollectionSameDB:              "renameCollectionSameDB",
	RepairDatabase:                      "repairDatabase",
	ReplSetConfigure:                    "replSetConfigure",
	ReplSetGetConfig:                    "replSetGetConfig",
	ReplSetGetStatus:                    "replSetGetStatus",
	ReplSetHeartbeat:                    "replSetHeartbeat",
	ReplSetReconfig:                     "replSetReconfig",
	ReplSetResizeOplog:                  "replSetResizeOplog",
	ReplSetStateChange:                  "replSetStateChange",
	ReshardCollection:                   "reshardCollection",
	Resync:                              "resync",
	RevokeRole:                          "revokeRole",
	RotateCertificates:                  "rotateCertificates",
	RunTenantMigration:                  "runTenantMigration",
	ServerStatus:                        "serverStatus",
	SetAuthenticationRestriction:        "setAuthenticationRestriction",
	SetChangeStreamState:                "setChangeStreamState",
	SetClusterParameter:                 "setClusterParameter",
	SetDefaultRWConcern:                 "setDefaultRWConcern",
	SetFeatureCompatibilityVersion:      "setFeatureCompatibilityVersion",
	SetFreeMonitoring:                   "setFreeMonitoring",
	SetParameter:                        "setParameter",
	SetUserWriteBlockMode:               "setUserWriteBlockMode",
	ShardCollection:                     "shardCollection",
	ShardedDataDistribution:             "shardedDataDistribution",
	ShardingState:                       "shardingState",
	Shutdown:                            "shutdown",
	SplitChunk:                          "splitChunk",
	SplitVector:                         "splitVector",
	StorageDetails:                      "storageDetails",
	Top:                                 "top",
	Touch:                               "touch",
	TrafficRecord:                       "trafficRecord",
	TransitionFromDedicatedConfigServer: "transitionFromDedicatedConfigServer",
	TransitionToDedicatedConfigServer:   "transitionToDedicatedConfigServer",
	Unlock:                              "unlock",
	Update:                              "update",
	UpdateSearchIndex:                   "updateSearchIndex",
	UseTenant:                           "useTenant",
	UseUUID:                             "useUUID",
	Validate:                            "validate",
	ViewRole:                            "viewRole",
	ViewUser:                            "viewUser",
}

var actionsByName = func() map[string]Action {
	m := make(map[string]Action, actionCount)
	for a, name := range actionNames {
		m[name] = Action(a)
	}
	return m
}()

// String is the action as privileges name it.
func (a Action) String() string { return actionNames[a] }

// Actions is a set of actions.
type Actions [4]uint64

// Of makes a set. AnyAction stands for all actions.
func Of(actions ...Action) Actions {
	var s Actions
	for _, a := range actions {
		if a == AnyAction {
			return everything
		}
		s[a>>6] |= 1 << (a & 63)
	}
	return s
}

// everything is the set of all actions.
var everything = func() Actions {
	var s Actions
	for a := range actionCount {
		s[a>>6] |= 1 << (a & 63)
	}
	return s
}()

// With is the union of both.
func (s Actions) With(t Actions) Actions {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// Without is s less t.
func (s Actions) Without(t Actions) Actions {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

// Has reports whether the action is in the set.
func (s Actions) Has(a Action) bool { return s[a>>6]&(1<<(a&63)) != 0 }

// Empty reports whether nothing is in the set.
func (s Actions) Empty() bool { return s == Actions{} }

// write appends the names as the array "actions": of all actions anyAction only.
func (s Actions) write(b *bson.Builder) {
	if s.Has(AnyAction) {
		b.Strings("actions", actionNames[AnyAction])
		return
	}
	b.OpenArray("actions")
	n := 0
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			b.String(bson.Index(n), actionNames[i<<6+bits.TrailingZeros64(word)])
			n++
		}
	}
	b.Close()
}
