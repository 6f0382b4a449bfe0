package update

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// pipeline is an update by aggregation stages, each of which converts one document to
// one document.
type pipeline struct {
	stages    []*project.Projection
	firstSlot int // of the constants
	constants []bson.Value
}

func parsePipeline(stages bson.Doc, opts *Options) (*pipeline, error) {
	exprOpts := expr.Options{Collator: opts.Collator}
	if opts.Expr != nil {
		exprOpts = *opts.Expr
	}
	exprOpts.ClusterTime = true // an update may read it without a cluster clock
	exprOpts.Late = true        // mongod does not optimize an update's pipeline
	p := &pipeline{firstSlot: len(exprOpts.Vars)}
	vars := slices.Clone(exprOpts.Vars)
	for it := opts.Constants.Iter(); it.Next(); {
		if err := expr.ValidateVarName(it.Key); err != nil {
			return nil, err
		}
		vars = append(vars, it.Key)
		p.constants = append(p.constants, it.Value)
	}
	exprOpts.Vars = vars
	for v := range stages.Values() {
		name, arg, err := stage(v)
		if err != nil {
			return nil, err
		}
		if name == "$fill" {
			name, arg, err = filling(arg)
		} else {
			err = checkStage(name)
		}
		if err != nil {
			return nil, err
		}
		s, err := project.ParseStage(name, arg, &project.Options{Expr: &exprOpts, Match: opts.Match})
		if err != nil {
			return nil, err
		}
		p.stages = append(p.stages, s)
	}
	return p, nil
}

// filling converts a $fill by values to an $addFields; one by methods needs other
// documents and is not allowed in an update.
func filling(arg bson.Value) (name string, fields bson.Value, err error) {
	if arg.Type != bson.TypeDocument || arg.Doc().Lookup("output").Type != bson.TypeDocument {
		return "", arg, mongoerr.New(mongoerr.FailedToParse, "The $fill stage specification must be an object with an 'output' object, found %s", arg)
	}
	windows, values, err := project.FillOutputs(arg.Doc().Lookup("output").Doc(), arg.Doc().Has("sortBy"))
	if err == nil && !windows.IsEmpty() {
		err = checkStage("$setWindowFields")
	}
	return "$addFields", bson.Document(values), err
}

// stage splits a stage into name and argument.
func stage(v bson.Value) (name string, arg bson.Value, err error) {
	if v.Type != bson.TypeDocument {
		return "", arg, mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
	}
	if v.Doc().Len() != 1 {
		return "", arg, mongoerr.New(mongoerr.Code(40323), "A pipeline stage specification object must contain exactly one field.")
	}
	name, arg = v.Doc().First()
	return name, arg, nil
}

// CheckStages rejects an update by a pipeline with a stage that does not exist at all.
// The server checks all statements of a command for that before it runs the first.
// Errors: 14, 40323, 40324.
func CheckStages(u bson.Value) error {
	if u.Type != bson.TypeArray {
		return nil
	}
	for v := range u.Doc().Values() {
		name, _, err := stage(v)
		if err != nil {
			return err
		}
		if err := checkStage(name); err != nil && !otherStages[name] {
			return err
		}
	}
	return nil
}

// otherStages has the stages that are not allowed in an update.
var otherStages = map[string]bool{
	"$bucket": true, "$bucketAuto": true, "$changeStream": true, "$changeStreamSplitLargeEvent": true, "$collStats": true, "$expiryStats": true, "$archive": true,
	"$count": true, "$currentOp": true, "$densify": true, "$documents": true, "$facet": true, "$fill": true, "$geoNear": true,
	"$graphLookup": true, "$group": true, "$indexStats": true, "$limit": true, "$listLocalSessions": true,
	"$listSampledQueries": true, "$listSearchIndexes": true, "$listSessions": true, "$lookup": true, "$match": true,
	"$merge": true, "$out": true, "$planCacheStats": true, "$queryStats": true, "$redact": true, "$sample": true, "$search": true,
	"$searchMeta": true, "$setWindowFields": true, "$shardedDataDistribution": true, "$skip": true, "$sort": true,
	"$sortByCount": true, "$unionWith": true, "$unwind": true, "$vectorSearch": true, "$listClusterCatalog": true,
	"$querySettings": true, "$rankFusion": true,
}

func checkStage(name string) error {
	switch name {
	case "$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith":
		return nil
	}
	if otherStages[name] {
		return mongoerr.New(mongoerr.InvalidOptions, "%s is not allowed to be used within an update", name)
	}
	return mongoerr.New(mongoerr.Code(40324), "Unrecognized pipeline stage name: '%s'", name)
}

func (p *pipeline) apply(doc bson.Doc, c *Context) (bson.Doc, error) {
	env := c.Env
	if env == nil {
		env = expr.NewEnv(0)
	}
	for i, v := range p.constants {
		env.SetVar(p.firstSlot+i, v)
	}
	out := doc
	for _, s := range p.stages {
		var err error
		if out, err = s.Apply(env, out); err != nil {
			return nil, err
		}
	}
	return c.replace(doc, out, true)
}
