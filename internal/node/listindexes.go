package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	cursorFields      = command.NewFields("cursor", command.SafeInt64("batchSize").Min(0))
	listIndexesFields = command.NewFields("listIndexes",
		command.CollectionOrUUID(),
		command.Struct("cursor", cursorFields),
		command.SafeBool("includeBuildUUIDs"),
		command.SafeBool("includeIndexBuildInfo"),
		command.Bool("isTimeseriesNamespace"),
	)
)

// listIndexes answers {listIndexes: collection} with a cursor over the
// specifications. (Manual: database command listIndexes.)
func (n *Node) listIndexes() *command.Command {
	return &command.Command{
		Name: "listIndexes", Fields: listIndexesFields, Flags: command.ChecksDatabase | command.APIv1,
		Help: "list indexes for a collection",
		Run:  n.runListIndexes,
	}
}

func (n *Node) runListIndexes(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if a.Bool("includeBuildUUIDs") && a.Bool("includeIndexBuildInfo") {
		return mongoerr.New(mongoerr.InvalidOptions, "The includeBuildUUIDs flag and includeBuildIndexInfo flag cannot both be set to true")
	}
	c, err := n.existing(op, "ns does not exist: "+op.NS)
	if err != nil {
		return err
	}
	var docs []bson.Doc
	if c.Namespace.Coll != schema.ProfileCollection {
		for _, ix := range c.Indexes() {
			spec := ix.ListForm()
			if t := c.Settings.Timeseries; t != nil && namespace(op).IsBuckets() {
				spec = t.BucketIndex(spec)
			}
			if a.Bool("includeIndexBuildInfo") {
				spec = withBuildInfo(c, ix, spec)
			}
			docs = append(docs, spec)
		}
	}
	return command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: op.NS, Cursor: command.Documents(docs), BatchSize: batchSize(a),
	})
}

// batchSize is the batchSize inside a cursor argument.
func batchSize(a *command.Args) int64 {
	cursor, ok := a.Struct("cursor")
	if !ok {
		return command.DefaultBatch
	}
	return cursor.Int64Or("batchSize", command.DefaultBatch)
}

// withBuildInfo wraps the entry of an index; one under construction says so.
func withBuildInfo(c *catalog.Collection, ix *catalog.Index, spec bson.Doc) bson.Doc {
	var b bson.Builder
	b.Doc("spec", spec)
	if !ix.Ready {
		b.OpenDoc("indexBuildInfo").Binary("buildUUID", 4, c.UUID[:]).Close()
	}
	return b.Finish()
}
