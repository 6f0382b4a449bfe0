package access

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

func aggregateNeeds(_ Collections, op *command.Op) []auth.Need {
	_, v := op.Body.First()
	coll := ""
	if v.Type == bson.TypeString {
		coll = v.Str()
	}
	return pipelineNeeds(op, coll, within(op.Body.Lookup("pipeline")))
}

// pipelineNeeds returns the needs of an aggregation over a collection, "" for none.
func pipelineNeeds(op *command.Op, coll string, stages bson.Doc) []auth.Need {
	source := collectionResource(op.DB, coll)
	var all []auth.Need
	first := true
	for stage := range stages.Values() {
		name, arg := within(stage).First()
		if first {
			if own, ok := sourceNeeds(op, source, name, within(arg)); ok {
				all = append(all, own...)
			} else {
				all = append(all, auth.On(source, auth.Find))
			}
			first = false
		}
		all = append(all, stageNeeds(op, coll, name, arg)...)
	}
	if first {
		all = one(source, auth.Find)
	}
	return all
}

// sourceNeeds returns the needs of a stage that reads something other than the
// collection; ok says that it is such a stage.
func sourceNeeds(op *command.Op, source auth.Resource, stage string, arg bson.Doc) (all []auth.Need, ok bool) {
	switch stage {
	case "$documents":
		return nil, true
	case "$indexStats", "$expiryStats":
		return one(source, auth.IndexStats), true
	case "$archive":
		return one(source, auth.Find), true
	case "$collStats":
		return one(source, auth.CollStats), true
	case "$planCacheStats":
		return one(source, auth.PlanCacheRead), true
	case "$changeStream":
		if arg.Lookup("allChangesForCluster").Truthy() {
			source = auth.AnyNormal
		}
		return one(source, auth.ChangeStream, auth.Find), true
	case "$listClusterCatalog", "$listCatalog":
		return one(auth.Cluster, auth.ListClusterCatalog), true
	case "$querySettings":
		return one(auth.Cluster, auth.QuerySettings), true
	case "$queryStats":
		return one(auth.Cluster, auth.QueryStatsRead), true
	case "$backupCursor":
		return backupNeeds(nil, op), true
	case "$listSampledQueries":
		return one(auth.Cluster, auth.ListSampledQueries), true
	case "$shardedDataDistribution":
		return one(auth.Cluster, auth.ShardedDataDistribution), true
	case "$currentOp":
		if arg.Lookup("allUsers").Truthy() {
			return one(auth.Cluster, auth.Inprog), true
		}
		return nil, true
	case "$listSessions", "$listLocalSessions":
		if arg.Lookup("allUsers").Truthy() || arg.Has("users") {
			return one(auth.Cluster, auth.ListSessions), true
		}
		return nil, true
	}
	return nil, false
}

// stageNeeds returns the needs of a stage on collections other than the pipeline's own.
func stageNeeds(op *command.Op, coll, stage string, arg bson.Value) []auth.Need {
	d := within(arg)
	switch stage {
	case "$lookup", "$graphLookup":
		return append(foreignNeeds(op, d.Lookup("from")), subNeeds(op, d.Lookup("from"), d.Lookup("pipeline"))...)
	case "$unionWith":
		if arg.Type == bson.TypeString {
			return foreignNeeds(op, arg)
		}
		return append(foreignNeeds(op, d.Lookup("coll")), subNeeds(op, d.Lookup("coll"), d.Lookup("pipeline"))...)
	case "$facet":
		var all []auth.Need
		for _, sub := range d.All() {
			all = append(all, subStages(op, coll, within(sub))...)
		}
		return all
	case "$rankFusion":
		var all []auth.Need
		for _, sub := range within(within(d.Lookup("input")).Lookup("pipelines")).All() {
			all = append(all, subStages(op, coll, within(sub))...)
		}
		return all
	case "$out":
		return targetNeeds(op, arg, auth.Insert, auth.Remove)
	case "$merge":
		return mergeNeeds(op, arg)
	}
	return nil
}

func subStages(op *command.Op, coll string, stages bson.Doc) (all []auth.Need) {
	for stage := range stages.Values() {
		name, arg := within(stage).First()
		all = append(all, stageNeeds(op, coll, name, arg)...)
	}
	return all
}

