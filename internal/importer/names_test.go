package importer

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestNothingIsMerged: what the target has of its own stays as it is, if the source makes a
// collection or a view of that name while it is followed.
func TestNothingIsMerged(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1}]}`)
	to.run("t", `{"insert":"x","documents":[{"_id":9}]}`)
	to.run("t", `{"createIndexes":"x","indexes":[{"key":{"own":1},"name":"own"}]}`)
	to.run("t", `{"create":"v","viewOn":"x","pipeline":[]}`)
	o := Options{From: from.uri(), To: to.uri(), Parallel: 1, Tell: func(string) {}}
	cutOver := func(what string) {
		t.Helper()
		o.CutOver, o.Block = true, true
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has "+what+" already") {
			t.Errorf("%s: %v", what, err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), o) }()
	waitFor(t, to, "d", `{"count":"c","query":{}}`)
	from.run("t", `{"insert":"x","documents":[{"_id":1}]}`)
	if err := AskCutOver(t.Context(), Options{To: to.uri()}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "has t.x already") {
		t.Errorf("t.x: %v", err)
	}
	cutOver("t.x") // it does not become the import's by a second attempt
	from.run("t", `{"drop":"x"}`)
	from.run("t", `{"create":"v","viewOn":"y","pipeline":[]}`)
	cutOver("t.v")
	cutOver("t.v")
	if n := bson.ClampToInt64(to.run("t", `{"count":"x","query":{"_id":9}}`).Lookup("n")); n != 1 {
		t.Error("the target's own document is gone")
	}
	if n := bson.ClampToInt64(to.run("t", `{"count":"x","query":{}}`).Lookup("n")); n != 1 {
		t.Error("documents of the source are in the target's own collection")
	}
	if specs, err := indexesOf(t.Context(), to.end("the target"), "t", "x"); err != nil || len(specs) != 1 {
		t.Errorf("the target's own index: %v, %v", specs, err)
	}
	if v, err := named(t.Context(), to.end("the target"), "t", "v"); err != nil || v == nil || v.options.Lookup("viewOn").Str() != "x" {
		t.Errorf("the target's own view: %v, %v", v, err)
	}
	to.run("t", `{"dropDatabase":1}`)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	equal(t, from, to)
}
