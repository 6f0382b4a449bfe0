package command

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Generic are the arguments that every command takes.
type Generic struct {
	MaxTimeMS          int64      // 0: no limit
	Comment            bson.Value // any type, shown in currentOp and the profiler
	LSID               bson.Doc   // nil: none
	TxnNumber          int64
	HasTxnNumber       bool
	Autocommit         bool
	HasAutocommit      bool
	StartTransaction   bool
	HasStart           bool
	ReadConcern        bson.Value
	WriteConcern       bson.Value
	ReadPreference     bson.Doc
	ClusterTime        bson.Doc
	APIVersion         string
	APIStrict          bool
	APIDeprecation     bool
	HasAPIStrict       bool
	HasAPIDeprecation  bool
	Help               bool
	MaxTimeMSOpOnly    int64
	IncludeQueryStats  bool
	RawData            bool
	MayBypassBlocking  bool
	ImpersonatedUser   bson.Doc
	ClientOperationKey bson.Value
}

// genericNames are the generic arguments that pass through every command.
var genericNames = map[string]bool{
	"$db": true, "lsid": true, "txnNumber": true, "autocommit": true, "startTransaction": true, "coordinator": true,
	"txnRetryCounter": true, "$clusterTime": true, "$configTime": true, "$topologyTime": true, "maxTimeMS": true,
	"maxTimeMSOpOnly": true, "comment": true, "readConcern": true, "writeConcern": true, "apiVersion": true,
	"apiStrict": true, "apiDeprecationErrors": true, "$readPreference": true, "$queryOptions": true, "$audit": true,
	"$client": true, "$configServerState": true, "$oplogQueryData": true, "$replData": true, "databaseVersion": true,
	"shardVersion": true, "tracking_info": true, "help": true, "$traceCtx": true, "clientOperationKey": true,
	"allowImplicitCollectionCreation": true, "mayBypassWriteBlocking": true, "$tenant": true, "expectPrefix": true,
	"rawData": true, "serialization_context": true, "isClusterQueryWithoutShardKeyCmd": true, "versionContext": true,
	"startOrContinueTransaction": true, "usesDefaultMaxTimeMS": true, "useTestCommand": true, "releaseMemoryThreshold": false,
}

func isGeneric(name string) bool { return genericNames[name] }

// parseGeneric reads the generic arguments of a command.
func parseGeneric(name string, body bson.Doc) (Generic, error) {
	var g Generic
	it := body.Iter()
	it.Next()
	at := &place{name: name}
	for it.Next() {
		if !isGeneric(it.Key) {
			continue
		}
		if err := g.set(it.Key, it.Value, at); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (g *Generic) set(name string, v bson.Value, at *place) (err error) {
	want := func(t bson.Type) bool {
		d := OneOf(name, t)
		var present bool
		present, err = d.check(v, at)
		return present && err == nil
	}
	switch name {
	case "maxTimeMS":
		g.MaxTimeMS, err = maxTimeMS(v, at)
	case "comment":
		g.Comment = v
	case "lsid":
		if want(bson.TypeDocument) {
			g.LSID = v.Doc()
		}
	case "txnNumber":
		if want(bson.TypeInt64) {
			g.TxnNumber, g.HasTxnNumber = v.Int64(), true
		}
	case "autocommit":
		if want(bson.TypeBool) {
			g.Autocommit, g.HasAutocommit = v.Bool(), true
		}
	case "startTransaction":
		if want(bson.TypeBool) {
			g.StartTransaction, g.HasStart = v.Bool(), true
		}
	case "readConcern":
		g.ReadConcern = v
	case "writeConcern":
		g.WriteConcern = v
	case "$readPreference":
		if want(bson.TypeDocument) {
			g.ReadPreference = v.Doc()
		}
	case "$clusterTime":
		if want(bson.TypeDocument) {
			g.ClusterTime = v.Doc()
		}
	case "apiVersion":
		if want(bson.TypeString) {
			g.APIVersion = v.Str()
		}
	case "apiStrict":
		if want(bson.TypeBool) {
			g.APIStrict, g.HasAPIStrict = v.Bool(), true
		}
	case "apiDeprecationErrors":
		if want(bson.TypeBool) {
			g.APIDeprecation, g.HasAPIDeprecation = v.Bool(), true
		}
	case "help":
		g.Help = v.Truthy()
	case "maxTimeMSOpOnly":
		g.MaxTimeMSOpOnly, err = maxTimeMS(v, at)
	case "rawData":
		if want(bson.TypeBool) {
			g.RawData = v.Bool()
		}
	}
	return err
}

// maxTimeMS checks a time limit: a whole number of milliseconds in 32 bits.
func maxTimeMS(v bson.Value, at *place) (int64, error) {
	d := SafeInt64("maxTimeMS")
	present, err := d.check(v, at)
	if err != nil || !present {
		return 0, err
	}
	if !isInteger(v) {
		return 0, mongoerr.New(mongoerr.BadValue, "maxTimeMS has non-integral value")
	}
	n := safeInt64(v)
	if n < 0 || n > math.MaxInt32 {
		return 0, mongoerr.New(mongoerr.BadValue, "%d value for maxTimeMS is out of range [0, %d]", n, math.MaxInt32)
	}
	return n, nil
}
