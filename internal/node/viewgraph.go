package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// maxViewDepth is how deep views on views may nest.
	maxViewDepth = 20
	// maxViewPipeline bounds the pipelines of a view and those below it together,
	// in bytes.
	maxViewPipeline = 16_000_000
	// maxPipelineStages is how many stages a pipeline may have.
	maxPipelineStages = 1000
	// maxSubPipelines is how deep pipelines may nest.
	maxSubPipelines = 20
)

// checkView checks whether ns may be a view with those options. Errors: 73 for its source's
// name, 323 for a stage that apiStrict does not allow, 5 for a cycle, 165 for too deep
// nesting, 167 for a collation other than that of a view below, 195 for the size, and those
// of the pipeline.
func (n *Node) checkView(op *command.Op, ns schema.Namespace, o *schema.Options) error {
	source := schema.Namespace{DB: ns.DB, Coll: o.ViewOn}
	if err := source.Validate(); err != nil {
		return err
	}
	if op.Generic.APIStrict {
		if err := StrictPipeline(o.Pipeline.Slice()); err != nil {
			return err
		}
	}
	if err := checkViewPipeline(o.Pipeline, "", 0); err != nil {
		if n.Dispatcher.Member != nil && mongoerr.Is(err, errNoStreams.Code) {
			err = mongoerr.New(mongoerr.OptionNotSupportedOnView, "$changeStream cannot be used in the definition of a view")
		}
		return err
	}
	w := viewWalk{n: n, root: ns, collation: collationOf(o), path: []string{ns.String()}}
	if err := w.sources(ns.DB, o, 1, 0); err != nil {
		return err
	}
	return n.parseView(op, source, o)
}

// parseView parses the pipeline of a view on a source, so that errors are found now
// and not by the first reader of the view.
func (n *Node) parseView(op *command.Op, source schema.Namespace, o *schema.Options) error {
	s, err := n.newScope(op, nil, nil, collationOf(o))
	if err != nil {
		return err
	}
	s.expr.ClusterTime = true // that there is none is found only when the view is read, as on mongod
	_, err = pipeline.Parse(o.Pipeline.Slice(), &pipeline.Options{
		Expr: s.expr, Match: s.match, Collator: s.collator, DB: source.DB,
		NS: pipeline.Namespace{DB: source.DB, Coll: source.Coll}, Namespaces: &namespaces{n, s},
	})
	return err
}

func collationOf(o *schema.Options) bson.Doc {
	if o.Collation == nil {
		return nil
	}
	return o.Collation.Spec
}

// viewWalk follows a view down to its sources.
type viewWalk struct {
	n         *Node
	root      schema.Namespace
	collation bson.Doc
	path      []string
}

// sources checks the sources of a view: o are its options, size the bytes of
// the pipelines above it.
func (w *viewWalk) sources(db string, o *schema.Options, depth, size int) error {
	if depth > maxViewDepth {
		return mongoerr.New(mongoerr.ViewDepthLimitExceeded, "View depth limit exceeded; maximum depth is %d", maxViewDepth)
	}
	for stage := range o.Pipeline.Values() {
		size += len(stage.Data)
	}
	if size > maxViewPipeline {
		return mongoerr.New(mongoerr.ViewPipelineMaxSizeExceeded, "Operation would exceed the maximum size of the pipelines of views; maximum size is %d bytes", maxViewPipeline)
	}
	names := append([]string{o.ViewOn}, pipelineSources(o.Pipeline)...)
	for _, name := range names {
		if err := w.view(schema.Namespace{DB: db, Coll: name}, depth, size); err != nil {
			return err
		}
	}
	return nil
}

func (w *viewWalk) view(ns schema.Namespace, depth, size int) error {
	if ns == w.root {
		cycle := w.root.String()
		for i := len(w.path) - 1; i >= 0; i-- {
			cycle = w.path[i] + " => " + cycle
		}
		return mongoerr.New(mongoerr.GraphContainsCycle, "View cycle detected: %s", cycle)
	}
	c := w.n.Catalog.Lookup(ns)
	if c == nil || !c.IsView() {
		return nil
	}
	if string(collationOf(c.Settings)) != string(w.collation) {
		return mongoerr.New(mongoerr.OptionNotSupportedOnView, "View %s has a collation that does not match the collation of view %s", w.root, ns)
	}
	w.path = append(w.path, ns.String())
	defer func() { w.path = w.path[:len(w.path)-1] }()
	return w.sources(ns.DB, c.Settings, depth+1, size)
}

// checkViewCollations refuses stages that read views whose collation is not that
// of the pipeline.
func (n *Node) checkViewCollations(db string, list []bson.Value, collation bson.Doc) error {
	for _, name := range pipelineSources(bson.Array(list...).Doc()) {
		ns := schema.Namespace{DB: db, Coll: name}
		c := n.Catalog.Lookup(ns)
		if c != nil && c.IsView() && string(collationOf(c.Settings)) != string(collation) {
			return mongoerr.New(mongoerr.OptionNotSupportedOnView, "Cannot override a view's default collation: %s", ns)
		}
	}
	return nil
}

