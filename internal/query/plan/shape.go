package plan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Shape is what queries have in common that differ only in their values: the
// paths and operators of the filter, the sort, the fields of the projection
// and the collation. Plans are cached, and index filters set, by shape.
type Shape string

// ShapeOf is the shape of a query.
func ShapeOf(q *Query) Shape {
	var b strings.Builder
	b.WriteString(shapeNode(q.Filter.Root()))
	b.WriteByte('~')
	for _, p := range q.Sort.Parts {
		switch {
		case p.Meta != "":
			b.WriteString("m" + p.Meta)
		case p.Descending:
			b.WriteByte('d')
		default:
			b.WriteByte('a')
		}
		b.WriteString(escape(p.Path) + ",")
	}
	b.WriteByte('|')
	for _, path := range projected(q) {
		b.WriteString(escape(path) + ",")
	}
	b.WriteString(q.Above + "#")
	b.Write(q.Collation)
	return Shape(b.String())
}

// projected returns the fields that a projection needs, sorted; nil if it may need any.
func projected(q *Query) []string {
	paths := slices.Clone(q.Fields)
	if q.Projection != nil {
		if fields, whole := q.Projection.Fields(); !whole {
			paths = slices.Clone(fields)
		}
	}
	slices.Sort(paths)
	return paths
}

// Hash is the eight hexadecimal digits by which messages name the shape.
func (s Shape) Hash() string { return hash32(string(s)) }

// Key is the eight digits that name the shape together with the plans that the
// collection's indexes offer for it.
func (s Shape) Key(candidates []string) string {
	return hash32(string(s) + "\x00" + strings.Join(candidates, "\x00"))
}

func hash32(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s))
	return fmt.Sprintf("%08X", h.Sum32())
}

// Signature tells plans for one shape apart: the stages and the indexes, but
// not the bounds.
func Signature(n Node) string {
	var b strings.Builder
	b.WriteString(n.Stage())
	switch n := n.(type) {
	case *IndexScan:
		fmt.Fprintf(&b, " %s %t %d", n.Index.Title(), n.Backward, n.Variant)
		for _, l := range n.Bounds {
			if l.IsAll() {
				b.WriteString(" *")
			} else {
				b.WriteString(" =")
			}
		}
	case *CountScan:
		b.WriteString(" " + n.Index.Title())
	case *DistinctScan:
		b.WriteString(" " + n.Index.Title())
	}
	last := ""
	for _, in := range n.Inputs() {
		// The scans that a sort splits one scan into are alike.
		if s := Signature(in); s != last {
			b.WriteString(" (" + s + ")")
			last = s
		}
	}
	return b.String()
}

func shapeNode(n match.Node) string {
	switch n := n.(type) {
	case *match.And:
		return "an" + shapeNodes(n.Children)
	case *match.Or:
		return "or" + shapeNodes(n.Children)
	case *match.Nor:
		return "nr" + shapeNodes(n.Children)
	case *match.Not:
		return "nt" + shapeNodes([]match.Node{n.Child})
	case *match.ElemMatchObject:
		return "eo" + escape(n.FieldPath()) + shapeNodes([]match.Node{n.Child})
	case *match.ElemMatchValue:
		return "ev" + escape(n.FieldPath()) + shapeNodes(n.Children)
	case *match.Expr:
		return "xp"
	case *match.JSONSchema:
		return "js" + shapeSchema(n.Schema)
	case match.Leaf:
		return shapeLeaf(n)
	}
	name, _ := match.Serialize(n).First()
	return name
}

// shapeNodes sorts the children, so that their order in the query does not matter.
func shapeNodes(ns []match.Node) string {
	all := make([]string, len(ns))
	for i, n := range ns {
		all[i] = shapeNode(n)
	}
	slices.Sort(all)
	return "[" + strings.Join(all, ",") + "]"
}

func shapeLeaf(n match.Leaf) string {
	path := escape(n.FieldPath())
	switch n := n.(type) {
	case *match.Compare:
		return [...]string{"eq", "lt", "le", "gt", "ge"}[n.Op] + path
	case *match.In:
		if len(n.Regexes) > 0 {
			return "in/" + path
		}
		return "in" + path
	case *match.Regex:
		return "re/" + n.Options + "/" + path
	case *match.Exists:
		return "ex" + path
	case *match.Type:
		return "ty" + path
	case *match.Mod:
		return "mo" + path
	case *match.Size:
		return "sz" + path
	case *match.BitTest:
		return "bt" + n.Op.String() + path
	}
	_, v := match.Serialize(n).First()
	if v.Type == bson.TypeDocument {
		name, _ := v.Doc().First()
		return name + path
	}
	return "?" + path
}

// shapeSchema keeps the keywords of a schema and the fields it names.
func shapeSchema(d bson.Doc) string {
	var all []string
	for name, v := range d.All() {
		s := escape(name)
		switch {
		case name == "required":
			s += v.String()
		case v.Type == bson.TypeDocument:
			s += shapeSchema(v.Doc())
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

var escaper = strings.NewReplacer("[", `\[`, "]", `\]`, ",", `\,`, "|", `\|`, "~", `\~`, "#", `\#`, `\`, `\\`)

func escape(path string) string { return escaper.Replace(path) }
