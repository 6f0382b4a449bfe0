package router_test

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestMergeWithLet: the pipeline of a $merge over several shards has the variables of its let,
// each with the value for the document that comes in; one without a value is not defined.
func TestMergeWithLet(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.from", key: {x: "hashed"}}`)
	c.do("admin", `{shardCollection: "app.into", key: {_id: "hashed"}}`)
	c.fill("from", 0, 20)
	for i := range 20 {
		if i%2 == 0 {
			c.do("app", fmt.Sprintf(`{insert: "into", documents: [{_id: %d, n: 1}]}`, i))
		}
	}
	c.do("app", `{aggregate: "from", pipeline: [{$merge: {into: "into", let: {twice: {$multiply: ["$y", 2]}}, whenMatched: [{$set: {n: {$add: ["$n", "$$twice"]}}}], whenNotMatched: "discard"}}], cursor: {}}`)
	// Of 0, 2, … 18 each has n = 1 + 2y, y = 20 - _id.
	if got := batch(c.do("app", `{aggregate: "into", pipeline: [{$group: {_id: null, n: {$sum: "$n"}, c: {$sum: 1}}}], cursor: {}}`)); got != `[ { _id: null, n: 230, c: 10 } ]` {
		t.Errorf("the target has %s", got)
	}
	if _, err := c.try("app", `{aggregate: "from", pipeline: [{$merge: {into: "into", let: {none: "$nothing"}, whenMatched: [{$set: {n: "$$none"}}], whenNotMatched: "discard"}}], cursor: {}}`); !mongoerr.Is(err, 17276) {
		t.Errorf("a variable without a value: %v", err)
	}
}
