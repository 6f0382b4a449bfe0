package node

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// maxDistinctBytes bounds the reply of a distinct.
const maxDistinctBytes = 16<<20 - 16<<10

var distinctFields = command.NewFields("distinct",
	command.CollectionOrUUID(),
	command.String("key").Required(),
	command.Object("query"),
	command.Object("collation"),
	command.Hint("hint"),
	command.Object(SettingsField).Unstable(),
)

// distinct answers {distinct: collection, key, query} with the different
// values of a field; arrays count by their elements. (Manual: database command
// distinct.)
func (n *Node) distinct() *command.Command {
	return &command.Command{
		Name: "distinct", Fields: distinctFields,
		Flags: command.ChecksOwner | command.TakesReadConcern | command.TakesSnapshot | command.Transaction,
		Help:  "find the distinct values of a field",
		Run:   n.runDistinct,
	}
}

// distinctQuery parses the arguments.
func (n *Node) distinctQuery(op *command.Op, a *command.Args) (*query, error) {
	if err := distinctKey(a.Str("key")); err != nil {
		return nil, err
	}
	q, err := n.newQuery(op, nil, a.Doc("collation"), a.Doc("query"))
	if err != nil {
		return nil, err
	}
	q.env.Now, q.env.ClusterTime = 0, 0 // $$NOW and $$CLUSTER_TIME have no value in a distinct
	q.Hint = a.Value("hint")
	q.Preferred = n.settingsOf(op).preferred(namespace(op))
	return q, nil
}

// distinctKey checks the path of the values.
func distinctKey(key string) error {
	if strings.IndexByte(key, 0) >= 0 {
		return mongoerr.New(mongoerr.Code(31032), "Key field cannot contain an embedded null byte")
	}
	return nil
}

func (n *Node) runDistinct(ctx context.Context, op *command.Op) error {
	if err := n.rejected(op); err != nil {
		return err
	}
	if handled, err := n.distinctOnView(ctx, op); handled || err != nil {
		return err
	}
	q, err := n.distinctQuery(op, &op.Args)
	if err != nil {
		return err
	}
	values := distinctValues{seen: map[string]bool{}, collator: q.collator, op: op}
	key := op.Args.Str("key")
	out, err := n.Exec.Distinct(ctx, q.coll, q.Query, key, func(d bson.Doc) (bool, error) {
		err := exec.Elements(d, key, values.add)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	op.SetPlanSummary(out.Summary)
	op.Stats.IsQuery, op.Stats.KeysExamined, op.Stats.DocsExamined = true, out.Keys, out.Docs
	op.Stats.ExecStats = command.StagedFunc(out.Stats)
	values.write(op.Reply)
	if op.State != nil {
		op.Reply.Timestamp("atClusterTime", uint64(op.State.Time))
	}
	return nil
}

// distinctValues collects values, each once, and writes them in their order.
type distinctValues struct {
	seen     map[string]bool
	list     []bson.Value
	collator bson.Collator
	bytes    int
	op       *command.Op // whose reply they are
	scratch  []byte
}

func (d *distinctValues) add(v bson.Value) error {
	d.scratch = keystring.Append(d.scratch[:0], v, false, d.collator)
	if d.seen[string(d.scratch)] {
		return nil
	}
	d.bytes += len(v.Data) + 16
	if d.bytes > maxDistinctBytes {
		return mongoerr.New(17217, "distinct too big, 16mb cap")
	}
	if err := d.op.GrowReply(2 * d.bytes); err != nil { // the list, its keys, and the reply
		return err
	}
	d.seen[string(d.scratch)] = true
	d.list = append(d.list, v.Clone())
	return nil
}

func (d *distinctValues) write(b *bson.Builder) {
	slices.SortStableFunc(d.list, func(x, y bson.Value) int { return bson.CompareWith(x, y, d.collator) })
	b.OpenArray("values")
	for i, v := range d.list {
		b.Value(bson.Index(i), v)
	}
	b.Close()
}
