package access

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// ofCluster has what a router's own commands require. (mongos: checkAuthForCommand of
// each; manual: Privilege Actions, "Sharding".)
var ofCluster = map[string]needed{
	"addShard": clusterNeeds(auth.AddShard), "listShards": clusterNeeds(auth.ListShards), "getShardMap": clusterNeeds(auth.GetShardMap),
	"flushRouterConfig": clusterNeeds(auth.FlushRouterConfig), "cleanupOrphaned": clusterNeeds(auth.CleanupOrphaned),
	"decidePreparedTransaction": clusterNeeds(auth.RemoveShard),
	"removeShard":               clusterNeeds(auth.RemoveShard), "startShardDraining": clusterNeeds(auth.RemoveShard), "stopShardDraining": clusterNeeds(auth.RemoveShard),
	"shardDrainingStatus": clusterNeeds(auth.RemoveShard), "commitShardRemoval": clusterNeeds(auth.RemoveShard),
	"transitionFromDedicatedConfigServer": clusterNeeds(auth.TransitionFromDedicatedConfigServer),
	"transitionToDedicatedConfigServer":   clusterNeeds(auth.TransitionToDedicatedConfigServer),

	"startTransitionToDedicatedConfigServer":     clusterNeeds(auth.TransitionToDedicatedConfigServer),
	"stopTransitionToDedicatedConfigServer":      clusterNeeds(auth.TransitionToDedicatedConfigServer),
	"getTransitionToDedicatedConfigServerStatus": clusterNeeds(auth.TransitionToDedicatedConfigServer),
	"commitTransitionToDedicatedConfigServer":    clusterNeeds(auth.TransitionToDedicatedConfigServer),

	"addShardToZone":      zoneNeeds(auth.On(ofConfig("shards"), auth.Update), auth.On(ofConfig("tags"), auth.Find)),
	"removeShardFromZone": zoneNeeds(auth.On(ofConfig("shards"), auth.Update), auth.On(ofConfig("tags"), auth.Find)),
	"updateZoneKeyRange":  zoneNeeds(auth.On(ofConfig("shards"), auth.Find), auth.On(ofConfig("tags"), auth.Find, auth.Update, auth.Remove)),

	"balancerStart": settingsNeeds(auth.Update), "balancerStop": settingsNeeds(auth.Update), "balancerStatus": settingsNeeds(auth.Find),
	"balancerCollectionStatus": namedNeeds(auth.EnableSharding), "configureCollectionBalancing": namedNeeds(auth.SplitChunk),

	"enableSharding": namedNeeds(auth.EnableSharding), "shardCollection": namedNeeds(auth.EnableSharding),
	"split": namedNeeds(auth.SplitChunk), "mergeChunks": namedNeeds(auth.SplitChunk), "mergeAllChunksOnShard": namedNeeds(auth.SplitChunk),
	"moveChunk": namedNeeds(auth.MoveChunk), "moveRange": namedNeeds(auth.MoveChunk), "movePrimary": namedNeeds(auth.MoveChunk),
	"setAllowMigrations": namedNeeds(auth.MoveChunk), "clearJumboFlag": namedNeeds(auth.ClearJumboFlag),
	"moveCollection": namedNeeds(auth.MoveCollection), "abortMoveCollection": namedNeeds(auth.MoveCollection),
	"untrackUnshardedCollection": namedNeeds(auth.MoveCollection),
	"refineCollectionShardKey":   namedNeeds(auth.RefineCollectionShardKey),
	"reshardCollection":          namedNeeds(auth.ReshardCollection), "commitReshardCollection": namedNeeds(auth.ReshardCollection),
	"abortReshardCollection": namedNeeds(auth.ReshardCollection), "unshardCollection": namedNeeds(auth.ReshardCollection),
	"abortUnshardCollection":   namedNeeds(auth.ReshardCollection),
	"configureQueryAnalyzer":   namedNeeds(auth.ConfigureQueryAnalyzer),
	"checkMetadataConsistency": checkMetadataNeeds,
	"analyzeShardKey":          namedNeeds(auth.AnalyzeShardKey), "getShardVersion": namedNeeds(auth.GetShardVersion),
}

func ofConfig(coll string) auth.Resource { return auth.Namespace("config", coll) }

// checkMetadataNeeds requires checkMetadataConsistency on the database or the collection that is
// checked, or on the cluster.
func checkMetadataNeeds(_ Collections, op *command.Op) []auth.Need {
	if op.DB == "admin" || op.May(auth.On(auth.Cluster, auth.CheckMetadataConsistency)) {
		return one(auth.Cluster, auth.CheckMetadataConsistency)
	}
	coll := "" // all of the database
	if _, v := op.Body.First(); v.Type == bson.TypeString {
		coll = v.Str()
	} else if v := op.Body.Lookup("coll"); v.Type == bson.TypeString {
		coll = v.Str()
	}
	return one(collectionResource(op.DB, coll), auth.CheckMetadataConsistency)
}

// namedNeeds requires an action on the namespace, or the database, that a command names
// by a string.
func namedNeeds(action auth.Action) needed {
	return func(_ Collections, op *command.Op) []auth.Need {
		_, v := op.Body.First()
		if v.Type != bson.TypeString {
			return one(auth.Cluster, action) // the command itself says what is wrong
		}
		return one(spaceResource(v.Str()), action)
	}
}

// settingsNeeds requires an action on the settings of the balancer.
func settingsNeeds(action auth.Action) needed {
	return func(Collections, *command.Op) []auth.Need { return one(ofConfig("settings"), action) }
}

// zoneNeeds requires enableSharding, or the privilege to change the documents of zones
// directly.
func zoneNeeds(byHand ...auth.Need) needed {
	return func(_ Collections, op *command.Op) []auth.Need {
		if op.May(auth.On(auth.Cluster, auth.EnableSharding)) {
			return nil
		}
		return byHand
	}
}
