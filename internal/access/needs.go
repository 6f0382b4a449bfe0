package access

import (
	"maps"
	"strings"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/schema"
)

// needed lists the privileges that an operation requires, none if every authenticated
// client may run it. It reads the request, not Op.Args: a router leaves the parsing of
// most commands to the shards.
type needed func(c Collections, op *command.Op) []auth.Need

// needs has the privileges that commands require. A command that is not listed,
// and does not have the flag NoAuth, is rejected under access control.
// (Manual: Privilege Actions.)
var needs map[string]needed

func init() {
	needs = map[string]needed{
		"find": collectionNeeds(auth.Find), "count": collectionNeeds(auth.Find), "distinct": collectionNeeds(auth.Find),
		"aggregate": aggregateNeeds, "mapReduce": mapReduceNeeds, "explain": explainNeeds, "dataSize": dataSizeNeeds,
		"insert": validated(collectionNeeds(auth.Insert)), "update": validated(updateNeeds), "delete": collectionNeeds(auth.Remove),
		"findAndModify": validated(findAndModifyNeeds), "bulkWrite": bulkWriteNeeds, "applyOps": applyOpsNeeds, "filemd5": fileNeeds,
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
		"archiveForget":  collectionNeeds(auth.Find, auth.Remove),
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
		"setQuerySettings": clusterNeeds(auth.QuerySettings), "removeQuerySettings": clusterNeeds(auth.QuerySettings),
		"setUserWriteBlockMode": clusterNeeds(auth.SetUserWriteBlockMode),
		"getDefaultRWConcern":   clusterNeeds(auth.GetDefaultRWConcern), "setDefaultRWConcern": clusterNeeds(auth.SetDefaultRWConcern),
		"autoCompact": clusterNeeds(auth.Compact), "configureFailPoint": clusterNeeds(auth.Internal), "advanceClock": clusterNeeds(auth.Internal), "features": anyone,
		"whatsmyuri": anyone, "isdbgrid": anyone, "listCommands": anyone,

		"startSession": anyone, "refreshSessions": anyone, "endSessions": anyone, "killSessions": killSessionsNeeds,
		"killAllSessions": clusterNeeds(auth.KillAnySession), "killAllSessionsByPattern": clusterNeeds(auth.KillAnySession),
		"abortTransaction": anyone, "commitTransaction": anyone, "prepareTransaction": clusterNeeds(auth.Internal),
		"coordinateCommitTransaction": clusterNeeds(auth.Internal),
		"_readBackupFile":             backupNeeds, "_readLog": backupNeeds,
	}
	maps.Copy(needs, ofCluster)
	for name, of := range account.Needs() {
		needs[name] = func(_ Collections, op *command.Op) []auth.Need { return of(op) }
	}
	for name, action := range map[string]auth.Action{
		"replSetInitiate": auth.ReplSetConfigure, "replSetReconfig": auth.ReplSetConfigure,
		"replSetStepDown": auth.ReplSetStateChange, "replSetStepUp": auth.ReplSetStateChange, "replSetFreeze": auth.ReplSetStateChange,
		"replSetMaintenance": auth.ReplSetStateChange, "replSetSyncFrom": auth.ReplSetStateChange, "replSetAbortPrimaryCatchUp": auth.ReplSetStateChange,
		"replSetGetRBID": auth.Internal, "replSetGetStatus": auth.ReplSetGetStatus, "replSetGetConfig": auth.ReplSetGetConfig, "appendOplogNote": auth.AppendOplogNote,
		"replSetResizeOplog": auth.ReplSetResizeOplog,
	} {
		needs[name] = clusterNeeds(action)
	}
}

// backupNeeds are those of who reads all data, users and keys among them: the role backup has
// them. (MongoDB wants fsync for $backupCursor.)
func backupNeeds(Collections, *command.Op) []auth.Need {
	return []auth.Need{auth.On(auth.Cluster, auth.Fsync), auth.On(auth.AnyNormal, auth.Find), auth.On(auth.Namespace("admin", "system.users"), auth.Find)}
}

func anyone(Collections, *command.Op) []auth.Need { return nil }

func one(r auth.Resource, actions ...auth.Action) []auth.Need {
	return []auth.Need{auth.On(r, actions...)}
}

func clusterNeeds(actions ...auth.Action) needed {
	return func(Collections, *command.Op) []auth.Need { return one(auth.Cluster, actions...) }
}

