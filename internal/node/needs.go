package node

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/schema"
)

// needed lists the privileges that an operation requires; none for what every
// authenticated client may do.
type needed func(n *Node, op *command.Op) []auth.Need

// needs has the privileges that commands require. A command that is not listed,
// and does not have the flag NoAuth, runs for nobody under access control.
// (Manual: Privilege Actions.)
var needs map[string]needed

func init() {
	needs = map[string]needed{
		"find": collectionNeeds(auth.Find), "count": collectionNeeds(auth.Find), "distinct": collectionNeeds(auth.Find),
		"aggregate": aggregateNeeds, "mapReduce": mapReduceNeeds, "explain": explainNeeds, "dataSize": dataSizeNeeds,
		"insert": validated(collectionNeeds(auth.Insert)), "update": validated(updateNeeds), "delete": collectionNeeds(auth.Remove),
		"findAndModify": validated(findAndModifyNeeds), "bulkWrite": bulkWriteNeeds, "filemd5": fileNeeds,
		"getMore": anyone, "killCursors": killCursorsNeeds,

		"create": createNeeds, "drop": collectionNeeds(auth.DropCollection), "dropDatabase": databaseNeeds(auth.DropDatabase),
		"createIndexes": collectionNeeds(auth.CreateIndex), "dropIndexes": collectionNeeds(auth.DropIndex),
		"listIndexes": collectionNeeds(auth.ListIndexes), "reIndex": collectionNeeds(auth.ReIndex), "collMod": collModNeeds,
		"collStats": collectionNeeds(auth.CollStats), "validate": collectionNeeds(auth.Validate), "compact": collectionNeeds(auth.Compact),
		"convertToCapped": collectionNeeds(auth.ConvertToCapped), "cloneCollectionAsCapped": cloneNeeds, "renameCollection": renameNeeds,
		"listCollections": listCollectionsNeeds, "listDatabases": anyone, "dbStats": databaseNeeds(auth.DBStats),
		"dbHash": databaseNeeds(auth.DBHash), "profile": profileNeeds, "validateDBMetadata": validateDatabaseNeeds,
		"setIndexCommitQuorum": collectionNeeds(auth.CreateIndex), "compactStructuredEncryptionData": collectionNeeds(auth.CompactStructuredEncryptionData),
		"createSearchIndexes": collectionNeeds(auth.CreateSearchIndexes), "dropSearchIndex": collectionNeeds(auth.DropSearchIndex),
		"listSearchIndexes": collectionNeeds(auth.ListSearchIndexes), "updateSearchIndex": collectionNeeds(auth.UpdateSearchIndex),
		"planCacheClear": collectionNeeds(auth.PlanCacheWrite), "planCacheClearFilters": collectionNeeds(auth.PlanCacheIndexFilter),
		"planCacheListFilters": collectionNeeds(auth.PlanCacheIndexFilter), "planCacheSetFilter": collectionNeeds(auth.PlanCacheIndexFilter),

		"serverStatus": clusterNeeds(auth.ServerStatus), "getDiagnosticData": diagnosticNeeds, "hostInfo": clusterNeeds(auth.HostInfo), "getCmdLineOpts": clusterNeeds(auth.GetCmdLineOpts),
		"getLog": clusterNeeds(auth.GetLog), "logRotate": clusterNeeds(auth.LogRotate), "logApplicationMessage": clusterNeeds(auth.ApplicationMessage),
		"getParameter": clusterNeeds(auth.GetParameter), "setParameter": clusterNeeds(auth.SetParameter), "top": clusterNeeds(auth.Top),
		"lockInfo": clusterNeeds(auth.ServerStatus), "currentOp": currentOpNeeds, "killOp": killOpNeeds, "fsync": clusterNeeds(auth.Fsync),
		"fsyncUnlock": clusterNeeds(auth.Unlock), "shutdown": clusterNeeds(auth.Shutdown), "connPoolStats": clusterNeeds(auth.ConnPoolStats),
		"dropConnections": clusterNeeds(auth.DropConnections), "rotateCertificates": clusterNeeds(auth.RotateCertificates),
		"setFeatureCompatibilityVersion": clusterNeeds(auth.SetFeatureCompatibilityVersion), "shardingState": clusterNeeds(auth.ShardingState),
		"getClusterParameter": clusterNeeds(auth.GetClusterParameter), "setClusterParameter": clusterNeeds(auth.SetClusterParameter),
		"getDefaultRWConcern": clusterNeeds(auth.GetDefaultRWConcern), "setDefaultRWConcern": clusterNeeds(auth.SetDefaultRWConcern),
		"autoCompact": clusterNeeds(auth.Compact), "configureFailPoint": clusterNeeds(auth.Internal), "features": anyone,
		"whatsmyuri": anyone, "listCommands": anyone,

		"startSession": anyone, "refreshSessions": anyone, "endSessions": anyone, "killSessions": killSessionsNeeds,
		"killAllSessions": clusterNeeds(auth.KillAnySession), "killAllSessionsByPattern": clusterNeeds(auth.KillAnySession),
		"abortTransaction": anyone, "commitTransaction": anyone,
	}
	for name, of := range account.Needs() {
		needs[name] = func(_ *Node, op *command.Op) []auth.Need { return of(op) }
	}
	for name := range notReplicated {
		needs[name] = clusterNeeds(auth.ReplSetConfigure)
	}
	for name, action := range map[string]auth.Action{
		"replSetStepDown": auth.ReplSetStateChange, "replSetStepUp": auth.ReplSetStateChange, "replSetFreeze": auth.ReplSetStateChange,
		"replSetMaintenance": auth.ReplSetStateChange, "replSetSyncFrom": auth.ReplSetStateChange, "replSetAbortPrimaryCatchUp": auth.ReplSetStateChange,
		"replSetGetRBID": auth.Internal, "replSetGetStatus": auth.ReplSetGetStatus, "replSetGetConfig": auth.ReplSetGetConfig, "appendOplogNote": auth.AppendOplogNote,
		"replSetResizeOplog": auth.ReplSetResizeOplog,
	} {
		needs[name] = clusterNeeds(action)
	}
}

