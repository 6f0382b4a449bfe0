package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var getMoreFields = command.NewFields("getMore",
	command.Value(command.Int64("").Required()),
	command.String("collection").Required(),
	command.SafeInt64("batchSize").Min(0),
	command.Int64("term"),
	command.Object("lastKnownCommittedOpTime"),
	command.Bool("includeQueryStatsMetrics"),
	command.Timestamp("until"), // of a router: command.Paced
)

// getMore answers {getMore: id, collection, batchSize} with the next batch of a
// cursor. It takes every read concern, and reads with that of the cursor.
func (p *Process) getMore() *command.Command {
	return &command.Command{
		Name: "getMore", Kind: command.KindGetMore, Fields: getMoreFields,
		Flags: command.TakesReadConcern | command.TakesSnapshot | command.APIv1 | command.Transaction,
		Help:  "retrieve more results from an existing cursor", Run: p.runGetMore,
	}
}

func (p *Process) runGetMore(ctx context.Context, op *command.Op) error {
	a := &op.Args
	name := a.Str("collection")
	if !command.ValidCollectionName(name) {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace for getMore: %s.%s", op.DB, name)
	}
	op.SetCollection(name)
	wait := int64(-1)
	if op.Generic.HasMaxTimeMS {
		wait = op.Generic.MaxTimeMS
	}
	return command.GetMore(ctx, op, a.Int64("getMore"), op.NS, a.Int64("batchSize"), wait)
}
