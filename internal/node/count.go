package node

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var countFields = command.NewFields("count",
	command.CollectionOrUUID(),
	command.Object("query"),
	command.Any("limit"),
	command.SafeInt64("skip").Min(0),
	command.Hint("hint"),
	command.Object("collation"),
	command.Ignored("fields"),
	command.Bool("mirrored"),
	command.Any("encryptionInformation"),
)

// count answers {count: collection, query, skip, limit}. (Manual: database
// command count.)
func (n *Node) count() *command.Command {
	return &command.Command{
		Name: "count", Fields: countFields,
		Flags: command.ChecksOwner | command.TakesReadConcern | command.APIv1,
		Help:  "count objects in collection",
		Run:   n.runCount,
	}
}

// countQuery parses the arguments.
func (n *Node) countQuery(op *command.Op, a *command.Args) (*query, error) {
	q, err := n.newQuery(op, nil, a.Doc("collation"), a.Doc("query"))
	if err != nil {
		return nil, err
	}
	q.env.Now, q.env.ClusterTime = 0, 0 // $$NOW and $$CLUSTER_TIME have no value in a count
	q.Hint, q.Skip = a.Value("hint"), a.Int64("skip")
	q.Limit, err = CountLimit(a.Value("limit"))
	return q, err
}

// CountLimit reads the limit of a count; a negative one counts as its absolute
// value. Errors: 2, 9.
func CountLimit(v bson.Value) (int64, error) {
	if v.IsMissing() {
		return 0, nil
	}
	if !v.IsNumber() {
		return 0, mongoerr.New(mongoerr.BadValue, "limit value is not a valid number")
	}
	limit, ok := bson.ExactInt64(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.FailedToParse, "Expected an integer: %s: %s", "limit", v)
	}
	if limit == math.MinInt64 {
		return 0, mongoerr.New(mongoerr.BadValue, "limit value for count cannot be min long")
	}
	return max(limit, -limit), nil
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
	op.Stats.ExecStats = command.StagedFunc(out.Stats)
	op.Reply.Int("n", out.N)
	return nil
}
