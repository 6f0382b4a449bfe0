package command

import (
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/telemetry"
)

// Generic are the arguments that every command takes.
type Generic struct {
	// MaxTimeMS is the time limit in milliseconds, 0 for none.
	MaxTimeMS int64
	// Comment is any value, shown in currentOp and by the profiler.
	Comment bson.Value
	// LSID is the session as the client sent it, nil for none.
	LSID bson.Doc

	TxnNumber        int64
	HasMaxTimeMS     bool
	HasTxnNumber     bool
	Autocommit       bool
	HasAutocommit    bool
	StartTransaction bool
	HasStart         bool
	// SecondaryOK says that the client's read preference is not "primary".
	SecondaryOK bool

	// ClusterTime is $clusterTime as sent, nil for none.
	ClusterTime bson.Doc

	// Versions are what a router says of who owns what, nil if it says nothing.
	Versions *Versions

	// ReadConcern and WriteConcern are the unchecked documents.
	ReadConcern, WriteConcern bson.Value

	API

	Help    bool
	RawData bool
	// LocalNow is $$NOW, in milliseconds: that of the router whose statement the command is a
	// part of. 0: when the command begins.
	LocalNow int64
	// TransactionIdle is how long the transaction that the command starts waits for its next
	// statement before it is aborted: it is a router's own, whose router may be gone. 0: as long
	// as transactions live.
	TransactionIdle time.Duration
	// TraceParent says of which trace the command is a part (W3C, Trace Context); "" for none.
	TraceParent string
	// HasBypass says that the command is a part of what a router's client has asked for; Bypass
	// that the client may write where user writes are blocked.
	HasBypass, Bypass bool
}

// API is the Stable API that a client asks for; a cursor's getMores must ask for the
// same.
type API struct {
	APIVersion                   string
	HasAPIVersion                bool
	APIStrict, HasAPIStrict      bool
	APIDeprecation, HasAPIErrors bool
}

// Document returns the parameters that the client gave.
func (a API) Document() bson.Doc {
	var b bson.Builder
	if a.HasAPIVersion {
		b.String("apiVersion", a.APIVersion)
	}
	if a.HasAPIStrict {
		b.Bool("apiStrict", a.APIStrict)
	}
	if a.HasAPIErrors {
		b.Bool("apiDeprecationErrors", a.APIDeprecation)
	}
	return b.Finish()
}

// genericNames are the arguments that every command accepts, including those that only
// servers send to each other.
var genericNames = func() map[string]bool {
	names := map[string]bool{}
	for _, n := range []string{
		"$db", "lsid", "txnNumber", "autocommit", "startTransaction", "coordinator", "txnRetryCounter",
		"startOrContinueTransaction", "$clusterTime", "$configTime", "$topologyTime", "maxTimeMS", "maxTimeMSOpOnly",
		"usesDefaultMaxTimeMS", "comment", "readConcern", "writeConcern", "apiVersion", "apiStrict", "apiDeprecationErrors",
		"$readPreference", "$queryOptions", "$audit", "$client", "$configServerState", "$oplogQueryData", "$replData",
		"databaseVersion", "shardVersion", "tracking_info", "help", "$traceCtx", "clientOperationKey",
		"allowImplicitCollectionCreation", "mayBypassWriteBlocking", "expectPrefix", "rawData", "serialization_context",
		"isClusterQueryWithoutShardKeyCmd", "versionContext", "shardKeyMayBe", "localNow", "transactionIdleMS",
	} {
		names[n] = true
	}
	return names
}()

// IsGeneric reports whether name is an argument that every command takes.
func IsGeneric(name string) bool { return genericNames[name] }

// parseGeneric reads the generic arguments of a command.
func parseGeneric(name string, body bson.Doc) (Generic, error) {
	var g Generic
	it := body.Iter()
	it.Next()
	at := &place{name: name}
	for it.Next() {
		if !IsGeneric(it.Key) {
			continue
		}
		if err := g.set(it.Key, it.Value, at); err != nil {
			return g, err
		}
	}
	return g, nil
}

