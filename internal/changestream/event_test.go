package changestream

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// tokens finds the _id, which TestToken holds.
var tokens = regexp.MustCompile(`^\{ _id: \{ [^}]*\}, `)

// TestEvents holds the form of events:
//
//	stream NAMESPACE OPTIONS   a stream on a collection, a database, or "" for all
//	tell                       operations, one a line: kind, flags, namespace, document and
//	                           the one before, or the ids: their events
//	parse                      arguments of $changeStream, one a line: their errors
func TestEvents(t *testing.T) {
	kinds := map[string]catalog.OperationKind{
		"insert": catalog.OpInsert, "update": catalog.OpUpdate, "replace": catalog.OpReplace, "delete": catalog.OpDelete,
		"range": catalog.OpRange, "command": catalog.OpCommand, "expired": catalog.OpExpired,
	}
	var m *Maker
	datadriven.RunTest(t, "testdata/events", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		lines := strings.Split(d.Input, "\n")
		switch d.Cmd {
		case "parse":
			for _, line := range lines {
				_, err := ParseOptions(bson.MustParse(line))
				fmt.Fprintf(&out, "%d %v\n", codeOf(err), err)
			}
		case "stream":
			ns, options, _ := strings.Cut(lines[0], " ")
			db, coll, _ := strings.Cut(ns, ".")
			o, err := ParseOptions(bson.MustParse(options))
			if err != nil {
				t.Fatal(err)
			}
			scope, err := NewScope(schema.Namespace{DB: db, Coll: coll}, o)
			if err != nil {
				return fmt.Sprintf("%d %v\n", codeOf(err), err)
			}
			m = &Maker{Options: o, Scope: scope, Find: func(context.Context, *catalog.Operation, bson.Doc) (bson.Doc, error) {
				return bson.MustParse(`{_id: "looked up"}`), nil
			}}
		case "tell":
			for i, line := range lines {
				f := strings.SplitN(line, " | ", 5)
				db, coll, _ := strings.Cut(f[2], ".")
				op := &catalog.Operation{Kind: kinds[f[0]], Namespace: schema.Namespace{DB: db, Coll: coll}, Doc: bson.MustParse(f[3])}
				op.Images, op.Silent = strings.Contains(f[1], "images"), strings.Contains(f[1], "silent")
				if strings.Contains(f[1], "rule") {
					op.Rule, op.Due = "a_1", 1000
				}
				if coll != "" {
					op.UUID = catalog.UUID{0xaa}
				}
				if op.Kind == catalog.OpExpired {
					op.IDs = bson.MustParse(f[4]).Lookup("ids").Doc().Slice()
				} else if len(f) > 4 {
					op.Old = bson.MustParse(f[4])
				}
				tell(&out, m, op, uint64(i))
			}
		}
		return out.String()
	})
}

// tell prints the events of an operation.
func tell(out *strings.Builder, m *Maker, op *catalog.Operation, i uint64) {
	for of := range op.Count() {
		at := At{Operation: op, Of: of, Time: 1700000000<<32 + i}
		if m.Unlisted(op) {
			fmt.Fprintln(out, "it cannot be told")
			continue
		}
		kind := m.Kind(op)
		if kind == "" {
			fmt.Fprintln(out, "nothing")
			continue
		}
		token := m.Token(kind, at)
		e, err := m.Event(context.Background(), kind, &token, at)
		if err != nil {
			fmt.Fprintf(out, "%d %v\n", codeOf(err), err)
			continue
		}
		fmt.Fprintln(out, tokens.ReplaceAllString(e.String(), "{ "))
		if m.Invalidates(kind) {
			e, _ := m.Invalidate(&token, at)
			fmt.Fprintln(out, tokens.ReplaceAllString(e.String(), "{ "))
		}
	}
}
