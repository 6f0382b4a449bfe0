package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// MapReduce is a mapReduce command whose pipeline somebody else runs: a router.
type MapReduce struct{ m *mapReduction }

// ParseMapReduce reads the arguments of a mapReduce on a database. Errors: those of the command.
func ParseMapReduce(db string, a *command.Args) (*MapReduce, error) {
	m, err := parseMapReduce(db, a)
	if err != nil {
		return nil, err
	}
	return &MapReduce{m}, nil
}

// Pipeline is what it runs, with the variables that its functions have as globals.
func (r *MapReduce) Pipeline() (list []bson.Value, globals bson.Doc) {
	return r.m.pipeline, r.m.reading.globals
}

// Translate makes an error of parsing the pipeline that of the command.
func (r *MapReduce) Translate(err error) error { return r.m.translate(err) }

// Write writes the reply. results is an array of what the pipeline delivers.
func (r *MapReduce) Write(b *bson.Builder, results bson.Doc) { r.m.out.write(b, results) }

// runtimeFields are those of aggregate's runtimeConstants, which a router sends with its part
// of a mapReduce: the globals of its functions, and the stored functions, which the primary shard
// of the database has.
var runtimeFields = command.NewFields("runtimeConstants", command.Object("jsScope"), command.SafeBool("isMapReduce"), command.ArrayOf("storedFunctions", command.Object("")))

// stored are stored functions.
type stored []bson.Doc

// Stored implements javascript.Library.
func (s stored) Stored(context.Context) ([]bson.Doc, error) { return s, nil }

// takeConstants takes the runtimeConstants of an aggregate.
func (r *reading) takeConstants(a *command.Args) {
	if c, ok := a.Struct("runtimeConstants"); ok {
		r.mapReduce, r.globals = c.Bool("isMapReduce"), c.Doc("jsScope")
		if c.Has("storedFunctions") {
			r.library = stored{}
		}
		for _, v := range c.Array("storedFunctions") {
			r.library = append(r.library, v.Doc())
		}
	}
}