// genericFields declare the generic arguments that are strict about their type.
var genericFields = func() map[string]*Field {
	fields := map[string]*Field{}
	for name, t := range map[string]bson.Type{
		"lsid": bson.TypeDocument, "txnNumber": bson.TypeInt64, "autocommit": bson.TypeBool, "startTransaction": bson.TypeBool,
		"$readPreference": bson.TypeDocument, "$clusterTime": bson.TypeDocument, "apiVersion": bson.TypeString,
		"apiStrict": bson.TypeBool, "apiDeprecationErrors": bson.TypeBool, "rawData": bson.TypeBool,
		"readConcern": bson.TypeDocument, "writeConcern": bson.TypeDocument,
		"shardVersion": bson.TypeDocument, "databaseVersion": bson.TypeDocument, "shardKeyMayBe": bson.TypeArray, "localNow": bson.TypeDate, "transactionIdleMS": bson.TypeInt64, "mayBypassWriteBlocking": bson.TypeBool,
	} {
		fields[name] = OneOf(name, t)
	}
	return fields
}()

func (g *Generic) set(name string, v bson.Value, at *place) (err error) {
	if d := genericFields[name]; d != nil {
		if present, err := d.check(v, at); err != nil || !present {
			return err
		}
	}
	switch name {
	case "maxTimeMS":
		g.MaxTimeMS, g.HasMaxTimeMS, err = maxTimeMS(v, at)
	case "comment":
		g.Comment = v
	case "lsid":
		g.LSID = v.Doc()
	case "txnNumber":
		g.TxnNumber, g.HasTxnNumber = v.Int64(), true
	case "autocommit":
		g.Autocommit, g.HasAutocommit = v.Bool(), true
	case "startTransaction":
		g.StartTransaction, g.HasStart = v.Bool(), true
	case "readConcern":
		g.ReadConcern = v
	case "writeConcern":
		g.WriteConcern = v
	case "$readPreference":
		g.SecondaryOK, err = checkReadPreference(v.Doc())
	case "$clusterTime":
		g.ClusterTime = v.Doc()
	case "apiVersion":
		g.APIVersion, g.HasAPIVersion = v.Str(), true
	case "apiStrict":
		g.APIStrict, g.HasAPIStrict = v.Bool(), true
	case "apiDeprecationErrors":
		g.APIDeprecation, g.HasAPIErrors = v.Bool(), true
	case "shardVersion", "databaseVersion", "shardKeyMayBe":
		if g.Versions == nil {
			g.Versions = new(Versions)
		}
		err = g.Versions.set(name, v)
	case "help":
		g.Help = v.Truthy()
	case "localNow":
		g.LocalNow = v.Date()
	case "transactionIdleMS":
		g.TransactionIdle = time.Duration(min(max(v.Int64(), 0), math.MaxInt32)) * time.Millisecond
	case "mayBypassWriteBlocking":
		g.HasBypass, g.Bypass = true, v.Bool()
	case telemetry.Argument:
		if v.Type == bson.TypeDocument {
			if parent := v.Doc().Lookup(telemetry.ParentField); parent.Type == bson.TypeString {
				g.TraceParent = parent.Str()
			}
		}
	case "rawData":
		g.RawData = v.Bool()
	}
	return err
}

// maxTimeMS checks a time limit: a whole number of milliseconds in 32 bits.
func maxTimeMS(v bson.Value, at *place) (ms int64, given bool, err error) {
	d := ExactInt64("maxTimeMS")
	if given, err = d.check(v, at); err != nil || !given {
		return 0, false, err
	}
	ms = bson.ClampToInt64(v)
	if ms < 0 || ms > math.MaxInt32 {
		return 0, false, mongoerr.New(mongoerr.BadValue, "%d value for maxTimeMS is out of range [0, %d]", ms, math.MaxInt32)
	}
	return ms, true, nil
}