// pipelineSources names the collections that the stages of a pipeline read,
// those in pipelines inside among them.
func pipelineSources(pipeline bson.Doc) (names []string) {
	for stage := range pipeline.Values() {
		if stage.Type != bson.TypeDocument {
			continue
		}
		name, v := stage.Doc().First()
		switch name {
		case "$lookup", "$graphLookup":
			names = append(names, stringField(v, "from")...)
		case "$unionWith":
			if v.Type == bson.TypeString {
				names = append(names, v.Str())
			}
			names = append(names, stringField(v, "coll")...)
		case "$facet":
			if v.Type == bson.TypeDocument {
				for _, p := range v.Doc().All() {
					names = append(names, pipelineSources(arrayOf(p))...)
				}
			}
			continue
		}
		if v.Type == bson.TypeDocument {
			names = append(names, pipelineSources(arrayOf(v.Doc().Lookup("pipeline")))...)
		}
	}
	return names
}

func arrayOf(v bson.Value) bson.Doc {
	if v.Type != bson.TypeArray {
		return bson.Empty
	}
	return v.Doc()
}

func stringField(v bson.Value, name string) []string {
	if v.Type != bson.TypeDocument {
		return nil
	}
	if f := v.Doc().Lookup(name); f.Type == bson.TypeString {
		return []string{f.Str()}
	}
	return nil
}

// checkViewPipeline checks the shape of a view's pipeline, and that it changes
// nothing and reads collections only. inside names the stage that the pipeline
// is an argument of, "" for the view's own.
func checkViewPipeline(pipeline bson.Doc, inside string, depth int) error {
	if pipeline.Len() > maxPipelineStages {
		return mongoerr.New(mongoerr.Code(7749501), "Pipeline length must be no longer than %d stages", maxPipelineStages)
	}
	if depth > maxSubPipelines {
		return mongoerr.New(mongoerr.MaxSubPipelineDepthExceeded, "Maximum number of nested sub-pipelines exceeded. Limit is %d", maxSubPipelines)
	}
	for stage := range pipeline.Values() {
		if stage.Type != bson.TypeDocument {
			return mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		d := stage.Doc()
		if d.Len() != 1 {
			return mongoerr.New(mongoerr.Code(40323), "A pipeline stage specification object must contain exactly one field.")
		}
		name, v := d.First()
		if err := checkViewStage(name, inside); err != nil {
			return err
		}
		if v.Type != bson.TypeDocument {
			continue
		}
		if err := checkSubPipelines(name, v.Doc(), depth); err != nil {
			return err
		}
	}
	return nil
}

func checkSubPipelines(stage string, d bson.Doc, depth int) error {
	switch stage {
	case "$lookup", "$unionWith":
		return checkViewPipeline(arrayOf(d.Lookup("pipeline")), stage, depth+1)
	case "$facet":
		for _, v := range d.All() {
			if err := checkViewPipeline(arrayOf(v), stage, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNoStreams is the error of a standalone for a change stream.
var errNoStreams = mongoerr.New(mongoerr.Code(40573), "The $changeStream stage is only supported on replica sets")

func checkViewStage(name, inside string) error {
	switch name {
	case "$out", "$merge":
		switch inside {
		case "$lookup":
			return mongoerr.New(mongoerr.Code(51047), "%s is not allowed within a $lookup's sub-pipeline", name)
		case "$unionWith":
			return mongoerr.New(mongoerr.Code(31441), "%s is not allowed within a $unionWith's sub-pipeline", name)
		case "$facet":
			return mongoerr.New(mongoerr.Code(40600), "%s is not allowed to be used within a $facet stage", name)
		}
		return mongoerr.New(mongoerr.OptionNotSupportedOnView, "The aggregation stage %s in location 0 of the pipeline cannot be used in the view definition of a view", name)
	case "$currentOp", "$listSessions", "$listLocalSessions", "$documents":
		return mongoerr.New(mongoerr.InvalidNamespace, "%s is not valid in the definition of a view", name)
	case "$changeStream":
		return errNoStreams
	}
	if !viewStages[name] {
		return mongoerr.New(mongoerr.Code(40324), "Unrecognized pipeline stage name: '%s'", name)
	}
	return nil
}

// viewStages are the stages that the pipeline of a view may have.
var viewStages = map[string]bool{
	"$addFields": true, "$bucket": true, "$bucketAuto": true, "$collStats": true, "$expiryStats": true, "$archive": true, "$count": true, "$densify": true,
	"$facet": true, "$fill": true, "$geoNear": true, "$graphLookup": true, "$group": true, "$indexStats": true,
	"$limit": true, "$lookup": true, "$match": true, "$planCacheStats": true, "$project": true, "$redact": true,
	"$replaceRoot": true, "$replaceWith": true, "$sample": true, "$set": true, "$setWindowFields": true, "$skip": true,
	"$sort": true, "$sortByCount": true, "$unionWith": true, "$unset": true, "$unwind": true,
}
