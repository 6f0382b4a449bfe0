package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
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
	// Close gives back what the iterator holds. It may be called at any time,
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
}

// World is what stages need of the server around them.
type World interface {
	// Source opens a source stage that reads the server's own state
	// ($collStats, $indexStats, $currentOp …), with its checked argument.
	Source(ctx context.Context, stage string, arg bson.Value) (Iterator, error)
}

// parser makes a stage of its argument.
type parser func(arg bson.Value, p *parsing) (Stage, error)

// stages are the parsers by name.
var stages map[string]parser

func init() {
	stages = map[string]parser{
		"$match": parseMatch,
		"$sort":  parseSort, "$limit": parseLimit, "$skip": parseSkip,
		"$count": parseCount, "$group": parseGroup, "$unwind": parseUnwind, "$sortByCount": parseSortByCount,
		"$project": parseShape, "$addFields": parseShape, "$set": parseShape, "$unset": parseShape,
		"$replaceRoot": parseShape, "$replaceWith": parseShape,
		"$setWindowFields": parseSetWindowFields,
		"$documents":       parseDocuments, "$collStats": parseServer, "$indexStats": parseServer, "$currentOp": parseServer,
		"$planCacheStats": parseServer, "$listLocalSessions": parseServer, "$listSessions": parseServer,
	}
}
