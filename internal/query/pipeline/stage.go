package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// Stage is one parsed stage. Immutable; a pipeline may run many times.
type Stage interface {
	// Name is the stage's name: "$match".
	Name() string
	// Serialize is the stage's argument as explain prints it.
	Serialize() bson.Value
	// Open runs the stage over in, which is nil for a Source. Closing the result
	// closes in.
	Open(in Iterator, r *Run) (Iterator, error)
}

// Source is a stage that brings its own documents and so comes first.
type Source interface {
	Stage
	source()
}

// Iterator delivers documents.
type Iterator interface {
	// Next returns the next document, valid until the following call; nil at the
	// end.
	Next(ctx context.Context) (bson.Doc, error)
	// Close releases the resources of the iterator. It may be called at any time,
	// and more than once.
	Close()
}

// Run is one execution of a pipeline.
type Run struct {
	// Env evaluates the expressions. Stages of one run share it.
	Env *expr.Env
	// SpillDir is where blocking stages may spill, or "" (allowDiskUse: false).
	SpillDir string
	// World is the server.
	World World
	// Meta is the metadata of the document that a stage has just delivered
	// ({score: …}), nil for none. Stages that hold documents back keep it with
	// them.
	Meta bson.Doc
	// Stats, if not nil, gets a StageStats for each stage that is opened.
	Stats *[]*StageStats
	// Inside counts what the pipelines of stages have examined, which share it;
	// nil without counting.
	Inside *Examined

	ticks int
	open  []resting // pipelines of stages that are under way
}

// Examined is how many keys and documents were examined.
type Examined struct{ keys, docs atomic.Int64 }

// Add counts further ones.
func (e *Examined) Add(keys, docs int64) {
	if e != nil {
		e.keys.Add(keys)
		e.docs.Add(docs)
	}
}

// Counts returns the numbers so far.
func (e *Examined) Counts() (keys, docs int64) {
	if e == nil {
		return 0, 0
	}
	return e.keys.Load(), e.docs.Load()
}

// resting is a running pipeline that can release the store until it continues.
type resting interface {
	Park() error
	Unpark(ctx context.Context) error
}

// sorter makes a sorter that takes the run's memory.
func (r *Run) sorter(limit int64) *extsort.Sorter {
	s := extsort.New(limit, r.SpillDir)
	s.Hold(r.Env.Hold())
	return s
}

// enter and leave keep track of what stages read between two documents.
func (r *Run) enter(it Iterator) {
	if p, ok := it.(resting); ok {
		r.open = append(r.open, p)
	}
}

func (r *Run) leave(it Iterator) {
	if p, ok := it.(resting); ok {
		r.open = slices.DeleteFunc(r.open, func(o resting) bool { return o == p })
	}
}

// Park makes the pipelines that stages read release the store until Unpark.
func (r *Run) Park() error {
	for _, p := range r.open {
		if err := p.Park(); err != nil {
			return err
		}
	}
	return nil
}

// Unpark makes them take the latest state of the store.
func (r *Run) Unpark(ctx context.Context) error {
	for _, p := range r.open {
		if err := p.Unpark(ctx); err != nil {
			return err
		}
	}
	return nil
}

// meta answers {$meta: name} for the current document.
func (r *Run) meta(name string) bson.Value { return r.Meta.Lookup(name) }

// ticksPerCheck is how many documents a loop may take between two looks at the
// context.
const ticksPerCheck = 128

// check returns the context's error, now and then: every loop over documents
// calls it.
func (r *Run) check(ctx context.Context) error {
	if r.ticks++; r.ticks%ticksPerCheck == 0 && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// World is what stages need of the server around them.
type World interface {
	// Source opens a source stage that reads the server's own state
	// ($collStats, $indexStats, $currentOp …), with its checked argument.
	Source(ctx context.Context, stage string, arg bson.Value) (Iterator, error)
	// Archived opens a $archive.
	Archived(ctx context.Context, a *Archive, r *Run) (Iterator, error)
	// Read runs a pipeline over a collection, which need not exist.
	Read(ctx context.Context, ns Namespace, p *Pipeline, r *Run) (Iterator, error)
	// Merge opens the target of a $merge.
	Merge(ctx context.Context, m *Merge, r *Run) (Target, error)
	// Out opens the target of an $out.
	Out(ctx context.Context, o *Out, r *Run) (Target, error)
}

// Target takes the documents that a pipeline writes.
type Target interface {
	// Add takes a document, whose bytes it does not keep.
	Add(ctx context.Context, d bson.Doc) error
	// Finish makes what was added visible.
	Finish(ctx context.Context) error
	// Close gives up what is not finished. It may be called after Finish.
	Close()
}

// parser makes a stage of its argument.
type parser func(arg bson.Value, p *parsing) (Stage, error)

// stages are the parsers by name.
var stages map[string]parser

func init() {
	stages = map[string]parser{
		"$match": parseMatch, "$geoNear": parseGeoNear,
		"$sort": parseSort, "$limit": parseLimit, "$skip": parseSkip,
		"$count": parseCount, "$group": parseGroup, StatesStage: parseGroupStates, joinStage: parseJoinGroups, "$unwind": parseUnwind, "$sortByCount": parseSortByCount,
		"$project": parseShape, "$addFields": parseShape, "$set": parseShape, "$unset": parseShape,
		"$replaceRoot": parseShape, "$replaceWith": parseShape,
		"$setWindowFields": parseSetWindowFields,
		"$documents":       parseDocuments, "$collStats": parseServer, "$indexStats": parseServer, "$expiryStats": parseServer, "$archive": parseArchive, "$currentOp": parseServer,
		"$planCacheStats": parseServer, "$listLocalSessions": parseServer, "$listSessions": parseServer,
		"$lookup": parseLookup, "$graphLookup": parseGraphLookup, "$unionWith": parseUnionWith,
		"$merge": parseMerge, "$out": parseOut,
		"$facet": parseFacet, "$bucket": parseBucket, "$bucketAuto": parseBucketAuto,
		"$sample": parseSample, "$redact": parseRedact, "$densify": parseDensify, "$fill": parseFill,
		"$rankFusion": parseRankFusion,
		"$search":     parseSearch, "$searchBeta": parseSearch, "$searchMeta": parseSearch, "$vectorSearch": parseSearch,
		"$listSearchIndexes": parseSearch,
		"$changeStream":      parseChangeStream, "$changeStreamSplitLargeEvent": parseSplitLargeEvent,
		"$listClusterCatalog": parseListClusterCatalog, "$querySettings": parseQuerySettings,
		"$queryStats": parseQueryStats, "$listSampledQueries": parseListSampledQueries, "$listCatalog": parseListCatalog,
	}
}

// Names lists the stages that clients use, sorted.
func Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(stages)), func(name string) bool { return name == StatesStage || name == joinStage })
}
