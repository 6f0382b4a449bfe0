package node

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// auditFile is an audit.Output that can be full.
type auditFile struct {
	full bool
	told []string // "atype ns", or "atype old new"
}

func (f *auditFile) Write(event []byte) error {
	if f.full {
		return errors.New("no space left on device")
	}
	d := bson.Doc(event)
	param, told := d.Lookup("param").Doc(), d.Lookup("atype").Str()
	for _, name := range []string{"ns", "old", "new"} {
		if v := param.Lookup(name); !v.IsMissing() {
			told += " " + v.Str()
		}
	}
	if told != d.Lookup("atype").Str() {
		f.told = append(f.told, told)
	}
	return nil
}
func (*auditFile) Rotate() error { return nil }
func (*auditFile) Close() error  { return nil }

// What creates a collection by using it is told to auditors, and refused while that cannot be;
// what only uses one goes on.
func TestAuditOfUse(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.run("a", "test", `{"insert":"c","documents":[{"_id":1}]}`)
	out := &auditFile{}
	l, err := audit.New(audit.Options{Output: out, BSON: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n := s.members["a"].Node
	n.Dispatcher.Audit = l
	for i, c := range []struct{ line, coll string }{
		{`- {"insert":"inserted","documents":[{}]}`, "inserted"},
		{`- {"update":"updated","updates":[{"q":{},"u":{"a":1},"upsert":true}]}`, "updated"},
		{`- {"findAndModify":"modified","query":{},"update":{"a":1},"upsert":true}`, "modified"},
		{`1 1 start {"insert":"transacted","documents":[{}]}`, ""},
		{`- {"createIndexes":"indexed","indexes":[{"key":{"a":1},"name":"a_1"}]}`, "indexed"},
		{`- {"aggregate":"c","pipeline":[{"$merge":"merged"}],"cursor":{}}`, "merged"},
		{`- {"aggregate":"c","pipeline":[{"$out":"out"}],"cursor":{}}`, "out"},
	} {
		out.full = true
		l.Keep(nil, "expire", nil) // finds that it is
		r := s.statement(c.line)
		code := r.Lookup("code")
		if e := r.Lookup("writeErrors"); !e.IsMissing() {
			for first := range e.Doc().Values() {
				code = first.Doc().Lookup("code")
			}
		}
		if mongoerr.Code(bson.ClampToInt64(code)) != mongoerr.OutOfDiskSpace {
			t.Errorf("%s on a full disk: %s", c.line, r)
		}
		if c.coll != "" && n.Catalog.Lookup(schema.Namespace{DB: "test", Coll: c.coll}) != nil {
			t.Errorf("%s is there", c.coll)
		}
		if r := s.statement(`- {"insert":"c","documents":[{}]}`); r.Has("writeErrors") || !r.Lookup("ok").Truthy() {
			t.Errorf("an insert on a full disk: %s", r)
		}
		out.full, out.told = false, nil
		line, coll := c.line, c.coll
		if coll == "" {
			line, coll = strings.Replace(line, "1 1", "1 2", 1), "transacted"
		}
		if r := s.statement(line); r.Has("writeErrors") || !r.Lookup("ok").Truthy() {
			t.Errorf("%d: %s: %s", i, line, r)
		}
		if told := strings.Join(out.told, ", "); strings.Count(told, "createCollection test."+coll) != 1 || strings.Count(told, "createCollection") != 1 {
			t.Errorf("%s: %q", line, told)
		}
	}
	out.told = nil
	s.statement(`- {"aggregate":"c","pipeline":[{"$out":"out"}],"cursor":{}}`)
	if len(out.told) != 0 {
		t.Errorf("an $out over a collection: %q", out.told)
	}
}

// What defines or removes collections without being called so is told to auditors, and refused
// while that cannot be.
func TestAuditOfDefinitions(t *testing.T) {
	n, client := withData(t)
	run := func(text string, sequences ...command.Sequence) bson.Doc {
		body, err := bson.ParseJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		db := "test"
		if strings.HasPrefix(text, `{"applyOps"`) {
			db = "admin"
		}
		return n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: db, Body: body, Sequences: sequences}).Body
	}
	run(`{"insert":"c","documents":[{"_id":1}]}`)
	run(`{"insert":"d","documents":[{"_id":1}]}`)
	out := &auditFile{}
	l, err := audit.New(audit.Options{Output: out, BSON: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.Dispatcher.Audit = l
	ops := func(o string) string {
		return `{"applyOps":[{"op":"c","ns":"test.$cmd","o":` + o + `}]}`
	}
	index := bson.MustParse(`{"key":{"at":1},"name":"at_1","expireAfterSeconds":1}`)
	for _, c := range []struct {
		line      string
		sequences []command.Sequence
		want      string
	}{
		{`{"createIndexes":"c"}`, []command.Sequence{{ID: "indexes", Docs: []bson.Doc{index}}}, "createIndex test.c"},
		{ops(`{"create":"e"}`), nil, "createCollection test.e"},
		{ops(`{"collMod":"c","index":{"name":"at_1","expireAfterSeconds":2}}`), nil, "collMod test.c"},
		{ops(`{"dropIndexes":"c","index":"at_1"}`), nil, "dropIndex test.c"},
		{ops(`{"renameCollection":"test.e","to":"test.f"}`), nil, "renameCollection test.e test.f"},
		{ops(`{"drop":"f"}`), nil, "dropCollection test.f"},
		{ops(`{"convertToCapped":"c","size":4096}`), nil, "createCollection test.tmp, renameCollection test.tmp test.c"},
		{`{"convertToCapped":"d","size":4096}`, nil, "createCollection test.tmp, renameCollection test.tmp test.d"},
		{`{"cloneCollectionAsCapped":"c","toCollection":"g","size":4096}`, nil, "createCollection test.g"},
		{`{"applyOps":[{"op":"i","ns":"test.system.views","o":{"_id":"test.v","viewOn":"c","pipeline":[]}}]}`, nil, "createCollection test.v"},
		{ops(`{"dropDatabase":1}`), nil, "dropDatabase test"},
	} {
		out.full = true
		l.Keep(nil, "expire", nil) // finds that it is
		if r := run(c.line, c.sequences...); mongoerr.Code(bson.ClampToInt64(r.Lookup("code"))) != mongoerr.OutOfDiskSpace {
			t.Errorf("%s on a full disk: %s", c.line, r)
		}
		out.full, out.told = false, nil
		if r := run(c.line, c.sequences...); !r.Lookup("ok").Truthy() {
			t.Errorf("%s: %s", c.line, r)
		}
		told := regexp.MustCompile(`tmp\w+\.convertToCapped\.\w+`).ReplaceAllString(strings.Join(out.told, ", "), "tmp")
		if told != c.want {
			t.Errorf("%s: told %q, want %q", c.line, told, c.want)
		}
	}
}
