package project

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Stage is the name of the stage that explain prints for the projection:
// "$project" also for an $unset, "$addFields" or "$set" as it was written,
// "$replaceRoot" also for a $replaceWith; empty for the projection of a find.
func (p *Projection) Stage() string { return p.stage }

// Serialize is the specification as explain prints it: a find's as it was
// given, a stage's in its normal form with every field named ({_id: true, a:
// true, b: {$add: …}}).
func (p *Projection) Serialize() bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	switch {
	case p.stage == "":
		return p.spec
	case p.kind == ReplaceRoot:
		return b.Value("newRoot", expr.Serialize(p.newRoot)).Finish()
	case p.kind == Inclusion && p.root.kept("_id"):
		b.Bool("_id", true)
	}
	p.root.serialize(&b)
	if p.kind == Exclusion && (p.root.find("_id") < 0 || p.root.kept("_id")) {
		b.Bool("_id", true)
	}
	return b.Finish()
}

func (n *node) kept(name string) bool {
	i := n.find(name)
	return i >= 0 && n.fields[i].do == keep
}

// serialize writes the flags, then the nested documents and the expressions,
// each in the order of the specification. A kept _id is the caller's.
func (n *node) serialize(b *bson.Builder) {
	for _, f := range n.fields {
		switch {
		case f.do == drop:
			b.Bool(f.name, false)
		case f.do == keep && f.name != "_id":
			b.Bool(f.name, true)
		}
	}
	for _, f := range n.fields {
		switch f.do {
		case descend:
			b.OpenDoc(f.name)
			f.sub.serializeAll(b)
			b.Close()
		case compute:
			b.Value(f.name, expr.Serialize(f.expr))
		}
	}
}

// serializeAll is serialize for a nested document, where _id is a name like
// any other.
func (n *node) serializeAll(b *bson.Builder) {
	if n.kept("_id") {
		b.Bool("_id", true)
	}
	n.serialize(b)
}
