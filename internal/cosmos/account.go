package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
)

// accountID is the account's name; not "localhost", for which the JavaScript
// SDK would read this document before every operation.
const accountID = "mayfly"

// engineConfiguration is the service's description of its query engine for SDKs.
const engineConfiguration = `{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,` +
	`"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,` +
	`"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,` +
	`"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableQueryILOptimization":false,` +
	`"sqlDisableFilterPlanOptimization":false,"sqlAllowTop":true,"enableSpatialIndexing":false}`

// endpoint returns the URL at which the client reaches this server.
func (r *request) endpoint() string {
	if r.s.o.Endpoint != "" && !r.compute {
		return r.s.o.Endpoint
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/"
}

// getAccount answers GET /.
func (r *request) getAccount() error {
	var b bson.Builder
	b.String("_self", "").String("id", accountID).String("_rid", accountID).String("media", "//media/").String("addresses", "//addresses/").String("_dbs", "//dbs/")
	for _, name := range []string{"writableLocations", "readableLocations"} {
		b.OpenArray(name).OpenDoc("0").String("name", r.s.o.Region).String("databaseAccountEndpoint", r.endpoint()).Close().Close()
	}
	b.Bool("enableMultipleWriteLocations", false).Bool("continuousBackupEnabled", false).Bool("enableNRegionSynchronousCommit", false).
		Bool("disableCrossRegionalHedging", false).Bool("enablePerPartitionFailoverBehavior", false)
	b.OpenDoc("userReplicationPolicy").Bool("asyncReplication", false).Int32("minReplicaSetSize", 1).Int32("maxReplicasetSize", 4).Close()
	b.OpenDoc("userConsistencyPolicy").String("defaultConsistencyLevel", r.s.o.Consistency).Close()
	b.OpenDoc("systemReplicationPolicy").Int32("minReplicaSetSize", 1).Int32("maxReplicasetSize", 4).Close()
	b.OpenDoc("readPolicy").Int32("primaryReadCoefficient", 1).Int32("secondaryReadCoefficient", 1).Close()
	b.String("queryEngineConfiguration", engineConfiguration)
	return r.sendDoc(http.StatusOK, b.Finish())
}
