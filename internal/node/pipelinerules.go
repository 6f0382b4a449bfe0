package node

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var (
	// unstableStages are the stages that Stable API version 1 does not have.
	unstableStages = []string{
		"$currentOp", "$indexStats", "$expiryStats", "$archive", "$listLocalSessions", "$listSessions", "$listSampledQueries", "$listSearchIndexes",
		"$listClusterCatalog", "$listCatalog", "$planCacheStats", "$queryStats", "$querySettings", "$operationMetrics",
		"$backupCursor", "$search", "$searchMeta", "$vectorSearch", "$rankFusion", "$scoreFusion", "$shardedDataDistribution",
	}
	// localStages are the stages about this server rather than its data.
	localStages = []string{"$backupCursor", "$currentOp", "$listLocalSessions", "$planCacheStats", "$listCachedAndActiveUsers", "$listClusterCatalog"}
	// writingStages end a pipeline by writing its documents.
	writingStages = []string{"$out", "$merge"}
	// notInTransactions are the stages that a transaction refuses.
	notInTransactions = []string{"$backupCursor", "$out", "$merge", "$collStats", "$indexStats", "$currentOp", "$listSessions", "$listLocalSessions", "$planCacheStats", "$changeStream", "$unionWith"}
)

// eachStage calls f with the name and the specification of every stage of a
// pipeline, those of the pipelines inside its stages too, until f fails.
func eachStage(list []bson.Value, f func(name string, spec bson.Value) error) error {
	for _, stage := range list {
		if stage.Type != bson.TypeDocument {
			continue
		}
		name, spec := stage.Doc().First()
		if err := f(name, spec); err != nil {
			return err
		}
		if spec.Type != bson.TypeDocument {
			continue
		}
		switch name {
		case "$lookup", "$unionWith":
			if inner := spec.Doc().Lookup("pipeline"); inner.Type == bson.TypeArray {
				if err := eachStage(inner.Doc().Slice(), f); err != nil {
					return err
				}
			}
		case "$facet":
			for it := spec.Doc().Iter(); it.Next(); {
				if it.Value.Type != bson.TypeArray {
					continue
				}
				if err := eachStage(it.Value.Doc().Slice(), f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// StrictPipeline refuses the stages that Stable API version 1 does not have.
func StrictPipeline(list []bson.Value) error {
	return eachStage(list, func(name string, spec bson.Value) error {
		if slices.Contains(unstableStages, name) {
			return mongoerr.New(mongoerr.APIStrictError, "stage %s is not allowed with 'apiStrict: true' in API Version 1", name)
		}
		if name == "$changeStream" && spec.Type == bson.TypeDocument && spec.Doc().Has("showExpandedEvents") {
			return mongoerr.New(mongoerr.APIStrictError, "BSON field '$changeStream.showExpandedEvents' is not allowed with apiStrict:true.")
		}
		if name != "$collStats" || spec.Type != bson.TypeDocument {
			return nil
		}
		for it := spec.Doc().Iter(); it.Next(); {
			if it.Key != "count" {
				return mongoerr.New(mongoerr.APIStrictError, "only the 'count' option to $collStats is supported in API Version 1")
			}
		}
		return nil
	})
}

// TransactionPipeline refuses the stages that may not be in a transaction: 263.
func TransactionPipeline(list []bson.Value) error {
	return eachStage(list, func(name string, _ bson.Value) error {
		if slices.Contains(notInTransactions, name) {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Stage not supported inside of a multi-document transaction: %s", name)
		}
		return nil
	})
}

// pipelineReadConcern refuses a read concern other than local that a stage of
// an aggregate does not take.
func pipelineReadConcern(op *command.Op, level string) error {
	return eachStage(op.Args.Array("pipeline"), func(name string, _ bson.Value) error {
		switch {
		case slices.Contains(localStages, name):
			return mongoerr.New(mongoerr.InvalidOptions, "Aggregation stage %s cannot run with a readConcern other than 'local'. Current readConcern: %s", name, level)
		case level == "linearizable" && slices.Contains(writingStages, name):
			return mongoerr.New(mongoerr.InvalidOptions, "%s cannot be used with a 'linearizable' read concern level", name)
		}
		return nil
	})
}
