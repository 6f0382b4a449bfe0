package router_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestRefusals runs testdata/refusals against a real cluster of two shards: what is refused,
// by the code and the words that the client gets. "run" sends commands to the router, one a
// line, to the database admin or db=…; a reply without errors is "ok".
func TestRefusals(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "d", primaryShard: "s0"}`)
	datadriven.Walk(t, "testdata/refusals", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			db := "admin"
			d.MaybeScanArgs(t, "db", &db)
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				doc, err := bson.ParseJSON(strings.TrimSpace(line))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				reply, err := c.router.Run(t.Context(), db, doc)
				out.WriteString(refusal(reply, err))
			}
			return out.String()
		})
	})
}

// refusal is the errors of a reply, one a line, or "ok".
func refusal(reply bson.Doc, err error) string {
	if err != nil {
		e := mongoerr.From(err)
		return fmt.Sprintf("%d %s\n", e.Code, still(e.Message))
	}
	if unmet := reply.Lookup("writeConcernError"); unmet.Type == bson.TypeDocument {
		return fmt.Sprintf("write concern %d %s\n", unmet.Doc().Lookup("code").Int32(), still(unmet.Doc().Lookup("errmsg").Str()))
	}
	writes := reply.Lookup("writeErrors")
	if writes.Type != bson.TypeArray {
		return "ok\n"
	}
	var out strings.Builder
	for v := range writes.Doc().Values() {
		fmt.Fprintf(&out, "%d %s\n", v.Doc().Lookup("code").Int32(), still(v.Doc().Lookup("errmsg").Str()))
	}
	return out.String()
}

// changing are values that differ from run to run.
var changing = regexp.MustCompile(`Timestamp\([0-9, ]*\)|UUID\("[^"]*"\)`)

// still is a message, in one line, without what differs from run to run.
func still(message string) string {
	return strings.ReplaceAll(changing.ReplaceAllString(shown(message), "(...)"), "\n", " ")
}
