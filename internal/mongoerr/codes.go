package mongoerr

import "strconv"

// Code is the number of an error. Numbers without a name of their own print as
// "Location" and the number, as the server does.
type Code int32

// The named codes (docs, "Error Codes").
const (
	OK                                              Code = 0
	InternalError                                   Code = 1
	BadValue                                        Code = 2
	NoSuchKey                                       Code = 4
	GraphContainsCycle                              Code = 5
	HostUnreachable                                 Code = 6
	HostNotFound                                    Code = 7
	UnknownError                                    Code = 8
	FailedToParse                                   Code = 9
	CannotMutateObject                              Code = 10
	UserNotFound                                    Code = 11
	UnsupportedFormat                               Code = 12
	Unauthorized                                    Code = 13
	TypeMismatch                                    Code = 14
	Overflow                                        Code = 15
	InvalidLength                                   Code = 16
	ProtocolError                                   Code = 17
	AuthenticationFailed                            Code = 18
	CannotReuseObject                               Code = 19
	IllegalOperation                                Code = 20
	EmptyArrayOperation                             Code = 21
	InvalidBSON                                     Code = 22
	AlreadyInitialized                              Code = 23
	LockTimeout                                     Code = 24
	RemoteValidationError                           Code = 25
	NamespaceNotFound                               Code = 26
	IndexNotFound                                   Code = 27
	PathNotViable                                   Code = 28
	NonExistentPath                                 Code = 29
	InvalidPath                                     Code = 30
	RoleNotFound                                    Code = 31
	RolesNotRelated                                 Code = 32
	PrivilegeNotFound                               Code = 33
	CannotBackfillArray                             Code = 34
	UserModificationFailed                          Code = 35
	RemoteChangeDetected                            Code = 36
	FileRenameFailed                                Code = 37
	FileNotOpen                                     Code = 38
	FileStreamFailed                                Code = 39
	ConflictingUpdateOperators                      Code = 40
	FileAlreadyOpen                                 Code = 41
	LogWriteFailed                                  Code = 42
	CursorNotFound                                  Code = 43
	UserDataInconsistent                            Code = 45
	LockBusy                                        Code = 46
	NoMatchingDocument                              Code = 47
	NamespaceExists                                 Code = 48
	InvalidRoleModification                         Code = 49
	MaxTimeMSExpired                                Code = 50
	ManualInterventionRequired                      Code = 51
	DollarPrefixedFieldName                         Code = 52
	InvalidIdField                                  Code = 53
	NotSingleValueField                             Code = 54
	InvalidDBRef                                    Code = 55
	EmptyFieldName                                  Code = 56
	DottedFieldName                                 Code = 57
	RoleModificationFailed                          Code = 58
	CommandNotFound                                 Code = 59
	ShardKeyNotFound                                Code = 61
	OplogOperationUnsupported                       Code = 62
	StaleShardVersion                               Code = 63
	WriteConcernFailed                              Code = 64
	MultipleErrorsOccurred                          Code = 65
	ImmutableField                                  Code = 66
	CannotCreateIndex                               Code = 67
	IndexAlreadyExists                              Code = 68
	AuthSchemaIncompatible                          Code = 69
	ShardNotFound                                   Code = 70
	ReplicaSetNotFound                              Code = 71
	InvalidOptions                                  Code = 72
	InvalidNamespace                                Code = 73
	NodeNotFound                                    Code = 74
	NoReplicationEnabled                            Code = 76
	OperationIncomplete                             Code = 77
	CommandResultSchemaViolation                    Code = 78
	UnknownReplWriteConcern                         Code = 79
	RoleDataInconsistent                            Code = 80
	NoMatchParseContext                             Code = 81
	NoProgressMade                                  Code = 82
	RemoteResultsUnavailable                        Code = 83
	IndexOptionsConflict                            Code = 85
	IndexKeySpecsConflict                           Code = 86
	CannotSplit                                     Code = 87
	NetworkTimeout                                  Code = 89
	CallbackCanceled                                Code = 90
	ShutdownInProgress                              Code = 91
	SecondaryAheadOfPrimary                         Code = 92
	InvalidReplicaSetConfig                         Code = 93
	NotYetInitialized                               Code = 94
	NotSecondary                                    Code = 95
	OperationFailed                                 Code = 96
	NoProjectionFound                               Code = 97
	DBPathInUse                                     Code = 98
	UnsatisfiableWriteConcern                       Code = 100
	OutdatedClient                                  Code = 101
	IncompatibleAuditMetadata                       Code = 102
	NewReplicaSetConfigurationIncompatible          Code = 103
	NodeNotElectable                                Code = 104
	IncompatibleShardingMetadata                    Code = 105
	DistributedClockSkewed                          Code = 106
	LockFailed                                      Code = 107
	InconsistentReplicaSetNames                     Code = 108
	ConfigurationInProgress                         Code = 109
	CannotInitializeNodeWithData                    Code = 110
	NotExactValueField                              Code = 111
	WriteConflict                                   Code = 112
	InitialSyncFailure                              Code = 113
	InitialSyncOplogSourceMissing                   Code = 114
	CommandNotSupported                             Code = 115
	DocTooLargeForCapped                            Code = 116
	ConflictingOperationInProgress                  Code = 117
	NamespaceNotSharded                             Code = 118
	InvalidSyncSource                               Code = 119
	OplogStartMissing                               Code = 120
	DocumentValidationFailure                       Code = 121
	NotAReplicaSet                                  Code = 123
	IncompatibleElectionProtocol                    Code = 124
	CommandFailed                                   Code = 125
	RPCProtocolNegotiationFailed                    Code = 126
	UnrecoverableRollbackError                      Code = 127
	LockNotFound                                    Code = 128
	LockStateChangeFailed                           Code = 129
	SymbolNotFound                                  Code = 130
	FailedToSatisfyReadPreference                   Code = 133
	ReadConcernMajorityNotAvailableYet              Code = 134
	StaleTerm                                       Code = 135
	CappedPositionLost                              Code = 136
	IncompatibleShardingConfigVersion               Code = 137
	RemoteOplogStale                                Code = 138
	JSInterpreterFailure                            Code = 139
	InvalidSSLConfiguration                         Code = 140
	SSLHandshakeFailed                              Code = 141
	JSUncatchableError                              Code = 142
	CursorInUse                                     Code = 143
	IncompatibleCatalogManager                      Code = 144
	PooledConnectionsDropped                        Code = 145
	ExceededMemoryLimit                             Code = 146
	ZLibError                                       Code = 147
	ReadConcernMajorityNotEnabled                   Code = 148
	NoConfigPrimary                                 Code = 149
	StaleEpoch                                      Code = 150
	OperationCannotBeBatched                        Code = 151
	OplogOutOfOrder                                 Code = 152
	ChunkTooBig                                     Code = 153
	InconsistentShardIdentity                       Code = 154
	CannotApplyOplogWhilePrimary                    Code = 155
	CanRepairToDowngrade                            Code = 157
	MustUpgrade                                     Code = 158
	DurationOverflow                                Code = 159
	MaxStalenessOutOfRange                          Code = 160
	IncompatibleCollationVersion                    Code = 161
	CollectionIsEmpty                               Code = 162
	ZoneStillInUse                                  Code = 163
	InitialSyncActive                               Code = 164
	ViewDepthLimitExceeded                          Code = 165
	CommandNotSupportedOnView                       Code = 166
	OptionNotSupportedOnView                        Code = 167
	InvalidPipelineOperator                         Code = 168
	CommandOnShardedViewNotSupportedOnMongod        Code = 169
	TooManyMatchingDocuments                        Code = 170
	CannotIndexParallelArrays                       Code = 171
	TransportSessionClosed                          Code = 172
	TransportSessionNotFound                        Code = 173
	TransportSessionUnknown                         Code = 174
	QueryPlanKilled                                 Code = 175
	FileOpenFailed                                  Code = 176
	ZoneNotFound                                    Code = 177
	RangeOverlapConflict                            Code = 178
	WindowsPdhError                                 Code = 179
	BadPerfCounterPath                              Code = 180
	AmbiguousIndexKeyPattern                        Code = 181
	InvalidViewDefinition                           Code = 182
	ClientMetadataMissingField                      Code = 183
	ClientMetadataAppNameTooLarge                   Code = 184
	ClientMetadataDocumentTooLarge                  Code = 185
	ClientMetadataCannotBeMutated                   Code = 186
	LinearizableReadConcernError                    Code = 187
	IncompatibleServerVersion                       Code = 188
	PrimarySteppedDown                              Code = 189
	MasterSlaveConnectionFailure                    Code = 190
	FailPointEnabled                                Code = 192
	NoShardingEnabled                               Code = 193
	BalancerInterrupted                             Code = 194
	ViewPipelineMaxSizeExceeded                     Code = 195
	InvalidIndexSpecificationOption                 Code = 197
	ReplicaSetMonitorRemoved                        Code = 199
	ChunkRangeCleanupPending                        Code = 200
	CannotBuildIndexKeys                            Code = 201
	NetworkInterfaceExceededTimeLimit               Code = 202
	ShardingStateNotInitialized                     Code = 203
	TimeProofMismatch                               Code = 204
	ClusterTimeFailsRateLimiter                     Code = 205
	NoSuchSession                                   Code = 206
	InvalidUUID                                     Code = 207
	TooManyLocks                                    Code = 208
	StaleClusterTime                                Code = 209
	CannotVerifyAndSignLogicalTime                  Code = 210
	KeyNotFound                                     Code = 211
	IncompatibleRollbackAlgorithm                   Code = 212
	DuplicateSession                                Code = 213
	AuthenticationRestrictionUnmet                  Code = 214
	DatabaseDropPending                             Code = 215
	ElectionInProgress                              Code = 216
	IncompleteTransactionHistory                    Code = 217
	UpdateOperationFailed                           Code = 218
	FTDCPathNotSet                                  Code = 219
	FTDCPathAlreadySet                              Code = 220
	IndexModified                                   Code = 221
	CloseChangeStream                               Code = 222
	IllegalOpMsgFlag                                Code = 223
	QueryFeatureNotAllowed                          Code = 224
	TransactionTooOld                               Code = 225
	AtomicityFailure                                Code = 226
	CannotImplicitlyCreateCollection                Code = 227
	SessionTransferIncomplete                       Code = 228
	MustDowngrade                                   Code = 229
	DNSHostNotFound                                 Code = 230
	DNSProtocolError                                Code = 231
	MaxSubPipelineDepthExceeded                     Code = 232
	TooManyDocumentSequences                        Code = 233
	RetryChangeStream                               Code = 234
	ForTestingErrorExtraInfo                        Code = 236
	CursorKilled                                    Code = 237
	NotImplemented                                  Code = 238
	SnapshotTooOld                                  Code = 239
	DNSRecordTypeMismatch                           Code = 240
	ConversionFailure                               Code = 241
	CannotCreateCollection                          Code = 242
	IncompatibleWithUpgradedServer                  Code = 243
	SnapshotUnavailable                             Code = 246
	ProducerConsumerQueueEndClosed                  Code = 248
	StaleDbVersion                                  Code = 249
	StaleChunkHistory                               Code = 250
	NoSuchTransaction                               Code = 251
	ReentrancyNotAllowed                            Code = 252
	FreeMonHttpInFlight                             Code = 253
	FreeMonHttpTemporaryFailure                     Code = 254
	FreeMonHttpPermanentFailure                     Code = 255
	TransactionCommitted                            Code = 256
	TransactionTooLarge                             Code = 257
	UnknownFeatureCompatibilityVersion              Code = 258
	KeyedExecutorRetry                              Code = 259
	InvalidResumeToken                              Code = 260
	TooManyLogicalSessions                          Code = 261
	ExceededTimeLimit                               Code = 262
	OperationNotSupportedInTransaction              Code = 263
	TooManyFilesOpen                                Code = 264
	OrphanedRangeCleanUpFailed                      Code = 265
	FailPointSetFailed                              Code = 266
	PreparedTransactionInProgress                   Code = 267
	CannotBackup                                    Code = 268
	DataModifiedByRepair                            Code = 269
	RepairedReplicaSetNode                          Code = 270
	JSInterpreterFailureWithStack                   Code = 271
	MigrationConflict                               Code = 272
	ProducerConsumerQueueProducerQueueDepthExceeded Code = 273
	ProducerConsumerQueueConsumed                   Code = 274
	ExchangePassthrough                             Code = 275
	IndexBuildAborted                               Code = 276
	AlarmAlreadyFulfilled                           Code = 277
	UnsatisfiableCommitQuorum                       Code = 278
	ClientDisconnect                                Code = 279
	ChangeStreamFatalError                          Code = 280
	TransactionCoordinatorSteppingDown              Code = 281
	TransactionCoordinatorReachedAbortDecision      Code = 282
	WouldChangeOwningShard                          Code = 283
	IndexBuildAlreadyInProgress                     Code = 285
	ChangeStreamHistoryLost                         Code = 286
	TransactionCoordinatorDeadlineTaskCanceled      Code = 287
	ChecksumMismatch                                Code = 288
	WaitForMajorityServiceEarlierOpTimeAvailable    Code = 289
	TransactionExceededLifetimeLimitSeconds         Code = 290
	NoQueryExecutionPlans                           Code = 291
	QueryExceededMemoryLimitNoDiskUseAllowed        Code = 292
	DataCorruptionDetected                          Code = 301
	PeriodicJobIsStopped                            Code = 310
	ObjectIsBusy                                    Code = 314
	MovePrimaryInProgress                           Code = 319
	APIVersionError                                 Code = 322
	APIStrictError                                  Code = 323
	APIDeprecationError                             Code = 324
	APIMismatchError                                Code = 347
	FeatureNotSupported                             Code = 303
	UnsupportedOpQueryCommand                       Code = 352
	MechanismUnavailable                            Code = 334
	CannotConvertIndexToUnique                      Code = 359
	CollectionUUIDMismatch                          Code = 361
	CannotDropShardKeyIndex                         Code = 370
	UserWritesBlocked                               Code = 371
	CannotCreateChunkDistribution                   Code = 405
	QueryRejectedBySettings                         Code = 411
	SocketException                                 Code = 9001
	CannotGrowDocumentInCappedNamespace             Code = 10003
	NotWritablePrimary                              Code = 10107
	BSONObjectTooLarge                              Code = 10334
	DuplicateKey                                    Code = 11000
	InterruptedAtShutdown                           Code = 11600
	Interrupted                                     Code = 11601
	InterruptedDueToReplStateChange                 Code = 11602
	MergeStageNoMatchingDocument                    Code = 13113
	StaleConfig                                     Code = 13388
	NotPrimaryNoSecondaryOk                         Code = 13435
	NotPrimaryOrSecondary                           Code = 13436
	OutOfDiskSpace                                  Code = 14031
	SearchNotEnabled                                Code = 31082
	ClientMarkedKilled                              Code = 46841
	IDLUnknownField                                 Code = 40415
	IDLFailedToParse                                Code = 40414
)

