package node

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/command"
)

// placed has the members of a replica set on which each command runs. (mongod's
// own table: secondaryAllowed and maintenanceOk of its commands.)
var placed = map[command.Place]string{
	command.OnPrimary: `abortTransaction appendOplogNote applyOps archiveForget bulkWrite cloneCollectionAsCapped collMod commitTransaction
		compactStructuredEncryptionData convertToCapped create createIndexes createRole createSearchIndexes createUser delete drop
		dropAllRolesFromDatabase dropAllUsersFromDatabase dropDatabase dropIndexes dropRole dropSearchIndex dropUser findAndModify
		grantPrivilegesToRole grantRolesToRole grantRolesToUser insert _mergeAuthzCollections prepareTransaction renameCollection
		revokePrivilegesFromRole revokeRolesFromRole revokeRolesFromUser setClusterParameter setDefaultRWConcern
		setFeatureCompatibilityVersion setQuerySettings removeQuerySettings setIndexCommitQuorum setUserWriteBlockMode update updateRole updateSearchIndex updateUser`,
	command.WhereAsked: `aggregate count distinct explain filemd5 find listCollections listDatabases listIndexes listSearchIndexes
		mapReduce planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter rolesInfo usersInfo`,
	command.WhereReadable: `collStats compact dataSize dbHash dbStats getDefaultRWConcern getMore validate validateDBMetadata`,
	command.Anywhere: `authenticate autoCompact connPoolStats connectionStatus dropConnections endSessions fsync fsyncUnlock
		getClusterParameter getDiagnosticData getParameter _getUserCacheGeneration invalidateUserCache killAllSessions killAllSessionsByPattern killCursors
		killSessions lockInfo logout profile _readBackupFile _readLog reIndex refreshSessions saslContinue saslStart serverStatus setParameter shardingState startSession top`,
	command.WithoutData: `buildInfo currentOp features getCmdLineOpts getLog hello hostInfo isMaster killOp listCommands
		logApplicationMessage logRotate ping replSetAbortPrimaryCatchUp replSetFreeze replSetGetConfig replSetGetRBID replSetGetStatus
		replSetInitiate replSetMaintenance replSetReconfig replSetResizeOplog replSetStepDown replSetStepUp replSetSyncFrom
		rotateCertificates shutdown whatsmyuri`,
}

// place applies the table to the commands. A command that is not listed runs
// only on the primary.
func place(r *command.Registry) {
	for p, names := range placed {
		for name := range strings.FieldsSeq(names) {
			if c := r.Lookup(name); c != nil {
				c.Place = p
			}
		}
	}
}
