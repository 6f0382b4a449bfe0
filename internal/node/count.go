package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var countFields = command.NewFields("count",
	command.CollectionOrUUID(),
	command.Object("query"),
	command.SafeInt64("limit"),
	command.SafeInt64("skip").Min(0),
	command.OneOf("hint", bson.TypeString, bson.TypeDocument),
	command.Object("collation"),
	command.Object("fields"),
	command.Bool("mirrored"),
	command.Any("encryptionInformation"),
)

// count answers {count: collection, query, skip, limit}. (Manual: database
// command count.)
func (n *Node) count() *command.Command {
	return &command.Command{
		Name: "count", Fields: countFields,
		Flags: command.TakesReadConcern | command.APIv1,
		Help:  "count objects in collection",
		Run:   n.runCount,
	}
}

// countQuery parses the arguments; a negative limit counts as its absolute
// value.
func (n *Node) countQuery(op *command.Op, a *command.Args) (*query, error) {
	q, err := n.newQuery(op, nil, a.Doc("collation"), a.Doc("query"))
	if err != nil {
		return nil, err
	}
	q.Hint, q.Skip, q.Limit = a.Value("hint"), a.Int64("skip"), a.Int64("limit")
	if q.Limit < 0 {
		if q.Limit = -q.Limit; q.Limit < 0 {
			return nil, mongoerr.New(mongoerr.BadValue, "Limit value out of range: %d", q.Limit)
		}
	}
	return q, nil
}

func (n *Node) runCount(ctx context.Context, op *command.Op) error {
	if handled, err := n.countOnView(ctx, op); handled || err != nil {
		return err
	}
	q, err := n.countQuery(op, &op.Args)
	if err != nil {
		return err
	}
	out, err := n.Exec.Count(ctx, q.coll, q.Query)
	if err != nil {
		return err
	}
	op.SetPlanSummary(out.Summary)
	op.Stats.IsQuery, op.Stats.KeysExamined, op.Stats.DocsExamined = true, out.Keys, out.Docs
	op.Reply.Int("n", out.N)
	return nil
}
