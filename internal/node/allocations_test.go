//go:build !race

package node

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Commands about one _id work in memory that operations hand on. The bounds leave
// some room: the store below allocates, too, and a garbage collection empties the
// pools. (The race detector makes pools forget.)
func TestCommandsByIDAllocateLittle(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: t.TempDir(), CacheBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, client := over(c)
	n.Register(n.Dispatcher.Registry)
	run := func(req *command.Request) {
		r := n.Dispatcher.Dispatch(t.Context(), req)
		defer r.Release()
		if r.Body.Lookup("ok").Double() != 1 || r.Body.Has("writeErrors") {
			t.Fatal(r.Body)
		}
	}
	request := func(body, id, doc string) *command.Request {
		r := &command.Request{Client: client, Body: benchBody(bson.MustParse(body))}
		if doc != "" {
			r.Sequences = []command.Sequence{{ID: id, Docs: []bson.Doc{bson.MustParse(doc)}}}
		}
		return r
	}
	insert := request(`{insert: "docs"}`, "documents", `{_id: 1, k: 1, n: 1, pad: "some text"}`)
	remove := request(`{delete: "docs"}`, "deletes", `{q: {_id: 1}, limit: 1}`)
	find := request(`{find: "docs", filter: {_id: 1}, limit: 1}`, "", "")
	update := request(`{update: "docs"}`, "updates", `{q: {_id: 1}, u: {$inc: {n: 1}}}`)
	run(request(`{createIndexes: "docs", indexes: [{key: {k: 1}, name: "k"}]}`, "", ""))
	run(insert)
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"find", 8, func() { run(find) }},
		{"update", 11, func() { run(update) }},
		{"insert and delete", 12, func() { run(remove); run(insert) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(200, c.run); got > c.most {
				t.Errorf("%v allocations", got)
			}
		})
	}
}
