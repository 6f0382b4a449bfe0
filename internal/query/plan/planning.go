package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxTreeText bounds about how much of a filter an error shows, in bytes: each of
// its nodes takes a line of its own, and indentation.
const maxTreeText = 64 << 10

// errPlanning is the error of a query for which there is no plan, and why. Its
// text tells the query: clients read the path of a GEONEAR in it, to create the
// index that is missing.
func errPlanning(c *Collection, q *Query, code mongoerr.Code, why string) error {
	return mongoerr.New(code, "error processing query: %s planner returned error :: caused by :: %s", queryText(c, q), why)
}

// queryText is the query as the server prints it in errors.
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

// nearText is a search by distance: its path and bounds, as C++'s streams print
// numbers.
func nearText(n *match.GeoNear) string {
	sphere := 0
	if n.Spec.Has("$nearSphere") {
		sphere = 1
	}
	return fmt.Sprintf("GEONEAR  field=%s maxdist=%s isNearSphere=%d", n.Path, strconv.FormatFloat(n.Near.Report(n.Near.Max), 'g', 6, 64), sphere)
}

// leafText is {path: {$op: value}} as "path $op value", anything else as the
// document that it is.
func leafText(d bson.Doc) string {
	path, v := d.First()
	if d.Len() == 1 && v.Type == bson.TypeDocument && v.Doc().Len() == 1 {
		if op, arg := v.Doc().First(); strings.HasPrefix(op, "$") {
			return fmt.Sprintf("%s %s %s", path, op, arg)
		}
	}
	return d.String()
}
