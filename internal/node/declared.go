package node

import "github.com/mayflydb/mayfly/internal/command"

// Declared returns the commands on documents, collections and databases as a server
// declares them. A router takes their arguments from here, so that both refuse the same.
// Their handlers must not be called.
func Declared() []*command.Command {
	n := new(Node)
	all := []*command.Command{
		n.find(), n.count(), n.distinct(), n.aggregate(), n.explain(), n.mapReduce(),
		n.insert(), n.update(), n.delete(), n.findAndModify(), n.bulkWrite(),
		n.create(), n.drop(), n.dropDatabase(), n.renameCollection(), n.createIndexes(), n.dropIndexes(), n.collMod(), n.convertToCapped(),
		n.listDatabases(), n.listCollections(), n.listIndexes(),
		n.collStats(), n.dbStats(), n.dataSize(), n.validate(), n.validateDBMetadata(),
		n.getDefaultRWConcern(), n.setDefaultRWConcern(), n.setQuerySettings(), n.removeQuerySettings(),
		n.setUserWriteBlockMode(), n.setClusterParameter(), n.getClusterParameter(),
		n.fileMD5(), n.fsync(), n.fsyncUnlock(), n.setFeatureCompatibilityVersion(), n.setIndexCommitQuorum(),
	}
	return append(all, n.planCacheCommands()...)
}
