package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestDiskUse: what the router's memory cannot hold of the groups and rows of all shards goes to
// its disk, where the client lets it.
func TestDiskUse(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	var docs []string
	for i := range 150 { // of which a pipeline makes 1 MB each
		docs = append(docs, fmt.Sprintf(`{_id: %d}`, i))
	}
	c.do("app", `{insert: "c", documents: [`+strings.Join(docs, ", ")+`]}`)
	wide := `{$set: {pad: {$reduce: {input: {$range: [0, 20]}, initialValue: "x", in: {$concat: ["$$value", "$$value"]}}}}}`
	for _, blocking := range []string{
		`{$group: {_id: {$add: ["$_id", 1]}, pad: {$first: "$pad"}}}`,
		`{$setWindowFields: {sortBy: {_id: 1}, output: {sum: {$sum: "$_id", window: {documents: ["unbounded", "unbounded"]}}}}}`,
	} {
		ask := func(more string) string {
			return `{aggregate: "c", pipeline: [` + wide + `, ` + blocking + `, {$match: {pad: {$type: "string"}}}, {$count: "n"}], cursor: {}` + more + `}`
		}
		if got := batch(c.do("app", ask(""))); got != `[ { n: 150 } ]` {
			t.Errorf("%s: %s", blocking, got)
		}
		c.refused("app", ask(`, allowDiskUse: false`), mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed)
		c.do("admin", `{setParameter: 1, allowDiskUseByDefault: false}`)
		c.refused("app", ask(""), mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed)
		c.do("admin", `{setParameter: 1, allowDiskUseByDefault: true}`)
	}
}
