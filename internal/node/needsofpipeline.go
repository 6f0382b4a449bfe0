package node

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

func aggregateNeeds(_ *Node, op *command.Op) []auth.Need {
	_, v := op.Body.First()
	coll := ""
	if v.Type == bson.TypeString {
		coll = v.Str()
	}
	return pipelineNeeds(op, coll, op.Body.Lookup("pipeline").Doc())
}

// pipelineNeeds is what an aggregation over a collection, "" for none,
// requires.
func pipelineNeeds(op *command.Op, coll string, stages bson.Doc) []auth.Need {
	source := collectionResource(op.DB, coll)
	var all []auth.Need
	first := true
	for stage := range stages.Values() {
		name, arg := stage.Doc().First()
		if first {
			if own, ok := sourceNeeds(op, source, name, arg.Doc()); ok {
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

// sourceNeeds is what a stage requires that reads something other than the
// collection; ok says that it is such a stage.
func sourceNeeds(op *command.Op, source auth.Resource, stage string, arg bson.Doc) (all []auth.Need, ok bool) {
	switch stage {
	case "$documents":
		return nil, true
	case "$indexStats", "$expiryStats":
		return one(source, auth.IndexStats), true
	case "$collStats":
		return one(source, auth.CollStats), true
	case "$planCacheStats":
		return one(source, auth.PlanCacheRead), true
	case "$changeStream":
		return one(source, auth.ChangeStream, auth.Find), true
	case "$listClusterCatalog", "$listCatalog":
		return one(auth.Cluster, auth.ListClusterCatalog), true
	case "$querySettings":
		return one(auth.Cluster, auth.QuerySettings), true
	case "$queryStats":
		return one(auth.Cluster, auth.QueryStatsRead), true
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

// stageNeeds is what a stage requires on collections other than the pipeline's
// own.
func stageNeeds(op *command.Op, coll, stage string, arg bson.Value) []auth.Need {
	d := arg.Doc()
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
			all = append(all, subStages(op, coll, sub.Doc())...)
		}
		return all
	case "$rankFusion":
		var all []auth.Need
		for _, sub := range d.Lookup("input").Doc().Lookup("pipelines").Doc().All() {
			all = append(all, subStages(op, coll, sub.Doc())...)
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
		name, arg := stage.Doc().First()
		all = append(all, stageNeeds(op, coll, name, arg)...)
	}
	return all
}

// foreign is the collection that a stage names, "coll" or {db, coll}.
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

// subNeeds is what the pipeline inside a stage requires, which reads the
// collection from, or literal documents.
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

// targetNeeds is what a stage requires that writes to a collection.
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
		into = arg.Doc().Lookup("into")
		matched, unmatched := arg.Doc().Lookup("whenMatched"), arg.Doc().Lookup("whenNotMatched")
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

// explainNeeds is what the explained command requires.
func explainNeeds(n *Node, op *command.Op) []auth.Need {
	body := op.Body.Lookup("explain").Doc()
	name, v := body.First()
	sub := &command.Op{DB: op.DB, Name: name, Body: body, Client: op.Client, Dispatcher: op.Dispatcher}
	if v.Type == bson.TypeString {
		sub.Collection = v.Str()
	}
	c := op.Dispatcher.Registry.Lookup(name)
	if c == nil || c.Name == "explain" || needs[c.Name] == nil {
		return nil // the command itself says what is wrong
	}
	if c.Fields != nil {
		args, err := command.Parse(sub, c.Fields)
		if err != nil {
			return nil
		}
		sub.Args = args
	}
	return needs[c.Name](n, sub)
}

// mapReduceNeeds is what a mapReduce reads, and where its results go.
func mapReduceNeeds(n *Node, op *command.Op) []auth.Need {
	all := []auth.Need{n.onTarget(op, auth.Find)}
	out, err := parseMapReduceOut(op.DB, op.Body.Lookup("out"))
	if err != nil || out.mode == "" {
		return all // the command itself says what is wrong
	}
	actions := map[string][]auth.Action{
		"replace": {auth.Insert, auth.Remove}, "merge": {auth.Insert, auth.Update}, "reduce": {auth.Find, auth.Insert, auth.Update},
	}[out.mode]
	if op.Body.Lookup("bypassDocumentValidation").Truthy() {
		actions = append(actions, auth.BypassDocumentValidation)
	}
	return append(all, auth.On(auth.Namespace(out.db, out.coll), actions...))
}
