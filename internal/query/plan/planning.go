package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxTreeText roughly bounds the text of a filter in an error, in bytes: each node
// takes an indented line.
const maxTreeText = 64 << 10

// errPlanning is the error of a query without a plan, with the reason. Its text
// contains the query: clients parse the path of a GEONEAR from it, to create the
// missing index.
func errPlanning(c *Collection, q *Query, code mongoerr.Code, why string) error {
	return mongoerr.New(code, "error processing query: %s planner returned error :: caused by :: %s", queryText(c, q), why)
}

// queryText formats the query as mongod does in errors.
func queryText(c *Collection, q *Query) string {
	var b strings.Builder
	b.WriteString("ns=" + c.Namespace)
	if q.Limit != 0 {
		fmt.Fprintf(&b, " limit=%d", q.Limit)
	}
	if q.Skip != 0 {
		fmt.Fprintf(&b, " skip=%d", q.Skip)
	}
	b.WriteString("Tree: ")
	writeTree(&b, q.Filter.Root(), 0)
	fmt.Fprintf(&b, "Sort: %s\n", q.Sort.Spec())
	var fields bson.Doc
	if q.Projection != nil {
		fields = q.Projection.Serialize()
	}
	fmt.Fprintf(&b, "Proj: %s\n", fields)
	if q.Collation != nil {
		fmt.Fprintf(&b, "Collation: %s\n", q.Collation)
	}
	return b.String()
}

// writeTree writes a node and, further in, those below it, while there is room.
func writeTree(b *strings.Builder, n match.Node, depth int) {
	if b.Len() > maxTreeText {
		return
	}
	b.WriteString(strings.Repeat("    ", depth))
	switch n := n.(type) {
	case *match.And:
		b.WriteString("$and\n")
		writeTrees(b, n.Children, depth+1)
		return
	case *match.Or:
		b.WriteString("$or\n")
		writeTrees(b, n.Children, depth+1)
		return
	case *match.GeoNear:
		b.WriteString(nearText(n))
	default:
		text := leafText(match.Serialize(n))
		b.WriteString(strings.ToValidUTF8(text[:min(len(text), maxTreeText)], ""))
	}
	b.WriteByte('\n')
}

func writeTrees(b *strings.Builder, nodes []match.Node, depth int) {
	for _, n := range nodes {
		writeTree(b, n, depth)
	}
}

// nearText formats a search by distance: its path and bounds, with numbers as C++'s
// streams print them.
func nearText(n *match.GeoNear) string {
	sphere := 0
	if n.Spec.Has("$nearSphere") {
		sphere = 1
	}
	return fmt.Sprintf("GEONEAR  field=%s maxdist=%s isNearSphere=%d", n.Path, strconv.FormatFloat(n.Near.Report(n.Near.Max), 'g', 6, 64), sphere)
}

// leafText formats {path: {$op: value}} as "path $op value", and anything else as a
// document.
func leafText(d bson.Doc) string {
	path, v := d.First()
	if d.Len() == 1 && v.Type == bson.TypeDocument && v.Doc().Len() == 1 {
		if op, arg := v.Doc().First(); strings.HasPrefix(op, "$") {
			return fmt.Sprintf("%s %s %s", path, op, arg)
		}
	}
	return d.String()
}