func databaseNeeds(actions ...auth.Action) needed {
	return func(_ Collections, op *command.Op) []auth.Need { return one(auth.Database(op.DB), actions...) }
}

func collectionNeeds(actions ...auth.Action) needed {
	return func(c Collections, op *command.Op) []auth.Need { return []auth.Need{onTarget(c, op, actions...)} }
}

// onTarget requires actions on the collection that the operation names. An unknown UUID
// requires useUUID, which few clients have: they get the error that it does not exist.
func onTarget(c Collections, op *command.Op, actions ...auth.Action) auth.Need {
	coll, ok := target(c, op)
	if !ok {
		return auth.On(auth.Cluster, auth.UseUUID)
	}
	return auth.On(collectionResource(op.DB, coll), actions...)
}

// target returns the name of the operation's collection; ok is false for a UUID that the
// database does not have, and for a value that names no collection. A symbol is a name, as it
// is to the commands.
func target(c Collections, op *command.Op) (name string, ok bool) {
	switch _, v := op.Body.First(); v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return v.Str(), v.Str() != ""
	case bson.TypeBinary:
		_, content := v.Binary()
		if len(content) != 16 {
			return "", false
		}
		name = c.NameOf(op.DB, [16]byte(content))
		return name, name != ""
	}
	return "", false
}

// collectionResource returns a collection or, without a name, the whole database.
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

// validated adds bypassDocumentValidation if the command has that option.
func validated(f needed) needed {
	return func(c Collections, op *command.Op) []auth.Need {
		all := f(c, op)
		if op.Body.Lookup("bypassDocumentValidation").Truthy() {
			all = append(all, onTarget(c, op, auth.BypassDocumentValidation))
		}
		return all
	}
}

func updateNeeds(c Collections, op *command.Op) []auth.Need {
	actions := []auth.Action{auth.Update}
	for _, s := range op.Documents("updates") {
		if s.Lookup("upsert").Truthy() {
			actions = append(actions, auth.Insert)
		}
	}
	return []auth.Need{onTarget(c, op, actions...)}
}

func findAndModifyNeeds(c Collections, op *command.Op) []auth.Need {
	actions := []auth.Action{auth.Find, auth.Update}
	if op.Body.Lookup("remove").Truthy() {
		actions[1] = auth.Remove
	}
	if op.Body.Lookup("upsert").Truthy() {
		actions = append(actions, auth.Insert)
	}
	return []auth.Need{onTarget(c, op, actions...)}
}

func bulkWriteNeeds(_ Collections, op *command.Op) []auth.Need {
	var spaces []auth.Resource
	for _, s := range op.Documents("nsInfo") {
		spaces = append(spaces, spaceResource(text(s.Lookup("ns"))))
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
		if op.Body.Lookup("bypassDocumentValidation").Truthy() {
			all = append(all, auth.On(spaces[i], auth.BypassDocumentValidation))
		}
	}
	return all
}

func dataSizeNeeds(_ Collections, op *command.Op) []auth.Need {
	_, v := op.Body.First()
	if v.Type != bson.TypeString {
		return nil
	}
	return one(spaceResource(v.Str()), auth.Find)
}