// apiParameters checks apiVersion, apiStrict and apiDeprecationErrors.
func (g *Generic) apiParameters(c *Command) error {
	if !g.HasAPIVersion {
		switch {
		case g.HasAPIStrict:
			return mongoerr.New(mongoerr.Code(4886600), "Provided apiStrict without passing apiVersion")
		case g.HasAPIErrors:
			return mongoerr.New(mongoerr.Code(4886600), "Provided apiDeprecationErrors without passing apiVersion")
		}
		return nil
	}
	if g.APIVersion != "1" {
		return mongoerr.New(mongoerr.APIVersionError, "API version must be \"1\"")
	}
	if g.APIStrict && c.Flags&APIv1 == 0 {
		return mongoerr.New(mongoerr.APIStrictError,
			"Provided apiStrict:true, but the command %s is not in API Version 1. Information on supported commands and "+
				"migrations in API Version 1 can be found at https://dochub.mongodb.org/core/manual-versioned-api", c.Name)
	}
	return nil
}

// transaction checks txnNumber, autocommit and startTransaction against each
// other, and rejects them if the server is not a member of a replica set.
func (op *Op) transaction() error {
	g := &op.Generic
	if g.HasTxnNumber {
		if g.LSID == nil {
			return mongoerr.New(mongoerr.InvalidOptions, "Transaction number requires a session ID to also be specified")
		}
		if !op.Dispatcher.replicated() {
			return mongoerr.New(mongoerr.IllegalOperation, "Transaction numbers are only allowed on a replica set member or mongos")
		}
		if g.TxnNumber < 0 {
			return mongoerr.New(mongoerr.InvalidOptions, "Transaction number cannot be negative")
		}
	}
	switch {
	case g.HasAutocommit && !g.HasTxnNumber:
		return mongoerr.New(mongoerr.InvalidOptions, "'autocommit' field requires a transaction number to also be specified")
	case g.HasAutocommit && g.Autocommit:
		return mongoerr.New(mongoerr.InvalidOptions, "Specifying autocommit=true is not allowed.")
	case g.HasStart && !g.HasAutocommit:
		return mongoerr.New(mongoerr.InvalidOptions, "'startTransaction' field requires 'autocommit' field to also be specified")
	case g.HasStart && !g.StartTransaction:
		return mongoerr.New(mongoerr.InvalidOptions, "Specifying startTransaction=false is not allowed.")
	case g.HasAutocommit && op.Command.Flags&Transaction == 0:
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot run '%s' in a multi-document transaction.", op.Command.Name)
	case g.HasAutocommit:
		return op.inTransaction()
	case g.HasTxnNumber && op.Command.Flags&Retryable == 0:
		return mongoerr.New(mongoerr.Code(50768), "txnNumber may only be provided for multi-document transactions and retryable write commands. "+
			"autocommit:false was not provided, and %s is not a retryable write command.", op.Command.Name)
	}
	return nil
}

// inTransaction checks a statement of a transaction, or the command that ends one.
//
// Errors: 72, 263.
func (op *Op) inTransaction() error {
	g := &op.Generic
	switch {
	case op.endsTransaction() && g.HasStart, op.Command.Name == "killCursors" && g.HasStart:
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot run '%s' as the first operation of a transaction.", op.Command.Name)
	case op.endsTransaction():
		return nil
	case op.DB == "config" || op.DB == "admin" || op.DB == localDB:
		if op.Command.Kind != KindGetMore && op.Command.Name != "killCursors" && op.Command.Name != "bulkWrite" {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot run command against the '%s' database in a transaction.", op.DB)
		}
	}
	if !g.WriteConcern.IsMissing() {
		return mongoerr.New(mongoerr.InvalidOptions, "writeConcern is not allowed within a multi-statement transaction")
	}
	if !g.ReadConcern.IsMissing() && !g.HasStart {
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot specify a readConcern for a statement that is not the first one of its transaction")
	}
	return nil
}
