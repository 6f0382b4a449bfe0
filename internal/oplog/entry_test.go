package oplog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestDocuments holds the form of the oplog:
//
//	diff          a document, and what it becomes, a line each: the delta
//	entry time=N  operations, one a line: kind, namespace, document and, of an update,
//	              the one before, and of what expired its ids; or note and a document; before them session, the
//	              lsid and the number: the entry's documents
func TestDocuments(t *testing.T) {
	kinds := map[string]catalog.OperationKind{
		"insert": catalog.OpInsert, "update": catalog.OpUpdate, "replace": catalog.OpReplace, "delete": catalog.OpDelete, "range": catalog.OpRange, "command": catalog.OpCommand, "expired": catalog.OpExpired,
	}
	datadriven.RunTest(t, "testdata/documents", func(t *testing.T, d *datadriven.TestData) string {
		lines := strings.Split(d.Input, "\n")
		if d.Cmd == "diff" {
			diff, ok := Diff(bson.MustParse(lines[0]), bson.MustParse(lines[1]))
			if !ok {
				return "none\n"
			}
			return diff.String() + "\n"
		}
		e := Entry{Term: 3}
		d.ScanArgs(t, "time", &e.Time)
		e.Time |= 1700000000 << 32
		var all []catalog.Operation
		for i, line := range lines {
			f := strings.SplitN(line, " | ", 4)
			switch f[0] {
			case "session":
				e.Session = catalog.Session{ID: bson.MustParse(f[1]), Txn: 7}
				continue
			case "note":
				e.Note = bson.MustParse(f[1])
				continue
			}
			db, coll, _ := strings.Cut(f[1], ".")
			op := catalog.Operation{Kind: kinds[f[0]], Statement: -1, Namespace: schema.Namespace{DB: db, Coll: coll}, Doc: bson.MustParse(f[2])}
			if coll != "" {
				op.UUID = catalog.UUID{0xaa, 0xbb}
			}
			if e.Session.ID != nil {
				op.Statement = int32(i - 1)
			}
			if op.Kind == catalog.OpExpired {
				op.IDs = bson.MustParse(f[3]).Lookup("ids").Doc().Slice()
			} else if len(f) > 3 {
				op.Old = bson.MustParse(f[3])
			}
			all = append(all, op)
		}
		e.SetOperations(all)
		var out strings.Builder
		for i := range e.Len() {
			fmt.Fprintln(&out, e.Document(new(bson.Builder), i))
		}
		return out.String()
	})
}