func fileNeeds(_ Collections, op *command.Op) []auth.Need {
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
func killCursorsNeeds(_ Collections, op *command.Op) []auth.Need {
	if op.May(auth.On(auth.Cluster, auth.KillAnyCursor)) {
		return nil
	}
	var all []auth.Need
	for _, ns := range op.Dispatcher.Cursors.OfOthers(op.Args.Array("cursors"), op.Client.Owner()) {
		all = append(all, auth.On(spaceResource(ns), auth.KillAnyCursor))
	}
	return all
}

func createNeeds(_ Collections, op *command.Op) []auth.Need {
	_, v := op.Body.First()
	r := collectionResource(op.DB, text(v))
	if !op.Body.Lookup("capped").Truthy() && !op.Body.Has("viewOn") && op.May(auth.On(r, auth.Insert)) {
		return nil
	}
	return append(one(r, auth.CreateCollection), viewNeeds(op)...)
}

// viewNeeds requires the privileges to read what the defined view reads.
func viewNeeds(op *command.Op) []auth.Need {
	on := op.Body.Lookup("viewOn")
	if on.Type != bson.TypeString {
		return nil
	}
	return pipelineNeeds(op, on.Str(), within(op.Body.Lookup("pipeline")))
}

// collModNeeds includes the privileges for a view after the change; options that the
// command does not give are kept.
func collModNeeds(c Collections, op *command.Op) []auth.Need {
	all := []auth.Need{onTarget(c, op, auth.CollMod)}
	if !op.Body.Has("viewOn") && !op.Body.Has("pipeline") {
		return all
	}
	coll, _ := target(c, op)
	on, stages := text(op.Body.Lookup("viewOn")), within(op.Body.Lookup("pipeline"))
	if wasOn, was, ok := c.View(op, coll); ok {
		if on == "" {
			on = wasOn
		}
		if !op.Body.Has("pipeline") {
			stages = was
		}
	}
	return append(all, pipelineNeeds(op, on, stages)...)
}

func cloneNeeds(_ Collections, op *command.Op) []auth.Need {
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

func renameNeeds(_ Collections, op *command.Op) []auth.Need {
	_, first := op.Body.First()
	from, to := schema.ParseNamespace(text(first)), schema.ParseNamespace(text(op.Body.Lookup("to")))
	source, target := auth.Namespace(from.DB, from.Coll), auth.Namespace(to.DB, to.Coll)
	var all []auth.Need
	// A client that may rename but not read a collection must not be able to read
	// it under another name.
	hides := !op.May(auth.On(source, auth.Find)) && op.May(auth.On(target, auth.Find))
	if from.DB != to.DB || hides || !op.May(auth.On(auth.Database(from.DB), auth.RenameCollectionSameDB)) {
		all = []auth.Need{auth.On(source, auth.Find, auth.DropCollection), auth.On(target, auth.Insert, auth.CreateIndex)}
	}
	if op.Body.Lookup("dropTarget").Truthy() {
		all = append(all, auth.On(target, auth.DropCollection))
	}
	return all
}

// listCollectionsNeeds requires nothing of clients that ask only for the names
// of collections they may use.
func listCollectionsNeeds(c Collections, op *command.Op) []auth.Need {
	if op.Body.Lookup("nameOnly").Truthy() && op.Body.Lookup("authorizedCollections").Truthy() && Sees(op, op.DB, "") {
		return nil
	}
	return one(auth.Database(op.DB), auth.ListCollections)
}

func validateDatabaseNeeds(_ Collections, op *command.Op) []auth.Need {
	db := op.Body.Lookup("db")
	if db.Type != bson.TypeString {
		return one(auth.AnyNormal, auth.Validate)
	}
	return one(auth.Database(db.Str()), auth.Validate)
}

func profileNeeds(_ Collections, op *command.Op) []auth.Need {
	_, level := op.Body.First()
	asks := bson.ClampToInt64(level) < 0 && !op.Body.Has("filter") && !op.Body.Has("slowms") && !op.Body.Has("sampleRate")
	if asks && op.May(auth.On(auth.Namespace(op.DB, schema.ProfileCollection), auth.Find)) {
		return nil
	}
	return one(auth.Database(op.DB), auth.EnableProfiler)
}

func currentOpNeeds(_ Collections, op *command.Op) []auth.Need {
	if op.Body.Lookup("$ownOps").Truthy() {
		return nil
	}
	return one(auth.Cluster, auth.Inprog)
}

// killOpNeeds requires nothing for an operation of the client's own user.
func killOpNeeds(_ Collections, op *command.Op) []auth.Need {
	id, err := process.OpID(op.Body.Lookup("op"))
	if err == nil {
		if target := op.Dispatcher.Clients.FindOp(id); target != nil && target.Client.Owner() == op.Client.Owner() {
			return nil
		}
	}
	return one(auth.Cluster, auth.Killop)
}

func diagnosticNeeds(Collections, *command.Op) []auth.Need {
	return append(one(auth.Cluster, auth.ServerStatus, auth.ReplSetGetStatus), auth.On(auth.Namespace("local", "oplog.rs"), auth.CollStats))
}

// killSessionsNeeds requires nothing for sessions of the client's own user,
// which are all that the command can name without a user's digest.
func killSessionsNeeds(_ Collections, op *command.Op) []auth.Need {
	for _, s := range op.Documents("killSessions") {
		if s.Has("uid") {
			return one(auth.Cluster, auth.KillAnySession)
		}
	}
	return nil
}

// text is a string's content; "" for other values.
func text(v bson.Value) string {
	if v.Type != bson.TypeString && v.Type != bson.TypeSymbol {
		return ""
	}
	return v.Str()
}

// within is the content of a document or an array; nothing for other values.
func within(v bson.Value) bson.Doc {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return bson.Empty
	}
	return v.Doc()
}