func anyone(*Node, *command.Op) []auth.Need { return nil }

func one(r auth.Resource, actions ...auth.Action) []auth.Need {
	return []auth.Need{auth.On(r, actions...)}
}

func clusterNeeds(actions ...auth.Action) needed {
	return func(*Node, *command.Op) []auth.Need { return one(auth.Cluster, actions...) }
}

func databaseNeeds(actions ...auth.Action) needed {
	return func(_ *Node, op *command.Op) []auth.Need { return one(auth.Database(op.DB), actions...) }
}

func collectionNeeds(actions ...auth.Action) needed {
	return func(n *Node, op *command.Op) []auth.Need { return []auth.Need{n.onTarget(op, actions...)} }
}

// onTarget requires actions on the collection that the operation names. A UUID
// of no collection in the database requires useUUID, which few have: these
// learn that there is none.
func (n *Node) onTarget(op *command.Op, actions ...auth.Action) auth.Need {
	if !op.HasUUID {
		return auth.On(collectionResource(op.DB, op.Collection), actions...)
	}
	if c := n.Catalog.LookupUUID(op.UUID); c != nil && c.Namespace.DB == op.DB {
		return auth.On(auth.Namespace(op.DB, c.Namespace.Coll), actions...)
	}
	return auth.On(auth.Cluster, auth.UseUUID)
}

// collectionResource is a collection, or the whole database where it has no name.
func collectionResource(db, coll string) auth.Resource {
	if coll == "" {
		return auth.Database(db)
	}
	return auth.Namespace(db, coll)
}

// spaceResource is the collection with the name "db.coll".
func spaceResource(name string) auth.Resource {
	db, coll, _ := strings.Cut(name, ".")
	return collectionResource(db, coll)
}

// validated adds bypassDocumentValidation, where the command asks for that.
func validated(f needed) needed {
	return func(n *Node, op *command.Op) []auth.Need {
		all := f(n, op)
		if op.Body.Lookup("bypassDocumentValidation").Truthy() {
			all = append(all, n.onTarget(op, auth.BypassDocumentValidation))
		}
		return all
	}
}