// foreign returns the collection that a stage names, "coll" or {db, coll}.
func foreign(op *command.Op, v bson.Value) (auth.Resource, bool) {
	switch v.Type {
	case bson.TypeString:
		return auth.Namespace(op.DB, v.Str()), true
	case bson.TypeDocument:
		db, coll := v.Doc().Lookup("db"), v.Doc().Lookup("coll")
		if coll.Type == bson.TypeString && db.Type == bson.TypeString {
			return auth.Namespace(db.Str(), coll.Str()), true
		}
		if coll.Type == bson.TypeString {
			return auth.Namespace(op.DB, coll.Str()), true
		}
	}
	return auth.Resource{}, false
}

func foreignNeeds(op *command.Op, v bson.Value) []auth.Need {
	if r, ok := foreign(op, v); ok {
		return one(r, auth.Find)
	}
	return nil
}

// subNeeds returns the needs of a nested pipeline, which reads the collection from, or
// literal documents.
func subNeeds(op *command.Op, from, stages bson.Value) []auth.Need {
	if stages.Type != bson.TypeArray {
		return nil
	}
	coll := ""
	if from.Type == bson.TypeString {
		coll = from.Str()
	}
	if coll == "" {
		return subStages(op, coll, stages.Doc())
	}
	return pipelineNeeds(op, coll, stages.Doc())
}

// targetNeeds returns the needs of a stage that writes to a collection.
func targetNeeds(op *command.Op, v bson.Value, actions ...auth.Action) []auth.Need {
	r, ok := foreign(op, v)
	if !ok {
		return nil
	}
	if op.Body.Lookup("bypassDocumentValidation").Truthy() {
		actions = append(actions, auth.BypassDocumentValidation)
	}
	return one(r, actions...)
}

func mergeNeeds(op *command.Op, arg bson.Value) []auth.Need {
	into := arg
	actions := []auth.Action{auth.Insert, auth.Update}
	if arg.Type == bson.TypeDocument {
		into = within(arg).Lookup("into")
		matched, unmatched := within(arg).Lookup("whenMatched"), within(arg).Lookup("whenNotMatched")
		actions = actions[:0]
		if unmatched.IsNullish() || unmatched.Type == bson.TypeString && unmatched.Str() == "insert" {
			actions = append(actions, auth.Insert)
		}
		if matched.Type != bson.TypeString || matched.Str() != "keepExisting" && matched.Str() != "fail" {
			actions = append(actions, auth.Update)
		}
	}
	return targetNeeds(op, into, actions...)
}

// explainNeeds returns the needs of the explained command.
func explainNeeds(c Collections, op *command.Op) []auth.Need {
	body := within(op.Body.Lookup("explain"))
	name, _ := body.First()
	sub := &command.Op{DB: op.DB, Name: name, Body: body, Client: op.Client, Dispatcher: op.Dispatcher}
	k := op.Dispatcher.Registry.Lookup(name)
	if k == nil || k.Name == "explain" || needs[k.Name] == nil {
		return nil // the command itself says what is wrong
	}
	if k.Fields != nil {
		args, err := command.Parse(sub, k.Fields)
		if err != nil {
			return nil
		}
		sub.Args = args
	}
	return needs[k.Name](c, sub)
}

// mapReduceNeeds returns the needs for a mapReduce's input and output.
func mapReduceNeeds(c Collections, op *command.Op) []auth.Need {
	all := []auth.Need{onTarget(c, op, auth.Find)}
	out := op.Body.Lookup("out")
	db, coll, mode := op.DB, text(out), "replace"
	for _, m := range []string{"replace", "merge", "reduce"} {
		if v := within(out).Lookup(m); v.Type == bson.TypeString {
			mode, coll = m, v.Str()
			if d := within(out).Lookup("db"); d.Type == bson.TypeString {
				db = d.Str()
			}
			break
		}
	}
	if coll == "" {
		return all // the results are in the reply, or the command itself says what is wrong
	}
	actions := map[string][]auth.Action{
		"replace": {auth.Insert, auth.Remove}, "merge": {auth.Insert, auth.Update}, "reduce": {auth.Find, auth.Insert, auth.Update},
	}[mode]
	if op.Body.Lookup("bypassDocumentValidation").Truthy() {
		actions = append(actions, auth.BypassDocumentValidation)
	}
	return append(all, auth.On(auth.Namespace(db, coll), actions...))
}
