package node

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestArchiveSnapshot reads a state by a snapshot and in a transaction while the monitor archives: each
// document is live or archived, and once, as of that state.
func TestArchiveSnapshot(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	n, dir := s.members["a"].Node, t.TempDir()
	if err := n.Params.SetAtStartup("archivePlaces", "file://"+dir); err != nil {
		t.Fatal(err)
	}
	s.must("a", "test", `{"createIndexes":"c","indexes":[{"key":{"at":1},"name":"at","expireAfterSeconds":0,"storageEngine":{"mayfly":{"expiry":{"archive":{"to":"file://`+dir+`"}}}}}]}`)
	insert := func(ids ...int) {
		for _, id := range ids {
			s.must("a", "test", fmt.Sprintf(`{"insert":"c","documents":[{"_id":%d,"at":{"$date":"1999-01-01T00:00:00Z"}}]}`, id))
		}
	}
	const archived, both = `[{"$archive":{}},{"$sort":{"_id":1}},{"$project":{"at":0}}]`, `[{"$project":{"at":0}},{"$unionWith":{"coll":"c","pipeline":[{"$archive":{}},{"$project":{"at":0}}]}},{"$sort":{"_id":1}}]`
	read := func(pipeline, concern string) (docs string, at uint64) {
		return stateBatch(s.must("a", "test", `{"aggregate":"c","pipeline":`+pipeline+`,"cursor":{}`+concern+`}`))
	}
	within := func(words, pipeline string) string {
		r := s.statementOn("a", words+` {"aggregate":"c","pipeline":`+pipeline+`,"cursor":{}}`)
		if r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
		docs, _ := stateBatch(r)
		return docs
	}
	m := expire.New(expire.Options{Catalog: n.Catalog, Exec: n.Exec, Dispatcher: n.Dispatcher, Log: n.Log, Archives: n.Archives, Owner: n.ArchiveOwner})
	m.Start()
	defer m.Stop()
	pass := func() {
		t.Helper()
		if err := m.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if docs, _ := read(`[]`, ""); docs != "[]" {
			t.Fatalf("behind a pass there is %s", docs)
		}
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	insert(1, 2)
	_, before := read(`[]`, at(0))
	within("1 1 start", `[]`)
	pass()
	insert(3)
	_, between := read(`[]`, at(0))
	within("2 1 start", `[]`)
	pass()
	for _, c := range []struct {
		what                       string
		at                         uint64
		transaction, archived, all string
	}{
		{"before", before, "1 1", "[]", `[ { _id: 1 }, { _id: 2 } ]`},
		{"between", between, "2 1", `[ { _id: 1 }, { _id: 2 } ]`, `[ { _id: 1 }, { _id: 2 }, { _id: 3 } ]`},
		{"now", 0, "3 1 start", `[ { _id: 1 }, { _id: 2 }, { _id: 3 } ]`, `[ { _id: 1 }, { _id: 2 }, { _id: 3 } ]`},
	} {
		docs, _ := read(archived, at(c.at))
		check(c.what, docs, c.archived)
		docs, _ = read(both, at(c.at))
		check(c.what+" with live ones", docs, c.all)
		check(c.what+" in a transaction", within(c.transaction, archived), c.archived)
	}
}

// TestArchiveStaysInItsDatabase refuses what would part a collection and the rows of what was archived of it.
func TestArchiveStaysInItsDatabase(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	n, dir := s.members["a"].Node, t.TempDir()
	if err := n.Params.SetAtStartup("archivePlaces", "file://"+dir); err != nil {
		t.Fatal(err)
	}
	renames := []string{`{"renameCollection":"test.c","to":"other.c"}`, `{"renameCollection":"test.c","to":"local.c"}`, `{"applyOps":[{"op":"c","ns":"test.$cmd","o":{"renameCollection":"test.c","to":"other.c"}}]}`}
	refused := func(when string) {
		t.Helper()
		for _, text := range renames {
			if r := s.run("a", "admin", text); r.Lookup("code").String() != "20" {
				t.Errorf("%s: %s: %s", when, text, r)
			}
		}
	}
	s.must("a", "test", `{"createIndexes":"c","indexes":[{"key":{"at":1},"name":"at","expireAfterSeconds":0,"storageEngine":{"mayfly":{"expiry":{"archive":{"to":"file://`+dir+`"}}}}}]}`)
	refused("it archives")
	if _, err := n.Catalog.Rename(t.Context(), schema.Namespace{DB: "test", Coll: "c"}, schema.Namespace{DB: "other", Coll: "c"}, false); err == nil {
		t.Error("the catalog renames what archives")
	}
	s.must("a", "test", `{"insert":"c","documents":[{"_id":1,"at":{"$date":"1999-01-01T00:00:00Z"}}]}`)
	m := expire.New(expire.Options{Catalog: n.Catalog, Exec: n.Exec, Dispatcher: n.Dispatcher, Log: n.Log, Archives: n.Archives, Owner: n.ArchiveOwner})
	m.Start()
	defer m.Stop()
	if err := m.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.must("a", "test", `{"dropIndexes":"c","index":"at"}`)
	refused("it has archived")
	for _, text := range []string{
		`{"applyOps":[{"op":"c","ns":"test.$cmd","ui":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}},"o":{"create":"system.archive"}}]}`,
		`{"applyOps":[{"op":"c","ns":"test.$cmd","o":{"create":"system.archive"}}]}`,
	} {
		if r := s.run("a", "admin", text); r.Lookup("code").String() != "73" {
			t.Errorf("%s: %s", text, r)
		}
	}
	if docs, _ := stateBatch(s.must("a", "test", `{"aggregate":"c","pipeline":[{"$archive":{}},{"$project":{"at":0}}],"cursor":{}}`)); docs != `[ { _id: 1 } ]` {
		t.Errorf("archived: %s", docs)
	}
	s.must("a", "admin", `{"renameCollection":"test.c","to":"test.d"}`)
	s.must("a", "test", `{"insert":"free","documents":[{"_id":1}]}`)
	s.must("a", "admin", `{"renameCollection":"test.free","to":"other.free"}`)
}
