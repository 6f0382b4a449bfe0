package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var dataSizeFields = command.NewFields("dataSize",
	command.Value(command.String("").Required()),
	command.Object("keyPattern"),
	command.Object("min"),
	command.Object("max"),
	command.SafeBool("estimate"),
	command.SafeInt64("maxSize"),
	command.SafeInt64("maxObjects"),
)

// dataSize answers {dataSize: "db.coll"} with the bytes of its documents, or of
// those within bounds on a key. (Manual: database command dataSize.)
func (n *Node) dataSize() *command.Command {
	return &command.Command{
		Name: "dataSize", Aliases: []string{"datasize"}, Fields: dataSizeFields, Flags: command.TakesReadConcern,
		Help: "determine data size for a set of data in a certain range",
		Run:  n.runDataSize,
	}
}

func (n *Node) runDataSize(ctx context.Context, op *command.Op) error {
	start := time.Now()
	_, v := op.Body.First()
	ns := schema.ParseNamespace(v.Str())
	if err := ns.Validate(); err != nil {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", v.Str())
	}
	op.SetNS(ns.String())
	a := &op.Args
	if a.Has("min") != a.Has("max") {
		return mongoerr.New(mongoerr.BadValue, "only one of min or max specified")
	}
	c := n.Catalog.Lookup(ns)
	if c != nil && c.SeenAsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
	}
	size, count := int64(0), int64(0)
	switch {
	case c == nil:
	case a.Has("min"):
		ix, err := rangeIndex(c, a.Doc("keyPattern"), a.Doc("min"))
		if err != nil {
			return err
		}
		if size, count, err = n.sizeBetween(ctx, c, ix, a.Doc("min"), a.Doc("max")); err != nil {
			return err
		}
	case !a.Bool("estimate") && (a.Int64("maxSize") > 0 || a.Int64("maxObjects") > 0):
		var err error
		if size, count, err = n.sizeWithin(ctx, op, c, a.Int64("maxSize"), a.Int64("maxObjects")); err != nil {
			return err
		}
	default:
		size, count = c.DataSize(), c.Count()
	}
	op.Reply.Bool("estimate", a.Bool("estimate")).Int64("size", size).Int64("numObjects", count).
		Int64("millis", time.Since(start).Milliseconds())
	return nil
}

// sizeWithin sums up documents until there are more of them than maxCount or
// more bytes than maxSize; 0 sets no bound.
func (n *Node) sizeWithin(ctx context.Context, op *command.Op, c *catalog.Collection, maxSize, maxCount int64) (size, count int64, err error) {
	s, err := n.newScope(op, c, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	q, err := n.scopedQuery(op, c, s, nil)
	if err != nil {
		return 0, 0, err
	}
	cur, err := n.Exec.Find(ctx, q.coll, q.Query)
	if err != nil {
		return 0, 0, err
	}
	defer cur.Close()
	for {
		d, err := cur.Next(ctx)
		if err != nil || d == nil {
			return size, count, err
		}
		size, count = size+int64(len(d)), count+1
		if maxSize > 0 && size > maxSize || maxCount > 0 && count > maxCount {
			return size, count, nil
		}
	}
}

// rangeIndex finds the index for bounds on a key: error 96.
func rangeIndex(c *catalog.Collection, key, bounds bson.Doc) (*catalog.Index, error) {
	if key == nil {
		var b bson.Builder
		b.Reset(nil)
		for name := range bounds.All() {
			b.Int32(name, 1)
		}
		key = b.Finish()
	}
	for _, ix := range c.Indexes() {
		if ix.Ready && bson.Equal(bson.Document(ix.Key), bson.Document(key)) {
			return ix, nil
		}
	}
	return nil, mongoerr.New(mongoerr.OperationFailed, "couldn't find valid index containing key pattern")
}

// sizeBetween sums up the documents whose key in an index is at or after min
// and before max.
func (n *Node) sizeBetween(ctx context.Context, c *catalog.Collection, ix *catalog.Index, min, max bson.Doc) (size, count int64, err error) {
	lower, upper := ix.Bound(min), ix.Bound(max)
	if string(lower) >= string(upper) {
		return 0, 0, nil
	}
	s := n.Catalog.Engine().NewSnapshot()
	defer s.Close()
	gone, err := c.Gone(s)
	if err != nil {
		return 0, 0, err
	}
	it, err := c.EntryIter(s, ix, lower, upper)
	if err != nil {
		return 0, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if count%1000 == 0 && ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		v, err := it.Value()
		if err != nil {
			return 0, 0, err
		}
		count++
		_, record, _, doc := c.SplitEntry(nil, ix, it, v)
		if doc != nil && !it.Joined() {
			size += int64(len(doc))
			continue
		}
		if gone.Dead(record) {
			count--
			continue
		}
		stored, closer, err := s.Get(c.Ident, record)
		if err != nil {
			return 0, 0, err
		}
		size += int64(len(stored))
		closer.Close()
	}
	return size, count, it.Err()
}