func updateNeeds(n *Node, op *command.Op) []auth.Need {
	actions := []auth.Action{auth.Update}
	for _, s := range op.Args.Structs("updates") {
		if s.Bool("upsert") {
			actions = append(actions, auth.Insert)
		}
	}
	return []auth.Need{n.onTarget(op, actions...)}
}

func findAndModifyNeeds(n *Node, op *command.Op) []auth.Need {
	actions := []auth.Action{auth.Find, auth.Update}
	if op.Args.Bool("remove") {
		actions[1] = auth.Remove
	}
	if op.Args.Bool("upsert") {
		actions = append(actions, auth.Insert)
	}
	return []auth.Need{n.onTarget(op, actions...)}
}

func bulkWriteNeeds(_ *Node, op *command.Op) []auth.Need {
	var spaces []auth.Resource
	for _, s := range op.Args.Structs("nsInfo") {
		spaces = append(spaces, spaceResource(s.Str("ns")))
	}
	var all []auth.Need
	for _, d := range op.Documents("ops") {
		kind, v := d.First()
		i := bson.ClampToInt64(v)
		if i < 0 || i >= int64(len(spaces)) {
			continue
		}
		action := map[string]auth.Action{"insert": auth.Insert, "update": auth.Update, "delete": auth.Remove}[kind]
		all = append(all, auth.On(spaces[i], action))
		if d.Lookup("upsert").Truthy() {
			all = append(all, auth.On(spaces[i], auth.Insert))
		}
		if op.Args.Bool("bypassDocumentValidation") {
			all = append(all, auth.On(spaces[i], auth.BypassDocumentValidation))
		}
	}
	return all
}

func dataSizeNeeds(_ *Node, op *command.Op) []auth.Need {
	_, v := op.Body.First()
	if v.Type != bson.TypeString {
		return nil
	}
	return one(spaceResource(v.Str()), auth.Find)
}

func fileNeeds(_ *Node, op *command.Op) []auth.Need {
	root := op.Body.Lookup("root")
	name := "fs"
	if root.Type == bson.TypeString {
		name = root.Str()
	}
	return one(auth.Namespace(op.DB, name+".chunks"), auth.Find)
}

// killCursorsNeeds requires nothing for the client's own cursors, or for a
// client that may kill any cursor; otherwise the right on each cursor's real
// namespace, whatever the command names.
func killCursorsNeeds(_ *Node, op *command.Op) []auth.Need {
	if op.May(auth.On(auth.Cluster, auth.KillAnyCursor)) {
		return nil
	}
	var all []auth.Need
	for _, ns := range op.Dispatcher.Cursors.OfOthers(op.Args.Array("cursors"), op.Client.Owner()) {
		all = append(all, auth.On(spaceResource(ns), auth.KillAnyCursor))
	}
	return all
}

func createNeeds(_ *Node, op *command.Op) []auth.Need {
	r := auth.Namespace(op.DB, op.Collection)
	if !op.Body.Lookup("capped").Truthy() && !op.Body.Has("viewOn") && op.May(auth.On(r, auth.Insert)) {
		return nil
	}
	return append(one(r, auth.CreateCollection), viewNeeds(op)...)
}

// viewNeeds requires what the view that the command defines reads.
func viewNeeds(op *command.Op) []auth.Need {
	on := op.Body.Lookup("viewOn")
	if on.Type != bson.TypeString {
		return nil
	}
	return pipelineNeeds(op, on.Str(), op.Body.Lookup("pipeline").Doc())
}

