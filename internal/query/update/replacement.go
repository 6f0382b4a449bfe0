package update

import (
	"bytes"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// replace replaces doc by next. doc's _id is kept and comes first; if next has the same
// number with another type, doc's type is kept, as in mongod. Nothing changes only if
// next has exactly the bytes of doc, including _id. dollars allows names that start
// with $, which only a pipeline may produce.
func (c *Context) replace(doc, next bson.Doc, dollars bool) (bson.Doc, error) {
	if c.changed = !bytes.Equal(next, doc); !c.changed {
		return doc, nil
	}
	id, same := doc.Lookup("_id"), next.Lookup("_id")
	if !id.IsMissing() && !same.IsMissing() && bson.Compare(id, same) == 0 {
		id = same
	}
	var b bson.Builder
	b.Reset(c.room(len(next) + len(id.Data) + len("_id") + 2))
	b.Value("_id", id)
	for it := next.Iter(); it.Next(); {
		v := it.Value
		switch {
		case it.Key == "_id" && !id.IsMissing():
			if bson.Compare(id, v) != 0 {
				return nil, mongoerr.New(mongoerr.ImmutableField,
					"After applying the update, the (immutable) field '_id' was found to have been altered to %s", elementText("_id", v))
			}
			continue
		case strings.HasPrefix(it.Key, "$") && !dollars:
			return nil, dollarError(it.Key)
		case v.Type == bson.TypeTimestamp && v.Timestamp() == 0 && it.Key != "_id" && !dollars && !c.KeepZeroTimestamps:
			v = bson.Timestamp(c.timestamp())
		}
		b.Value(it.Key, v)
	}
	out := b.Finish()
	if bson.ExceedsDepth(out, bson.MaxDepth) {
		return nil, mongoerr.New(mongoerr.Overflow, "Document exceeds maximum nesting depth of %d", bson.MaxDepth)
	}
	return out, checkID(out)
}
