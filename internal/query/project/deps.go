package project

import (
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Fields returns the dotted paths that the result depends on. whole says that
// any field may be needed; then paths mean nothing.
func (p *Projection) Fields() (paths []string, whole bool) {
	var d expr.Deps
	if p.kind != Inclusion || p.positional {
		return nil, true
	}
	p.root.deps(&d, "")
	return d.Paths, d.Whole
}

// Deps adds to d what the projection's expressions read: paths, variables and
// metadata. The fields that it keeps are not among them.
func (p *Projection) Deps(d *expr.Deps) {
	if p.newRoot != nil {
		d.Add(p.newRoot)
		return
	}
	p.root.exprs(d.Add)
}

// Meta lists the names of the metadata that {$meta: name} reads: "textScore",
// "sortKey" …
func (p *Projection) Meta() []string {
	var d expr.Deps
	p.Deps(&d)
	return d.Meta
}

func (n *node) exprs(add func(expr.Expr)) {
	for _, f := range n.fields {
		switch f.do {
		case compute:
			add(f.expr)
		case descend:
			f.sub.exprs(add)
		}
	}
}

// deps adds the paths that an inclusion reads. A value computed
// inside an array needs the array's shape, and so the path that leads to it.
func (n *node) deps(d *expr.Deps, prefix string) {
	for _, f := range n.fields {
		path := prefix + f.name
		switch f.do {
		case keep, pick:
			d.AddPath(path)
		case compute:
			d.Add(f.expr)
			if prefix != "" {
				d.AddPath(prefix[:len(prefix)-1])
			}
		case descend:
			f.sub.deps(d, path+".")
		}
	}
}