var names = map[Code]string{
	OK:                                       "OK",
	InternalError:                            "InternalError",
	BadValue:                                 "BadValue",
	NoSuchKey:                                "NoSuchKey",
	GraphContainsCycle:                       "GraphContainsCycle",
	HostUnreachable:                          "HostUnreachable",
	HostNotFound:                             "HostNotFound",
	UnknownError:                             "UnknownError",
	FailedToParse:                            "FailedToParse",
	CannotMutateObject:                       "CannotMutateObject",
	UserNotFound:                             "UserNotFound",
	UnsupportedFormat:                        "UnsupportedFormat",
	Unauthorized:                             "Unauthorized",
	TypeMismatch:                             "TypeMismatch",
	Overflow:                                 "Overflow",
	InvalidLength:                            "InvalidLength",
	ProtocolError:                            "ProtocolError",
	AuthenticationFailed:                     "AuthenticationFailed",
	CannotReuseObject:                        "CannotReuseObject",
	IllegalOperation:                         "IllegalOperation",
	EmptyArrayOperation:                      "EmptyArrayOperation",
	InvalidBSON:                              "InvalidBSON",
	AlreadyInitialized:                       "AlreadyInitialized",
	LockTimeout:                              "LockTimeout",
	RemoteValidationError:                    "RemoteValidationError",
	NamespaceNotFound:                        "NamespaceNotFound",
	IndexNotFound:                            "IndexNotFound",
	PathNotViable:                            "PathNotViable",
	NonExistentPath:                          "NonExistentPath",
	InvalidPath:                              "InvalidPath",
	RoleNotFound:                             "RoleNotFound",
	RolesNotRelated:                          "RolesNotRelated",
	PrivilegeNotFound:                        "PrivilegeNotFound",
	CannotBackfillArray:                      "CannotBackfillArray",
	UserModificationFailed:                   "UserModificationFailed",
	RemoteChangeDetected:                     "RemoteChangeDetected",
	FileRenameFailed:                         "FileRenameFailed",
	FileNotOpen:                              "FileNotOpen",
	FileStreamFailed:                         "FileStreamFailed",
	ConflictingUpdateOperators:               "ConflictingUpdateOperators",
	FileAlreadyOpen:                          "FileAlreadyOpen",
	LogWriteFailed:                           "LogWriteFailed",
	CursorNotFound:                           "CursorNotFound",
	UserDataInconsistent:                     "UserDataInconsistent",
	LockBusy:                                 "LockBusy",
	NoMatchingDocument:                       "NoMatchingDocument",
	NamespaceExists:                          "NamespaceExists",
	InvalidRoleModification:                  "InvalidRoleModification",
	MaxTimeMSExpired:                         "MaxTimeMSExpired",
	ManualInterventionRequired:               "ManualInterventionRequired",
	DollarPrefixedFieldName:                  "DollarPrefixedFieldName",
	InvalidIdField:                           "InvalidIdField",
	NotSingleValueField:                      "NotSingleValueField",
	InvalidDBRef:                             "InvalidDBRef",
	EmptyFieldName:                           "EmptyFieldName",
	DottedFieldName:                          "DottedFieldName",
	RoleModificationFailed:                   "RoleModificationFailed",
	CommandNotFound:                          "CommandNotFound",
	ShardKeyNotFound:                         "ShardKeyNotFound",
	OplogOperationUnsupported:                "OplogOperationUnsupported",
	StaleShardVersion:                        "StaleShardVersion",
	WriteConcernFailed:                       "WriteConcernFailed",
	MultipleErrorsOccurred:                   "MultipleErrorsOccurred",
	ImmutableField:                           "ImmutableField",
	CannotCreateIndex:                        "CannotCreateIndex",
	IndexAlreadyExists:                       "IndexAlreadyExists",
	AuthSchemaIncompatible:                   "AuthSchemaIncompatible",
	ShardNotFound:                            "ShardNotFound",
	ReplicaSetNotFound:                       "ReplicaSetNotFound",
	InvalidOptions:                           "InvalidOptions",
	InvalidNamespace:                         "InvalidNamespace",
	NodeNotFound:                             "NodeNotFound",
	NoReplicationEnabled:                     "NoReplicationEnabled",
	OperationIncomplete:                      "OperationIncomplete",
	CommandResultSchemaViolation:             "CommandResultSchemaViolation",
	UnknownReplWriteConcern:                  "UnknownReplWriteConcern",
	RoleDataInconsistent:                     "RoleDataInconsistent",
	NoMatchParseContext:                      "NoMatchParseContext",
	NoProgressMade:                           "NoProgressMade",
	RemoteResultsUnavailable:                 "RemoteResultsUnavailable",
	IndexOptionsConflict:                     "IndexOptionsConflict",
	IndexKeySpecsConflict:                    "IndexKeySpecsConflict",
	CannotSplit:                              "CannotSplit",
	NetworkTimeout:                           "NetworkTimeout",
	CallbackCanceled:                         "CallbackCanceled",
	ShutdownInProgress:                       "ShutdownInProgress",
	SecondaryAheadOfPrimary:                  "SecondaryAheadOfPrimary",
	InvalidReplicaSetConfig:                  "InvalidReplicaSetConfig",
	NotYetInitialized:                        "NotYetInitialized",
	NotSecondary:                             "NotSecondary",
	OperationFailed:                          "OperationFailed",
	NoProjectionFound:                        "NoProjectionFound",
	DBPathInUse:                              "DBPathInUse",
	UnsatisfiableWriteConcern:                "UnsatisfiableWriteConcern",
	OutdatedClient:                           "OutdatedClient",
	IncompatibleAuditMetadata:                "IncompatibleAuditMetadata",
	NewReplicaSetConfigurationIncompatible:   "NewReplicaSetConfigurationIncompatible",
	NodeNotElectable:                         "NodeNotElectable",
	IncompatibleShardingMetadata:             "IncompatibleShardingMetadata",
	DistributedClockSkewed:                   "DistributedClockSkewed",
	LockFailed:                               "LockFailed",
	InconsistentReplicaSetNames:              "InconsistentReplicaSetNames",
	ConfigurationInProgress:                  "ConfigurationInProgress",
	CannotInitializeNodeWithData:             "CannotInitializeNodeWithData",
	NotExactValueField:                       "NotExactValueField",
	WriteConflict:                            "WriteConflict",
	InitialSyncFailure:                       "InitialSyncFailure",
	InitialSyncOplogSourceMissing:            "InitialSyncOplogSourceMissing",
	CommandNotSupported:                      "CommandNotSupported",
	DocTooLargeForCapped:                     "DocTooLargeForCapped",
	ConflictingOperationInProgress:           "ConflictingOperationInProgress",
	NamespaceNotSharded:                      "NamespaceNotSharded",
	InvalidSyncSource:                        "InvalidSyncSource",
	OplogStartMissing:                        "OplogStartMissing",
	DocumentValidationFailure:                "DocumentValidationFailure",
	NotAReplicaSet:                           "NotAReplicaSet",
	IncompatibleElectionProtocol:             "IncompatibleElectionProtocol",
	CommandFailed:                            "CommandFailed",
	RPCProtocolNegotiationFailed:             "RPCProtocolNegotiationFailed",
	UnrecoverableRollbackError:               "UnrecoverableRollbackError",
	LockNotFound:                             "LockNotFound",
	LockStateChangeFailed:                    "LockStateChangeFailed",
	SymbolNotFound:                           "SymbolNotFound",
	FailedToSatisfyReadPreference:            "FailedToSatisfyReadPreference",
	ReadConcernMajorityNotAvailableYet:       "ReadConcernMajorityNotAvailableYet",
	StaleTerm:                                "StaleTerm",
	CappedPositionLost:                       "CappedPositionLost",
	IncompatibleShardingConfigVersion:        "IncompatibleShardingConfigVersion",
	RemoteOplogStale:                         "RemoteOplogStale",
	JSInterpreterFailure:                     "JSInterpreterFailure",
	InvalidSSLConfiguration:                  "InvalidSSLConfiguration",
	SSLHandshakeFailed:                       "SSLHandshakeFailed",
	JSUncatchableError:                       "JSUncatchableError",
	CursorInUse:                              "CursorInUse",
	IncompatibleCatalogManager:               "IncompatibleCatalogManager",
	PooledConnectionsDropped:                 "PooledConnectionsDropped",
	ExceededMemoryLimit:                      "ExceededMemoryLimit",
	ZLibError:                                "ZLibError",
	ReadConcernMajorityNotEnabled:            "ReadConcernMajorityNotEnabled",
	NoConfigPrimary:                          "NoConfigPrimary",
	StaleEpoch:                               "StaleEpoch",
	OperationCannotBeBatched:                 "OperationCannotBeBatched",
	OplogOutOfOrder:                          "OplogOutOfOrder",
	ChunkTooBig:                              "ChunkTooBig",
	InconsistentShardIdentity:                "InconsistentShardIdentity",
	CannotApplyOplogWhilePrimary:             "CannotApplyOplogWhilePrimary",
	CanRepairToDowngrade:                     "CanRepairToDowngrade",
	MustUpgrade:                              "MustUpgrade",
	DurationOverflow:                         "DurationOverflow",
	MaxStalenessOutOfRange:                   "MaxStalenessOutOfRange",
	IncompatibleCollationVersion:             "IncompatibleCollationVersion",
	CollectionIsEmpty:                        "CollectionIsEmpty",
	ZoneStillInUse:                           "ZoneStillInUse",
	InitialSyncActive:                        "InitialSyncActive",
	ViewDepthLimitExceeded:                   "ViewDepthLimitExceeded",
	CommandNotSupportedOnView:                "CommandNotSupportedOnView",
	OptionNotSupportedOnView:                 "OptionNotSupportedOnView",
	InvalidPipelineOperator:                  "InvalidPipelineOperator",
	CommandOnShardedViewNotSupportedOnMongod: "CommandOnShardedViewNotSupportedOnMongod",
	TooManyMatchingDocuments:                 "TooManyMatchingDocuments",
	CannotIndexParallelArrays:                "CannotIndexParallelArrays",
	TransportSessionClosed:                   "TransportSessionClosed",
	TransportSessionNotFound:                 "TransportSessionNotFound",
	TransportSessionUnknown:                  "TransportSessionUnknown",
	QueryPlanKilled:                          "QueryPlanKilled",
	FileOpenFailed:                           "FileOpenFailed",
	ZoneNotFound:                             "ZoneNotFound",
	RangeOverlapConflict:                     "RangeOverlapConflict",
	WindowsPdhError:                          "WindowsPdhError",
	BadPerfCounterPath:                       "BadPerfCounterPath",
	AmbiguousIndexKeyPattern:                 "AmbiguousIndexKeyPattern",
	InvalidViewDefinition:                    "InvalidViewDefinition",
	ClientMetadataMissingField:               "ClientMetadataMissingField",
	ClientMetadataAppNameTooLarge:            "ClientMetadataAppNameTooLarge",
	ClientMetadataDocumentTooLarge:           "ClientMetadataDocumentTooLarge",
	ClientMetadataCannotBeMutated:            "ClientMetadataCannotBeMutated",
	LinearizableReadConcernError:             "LinearizableReadConcernError",
	IncompatibleServerVersion:                "IncompatibleServerVersion",
	PrimarySteppedDown:                       "PrimarySteppedDown",
	MasterSlaveConnectionFailure:             "MasterSlaveConnectionFailure",
	FailPointEnabled:                         "FailPointEnabled",
	NoShardingEnabled:                        "NoShardingEnabled",
	BalancerInterrupted:                      "BalancerInterrupted",
	ViewPipelineMaxSizeExceeded:              "ViewPipelineMaxSizeExceeded",
	InvalidIndexSpecificationOption:          "InvalidIndexSpecificationOption",
	ReplicaSetMonitorRemoved:                 "ReplicaSetMonitorRemoved",
	ChunkRangeCleanupPending:                 "ChunkRangeCleanupPending",
	CannotBuildIndexKeys:                     "CannotBuildIndexKeys",
	NetworkInterfaceExceededTimeLimit:        "NetworkInterfaceExceededTimeLimit",
	ShardingStateNotInitialized:              "ShardingStateNotInitialized",
	TimeProofMismatch:                        "TimeProofMismatch",
	ClusterTimeFailsRateLimiter:              "ClusterTimeFailsRateLimiter",
	NoSuchSession:                            "NoSuchSession",
	InvalidUUID:                              "InvalidUUID",
	TooManyLocks:                             "TooManyLocks",
	StaleClusterTime:                         "StaleClusterTime",
	CannotVerifyAndSignLogicalTime:           "CannotVerifyAndSignLogicalTime",
	KeyNotFound:                              "KeyNotFound",
	IncompatibleRollbackAlgorithm:            "IncompatibleRollbackAlgorithm",
	DuplicateSession:                         "DuplicateSession",
	AuthenticationRestrictionUnmet:           "AuthenticationRestrictionUnmet",
	DatabaseDropPending:                      "DatabaseDropPending",
	ElectionInProgress:                       "ElectionInProgress",
	IncompleteTransactionHistory:             "IncompleteTransactionHistory",
	UpdateOperationFailed:                    "UpdateOperationFailed",
	FTDCPathNotSet:                           "FTDCPathNotSet",
	FTDCPathAlreadySet:                       "FTDCPathAlreadySet",
	IndexModified:                            "IndexModified",
	CloseChangeStream:                        "CloseChangeStream",
	IllegalOpMsgFlag:                         "IllegalOpMsgFlag",
	QueryFeatureNotAllowed:                   "QueryFeatureNotAllowed",
	TransactionTooOld:                        "TransactionTooOld",
	AtomicityFailure:                         "AtomicityFailure",
	CannotImplicitlyCreateCollection:         "CannotImplicitlyCreateCollection",
	SessionTransferIncomplete:                "SessionTransferIncomplete",
	MustDowngrade:                            "MustDowngrade",
	DNSHostNotFound:                          "DNSHostNotFound",
	DNSProtocolError:                         "DNSProtocolError",
	MaxSubPipelineDepthExceeded:              "MaxSubPipelineDepthExceeded",
	TooManyDocumentSequences:                 "TooManyDocumentSequences",
	RetryChangeStream:                        "RetryChangeStream",
	ForTestingErrorExtraInfo:                 "ForTestingErrorExtraInfo",
	CursorKilled:                             "CursorKilled",
	NotImplemented:                           "NotImplemented",
	SnapshotTooOld:                           "SnapshotTooOld",
	DNSRecordTypeMismatch:                    "DNSRecordTypeMismatch",
	ConversionFailure:                        "ConversionFailure",
	CannotCreateCollection:                   "CannotCreateCollection",
	IncompatibleWithUpgradedServer:           "IncompatibleWithUpgradedServer",
	SnapshotUnavailable:                      "SnapshotUnavailable",
	ProducerConsumerQueueEndClosed:           "ProducerConsumerQueueEndClosed",
	StaleDbVersion:                           "StaleDbVersion",
	StaleChunkHistory:                        "StaleChunkHistory",
	NoSuchTransaction:                        "NoSuchTransaction",
	ReentrancyNotAllowed:                     "ReentrancyNotAllowed",
	FreeMonHttpInFlight:                      "FreeMonHttpInFlight",
	FreeMonHttpTemporaryFailure:              "FreeMonHttpTemporaryFailure",
	FreeMonHttpPermanentFailure:              "FreeMonHttpPermanentFailure",
	TransactionCommitted:                     "TransactionCommitted",
	TransactionTooLarge:                      "TransactionTooLarge",
	UnknownFeatureCompatibilityVersion:       "UnknownFeatureCompatibilityVersion",
	KeyedExecutorRetry:                       "KeyedExecutorRetry",
	InvalidResumeToken:                       "InvalidResumeToken",
	TooManyLogicalSessions:                   "TooManyLogicalSessions",
	ExceededTimeLimit:                        "ExceededTimeLimit",
	OperationNotSupportedInTransaction:       "OperationNotSupportedInTransaction",
	TooManyFilesOpen:                         "TooManyFilesOpen",
	OrphanedRangeCleanUpFailed:               "OrphanedRangeCleanUpFailed",
	FailPointSetFailed:                       "FailPointSetFailed",
	PreparedTransactionInProgress:            "PreparedTransactionInProgress",
	CannotBackup:                             "CannotBackup",
	DataModifiedByRepair:                     "DataModifiedByRepair",
	RepairedReplicaSetNode:                   "RepairedReplicaSetNode",
	JSInterpreterFailureWithStack:            "JSInterpreterFailureWithStack",
	MigrationConflict:                        "MigrationConflict",
	ProducerConsumerQueueProducerQueueDepthExceeded: "ProducerConsumerQueueProducerQueueDepthExceeded",
	ProducerConsumerQueueConsumed:                   "ProducerConsumerQueueConsumed",
	ExchangePassthrough:                             "ExchangePassthrough",
	IndexBuildAborted:                               "IndexBuildAborted",
	AlarmAlreadyFulfilled:                           "AlarmAlreadyFulfilled",
	UnsatisfiableCommitQuorum:                       "UnsatisfiableCommitQuorum",
	ClientDisconnect:                                "ClientDisconnect",
	ChangeStreamFatalError:                          "ChangeStreamFatalError",
	TransactionCoordinatorSteppingDown:              "TransactionCoordinatorSteppingDown",
	TransactionCoordinatorReachedAbortDecision:      "TransactionCoordinatorReachedAbortDecision",
	WouldChangeOwningShard:                          "WouldChangeOwningShard",
	IndexBuildAlreadyInProgress:                     "IndexBuildAlreadyInProgress",
	ChangeStreamHistoryLost:                         "ChangeStreamHistoryLost",
	TransactionCoordinatorDeadlineTaskCanceled:      "TransactionCoordinatorDeadlineTaskCanceled",
	ChecksumMismatch:                                "ChecksumMismatch",
	WaitForMajorityServiceEarlierOpTimeAvailable:    "WaitForMajorityServiceEarlierOpTimeAvailable",
	TransactionExceededLifetimeLimitSeconds:         "TransactionExceededLifetimeLimitSeconds",
	NoQueryExecutionPlans:                           "NoQueryExecutionPlans",
	QueryExceededMemoryLimitNoDiskUseAllowed:        "QueryExceededMemoryLimitNoDiskUseAllowed",
	DataCorruptionDetected:                          "DataCorruptionDetected",
	PeriodicJobIsStopped:                            "PeriodicJobIsStopped",
	ObjectIsBusy:                                    "ObjectIsBusy",
	MovePrimaryInProgress:                           "MovePrimaryInProgress",
	APIVersionError:                                 "APIVersionError",
	APIStrictError:                                  "APIStrictError",
	APIDeprecationError:                             "APIDeprecationError",
	APIMismatchError:                                "APIMismatchError",
	FeatureNotSupported:                             "FeatureNotSupported",
	UnsupportedOpQueryCommand:                       "UnsupportedOpQueryCommand",
	CannotConvertIndexToUnique:                      "CannotConvertIndexToUnique",
	CollectionUUIDMismatch:                          "CollectionUUIDMismatch",
	UserWritesBlocked:                               "UserWritesBlocked",
	QueryRejectedBySettings:                         "QueryRejectedBySettings",
	CannotCreateChunkDistribution:                   "CannotCreateChunkDistribution",
	SocketException:                                 "SocketException",
	CannotGrowDocumentInCappedNamespace:             "CannotGrowDocumentInCappedNamespace",
	NotWritablePrimary:                              "NotWritablePrimary",
	BSONObjectTooLarge:                              "BSONObjectTooLarge",
	DuplicateKey:                                    "DuplicateKey",
	InterruptedAtShutdown:                           "InterruptedAtShutdown",
	Interrupted:                                     "Interrupted",
	InterruptedDueToReplStateChange:                 "InterruptedDueToReplStateChange",
	MergeStageNoMatchingDocument:                    "MergeStageNoMatchingDocument",
	StaleConfig:                                     "StaleConfig",
	NotPrimaryNoSecondaryOk:                         "NotPrimaryNoSecondaryOk",
	NotPrimaryOrSecondary:                           "NotPrimaryOrSecondary",
	OutOfDiskSpace:                                  "OutOfDiskSpace",
	SearchNotEnabled:                                "SearchNotEnabled",
	ClientMarkedKilled:                              "ClientMarkedKilled",
	MechanismUnavailable:                            "MechanismUnavailable",
}

// String is the codeName of a reply.
func (c Code) String() string {
	if s, ok := names[c]; ok {
		return s
	}
	return "Location" + strconv.Itoa(int(c))
}