// collModNeeds includes what a view reads once it is changed; what the command
// does not give stays.
func collModNeeds(n *Node, op *command.Op) []auth.Need {
	all := []auth.Need{n.onTarget(op, auth.CollMod)}
	if !op.Args.Has("viewOn") && !op.Args.Has("pipeline") {
		return all
	}
	c := n.Catalog.Lookup(namespace(op))
	if op.HasUUID {
		c = n.Catalog.LookupUUID(op.UUID)
	}
	on, stages := op.Args.Str("viewOn"), op.Args.Value("pipeline").Doc()
	if c != nil && c.IsView() {
		if on == "" {
			on = c.Settings.ViewOn
		}
		if !op.Args.Has("pipeline") {
			stages = c.Settings.Pipeline
		}
	}
	return append(all, pipelineNeeds(op, on, stages)...)
}

func cloneNeeds(_ *Node, op *command.Op) []auth.Need {
	to := op.Body.Lookup("toCollection")
	if to.Type != bson.TypeString {
		return nil
	}
	_, from := op.Body.First()
	if from.Type != bson.TypeString {
		return nil
	}
	return []auth.Need{
		auth.On(auth.Namespace(op.DB, from.Str()), auth.Find),
		auth.On(auth.Namespace(op.DB, to.Str()), auth.Insert, auth.CreateIndex, auth.ConvertToCapped),
	}
}

func renameNeeds(_ *Node, op *command.Op) []auth.Need {
	from, to := schema.ParseNamespace(op.Args.Str("renameCollection")), schema.ParseNamespace(op.Args.Str("to"))
	source, target := auth.Namespace(from.DB, from.Coll), auth.Namespace(to.DB, to.Coll)
	var all []auth.Need
	// A client that may rename but not read a collection must not be able to read
	// it under another name.
	hides := !op.May(auth.On(source, auth.Find)) && op.May(auth.On(target, auth.Find))
	if from.DB != to.DB || hides || !op.May(auth.On(auth.Database(from.DB), auth.RenameCollectionSameDB)) {
		all = []auth.Need{auth.On(source, auth.Find, auth.DropCollection), auth.On(target, auth.Insert, auth.CreateIndex)}
	}
	if op.Args.Value("dropTarget").Truthy() {
		all = append(all, auth.On(target, auth.DropCollection))
	}
	return all
}

// listCollectionsNeeds requires nothing of clients that ask only for the names
// of collections they may use.
func listCollectionsNeeds(n *Node, op *command.Op) []auth.Need {
	if op.Args.Bool("nameOnly") && op.Args.Bool("authorizedCollections") && n.sees(op, op.DB, "") {
		return nil
	}
	return one(auth.Database(op.DB), auth.ListCollections)
}

func validateDatabaseNeeds(_ *Node, op *command.Op) []auth.Need {
	db := op.Body.Lookup("db")
	if db.Type != bson.TypeString {
		return one(auth.AnyNormal, auth.Validate)
	}
	return one(auth.Database(db.Str()), auth.Validate)
}

func profileNeeds(_ *Node, op *command.Op) []auth.Need {
	asks := op.Args.Int("profile") < 0 && !op.Args.Has("filter") && !op.Args.Has("slowms") && !op.Args.Has("sampleRate")
	if asks && op.May(auth.On(auth.Namespace(op.DB, schema.ProfileCollection), auth.Find)) {
		return nil
	}
	return one(auth.Database(op.DB), auth.EnableProfiler)
}

func currentOpNeeds(_ *Node, op *command.Op) []auth.Need {
	if op.Body.Lookup("$ownOps").Truthy() {
		return nil
	}
	return one(auth.Cluster, auth.Inprog)
}

// killOpNeeds requires nothing for an operation of the client's own user.
func killOpNeeds(_ *Node, op *command.Op) []auth.Need {
	id, err := process.OpID(op.Body.Lookup("op"))
	if err == nil {
		if target := op.Dispatcher.Clients.FindOp(id); target != nil && target.Client.Owner() == op.Client.Owner() {
			return nil
		}
	}
	return one(auth.Cluster, auth.Killop)
}

// killSessionsNeeds requires nothing for sessions of the client's own user,
// which are all that the command can name without a user's digest.
func killSessionsNeeds(_ *Node, op *command.Op) []auth.Need {
	for _, s := range op.Args.Structs("killSessions") {
		if s.Has("uid") {
			return one(auth.Cluster, auth.KillAnySession)
		}
	}
	return nil
}
