package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// refuses has a shard refuse the next commands of a name as stale.
func (c *fakeCluster) refuses(shard, name string, times int) {
	c.t.Helper()
	c.on(shard, "admin", mustParse(c.t, fmt.Sprintf(`{"configureFailPoint":"failCommand","mode":{"times":%d},"data":{"failCommands":["%s"],"errorCode":13388}}`, times, name)))
}

func mustParse(t *testing.T, text string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStaleRoutes: no client sees that a shard refused a statement as stale, as long as a
// fresher route helps; what had an effect is not done twice, and what had none is done.
func TestStaleRoutes(t *testing.T) {
	c := newFakeCluster(t, "s0", "s1", "s2")
	c.database("d", "s0")
	c.shard("d.r", mustParse(t, `{"x":1}`), []bson.Doc{mustParse(t, `{"x":10}`), mustParse(t, `{"x":20}`)}, []string{"s0", "s1", "s2"})
	c.run("d", `{"insert":"r","documents":[{"_id":1,"x":1,"n":0},{"_id":2,"x":11,"n":0},{"_id":3,"x":21,"n":0}]}`)
	for _, l := range []struct{ name, command, want string }{
		{"find", `{"find":"r","sort":{"x":1}}`, "{ _id: 1, x: 1, n: 0 }\n{ _id: 2, x: 11, n: 0 }\n{ _id: 3, x: 21, n: 0 }\n1 batches\n"},
		{"count", `{"count":"r"}`, "{ n: 3, ok: 1.0 }\n"},
		{"aggregate", `{"aggregate":"r","pipeline":[{"$count":"n"}],"cursor":{}}`, "{ n: 3 }\n1 batches\n"},
		{"update", `{"update":"r","updates":[{"q":{},"u":{"$inc":{"n":1}},"multi":true}]}`, "{ n: 3, nModified: 3, ok: 1.0 }\n"},
		{"insert", `{"insert":"r","documents":[{"_id":4,"x":12,"n":1}]}`, "{ n: 1, ok: 1.0 }\n"},
		{"delete", `{"delete":"r","deletes":[{"q":{"n":0},"limit":0},{"q":{"_id":4},"limit":1}]}`, "{ n: 1, ok: 1.0 }\n"},
		{"findAndModify", `{"findAndModify":"r","query":{"_id":2},"update":{"$set":{"a":1}}}`,
			"{ lastErrorObject: { n: 1, updatedExisting: true }, value: { _id: 2, x: 11, n: 1 }, ok: 1.0 }\n"},
	} {
		c.refuses("s1", l.name, 2)
		if got := c.run("d", l.command); got != l.want {
			t.Errorf("%s: %s", l.command, got)
		}
	}
	want := "{ _id: 1, x: 1, n: 1 }\n{ _id: 2, x: 11, n: 1, a: 1 }\n{ _id: 3, x: 21, n: 1 }\n1 batches\n"
	if got := c.run("d", `{"find":"r","sort":{"x":1}}`); got != want {
		t.Error(got)
	}
	c.refuses("s1", "find", 100)
	if got := c.run("d", `{"find":"r","filter":{"x":11}}`); !strings.Contains(got, "13388") {
		t.Errorf("a shard that always refuses: %s", got)
	}
	c.on("s1", "admin", mustParse(t, `{"configureFailPoint":"failCommand","mode":"off"}`))
}

// TestStaleAfterMove: a chunk has moved when its old shard refuses an update of many. The
// new one is asked for what has moved, and its other documents are not updated twice.
func TestStaleAfterMove(t *testing.T) {
	c := newFakeCluster(t, "s0", "s1", "s2")
	c.database("d", "s0")
	c.shard("d.r", mustParse(t, `{"x":"hashed"}`), []bson.Doc{mustParse(t, `{"x":{"$numberLong":"0"}}`)}, []string{"s0", "s1"})
	var docs []string
	for i := range 20 {
		docs = append(docs, fmt.Sprintf(`{"_id":%d,"x":%d,"n":0}`, i, i))
	}
	c.run("d", `{"insert":"r","ordered":false,"documents":[`+strings.Join(docs, ",")+`]}`)
	here := c.on("s0", "d", mustParse(t, `{"count":"r"}`)).Lookup("n").Int32()
	if here == 0 || here == 20 {
		t.Fatalf("%d of 20 documents on s0", here)
	}
	c.on("config", "config", mustParse(t, `{"update":"chunks","updates":[{"q":{"shard":"s1"},"u":{"$set":{"shard":"s0","lastmod":{"$timestamp":{"t":2,"i":0}},"history":[]}}}]}`))
	c.refuses("s1", "update", 1)
	// What s1 had is nowhere now: the update concerns what s0 has, once.
	if got, want := c.run("d", `{"update":"r","updates":[{"q":{},"u":{"$inc":{"n":1}},"multi":true}]}`), fmt.Sprintf("{ n: %d, nModified: %d, ok: 1.0 }\n", here, here); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.on("s0", "d", mustParse(t, `{"count":"r","query":{"n":1}}`)).Lookup("n").Int32(); got != here {
		t.Errorf("%d of %d documents were updated once", got, here)
	}
}

// TestDatabaseThatAppears: a router that has seen that there is no such database sees the one
// that another router makes.
func TestDatabaseThatAppears(t *testing.T) {
	c := newFakeCluster(t, "s0", "s1")
	for _, command := range []string{`{"find":"c"}`, `{"listCollections":1,"nameOnly":true}`, `{"aggregate":"c","pipeline":[{"$match":{}}],"cursor":{}}`} {
		if got := c.run("late", command); got != "\n1 batches\n" {
			t.Errorf("%s before: %s", command, got)
		}
	}
	c.database("late", "s1")
	c.on("s1", "late", mustParse(t, `{"insert":"c","documents":[{"_id":1}]}`))
	for command, want := range map[string]string{`{"find":"c"}`: "{ _id: 1 }\n1 batches\n", `{"count":"c"}`: "{ n: 1, ok: 1.0 }\n"} {
		if got := c.run("late", command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}
