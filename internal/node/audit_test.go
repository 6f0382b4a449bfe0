package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// auditFile is an audit.Output that can be full.
type auditFile struct {
	full bool
	told []string // "atype ns"
}

func (f *auditFile) Write(event []byte) error {
	if f.full {
		return errors.New("no space left on device")
	}
	d := bson.Doc(event)
	if ns := d.Lookup("param").Doc().Lookup("ns"); !ns.IsMissing() {
		f.told = append(f.told, d.Lookup("atype").Str()+" "+ns.Str())
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
