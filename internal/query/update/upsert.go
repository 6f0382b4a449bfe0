package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Upsert returns the document to insert where filter matched nothing: the filter's
// equalities, with the update applied to them, _id first. A replacement takes over the
// equality on _id only. Where neither gives an _id, it is a new ObjectId. The error is
// 54 or 111 if the equalities contradict each other, 66 if the update would
// change the _id that the filter gives, 17420 or 10334 if the document is too large.
func (u *Update) Upsert(filter *match.Filter, ctx *Context) (bson.Doc, error) {
	ctx.Insert = true
	base, err := equalities(filter, u.kind == Replacement)
	if err != nil {
		return nil, err
	}
	doc, err := u.apply(base, ctx)
	if err != nil {
		return nil, err
	}
	if doc, err = idFirst(doc); err != nil {
		return nil, err
	}
	if len(doc) > bson.MaxDocumentSize {
		return nil, sizeError(doc, 17420, "Document to upsert is larger than %d")
	}
	return doc, nil
}

// idFirst moves _id to the front, or makes one.
func idFirst(doc bson.Doc) (bson.Doc, error) {
	if first, _ := doc.First(); first == "_id" {
		return doc, checkID(doc)
	}
	id := doc.Lookup("_id")
	if id.IsMissing() {
		id = bson.ObjectID(bson.NewObjectID())
	}
	var b bson.Builder
	b.Reset(make([]byte, 0, len(doc)+len(id.Data)+5)).Value("_id", id)
	for it := doc.Iter(); it.Next(); {
		if it.Key != "_id" {
			b.Value(it.Key, it.Value)
		}
	}
	out := b.Finish()
	return out, checkID(out)
}

// equalities makes the document that a filter's equalities describe, in the
// order of their paths; onlyID leaves out all but that on _id, which then has
// to be one on the whole of it.
func equalities(filter *match.Filter, onlyID bool) (bson.Doc, error) {
	if filter == nil {
		return bson.Empty, nil
	}
	if onlyID {
		return idEquality(filter)
	}
	eqs, err := filter.Equalities()
	if err != nil {
		return nil, err
	}
	root := &node{}
	for _, e := range eqs {
		l := leaf{op: &set{e.Value}, path: e.Path, creates: true}
		if err := root.add(l, strings.Split(e.Path, "."), nil); err != nil {
			return nil, err
		}
	}
	c := &Context{Insert: true, doc: bson.Empty}
	return c.document(nil, root, bson.Empty, nil)
}

func idEquality(filter *match.Filter) (bson.Doc, error) {
	for _, n := range match.Conjuncts(filter.Root()) {
		c, ok := n.(*match.Compare)
		switch {
		case !ok || c.Op != match.Eq:
		case c.FieldPath() == "_id":
			return new(bson.Builder).Value("_id", c.Value).Finish(), nil
		case strings.HasPrefix(c.FieldPath(), "_id."):
			return nil, mongoerr.New(mongoerr.NotExactValueField,
				"field at '_id' must be exactly specified, field at sub-path '%s'found", c.FieldPath())
		}
	}
	return bson.Empty, nil
}
