package update

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// foldCase is a collation for tests: case says nothing.
type foldCase struct{}

func (foldCase) Compare(a, b string) int {
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}
func (foldCase) AppendKey(dst []byte, s string) []byte { return append(dst, strings.ToLower(s)...) }

const now = 1700000000000

// script is the input of one datadriven test: the update, then options and
// documents, one on each line.
type script struct {
	u      *Update
	filter *match.Filter
	docs   []bson.Doc
	types  bool // print types
}

func parseScript(td *datadriven.TestData) (*script, error) {
	opts := &Options{Expr: &expr.Options{}}
	if td.HasArg("fold") {
		opts.Collator = foldCase{}
	}
	lines := strings.Split(td.Input, "\n")
	s := &script{types: td.HasArg("types")}
	for _, line := range lines[1:] {
		name, rest, _ := strings.Cut(line, " ")
		switch name {
		case "filter":
			f, err := match.Parse(bson.MustParse(rest), nil)
			if err != nil {
				return nil, err
			}
			s.filter = f
		case "arrayFilters":
			opts.ArrayFilters = []bson.Doc{}
			for v := range bson.MustParseValue(rest).Doc().Values() {
				opts.ArrayFilters = append(opts.ArrayFilters, v.Doc())
			}
		case "constants":
			opts.Constants = bson.MustParse(rest)
		default:
			s.docs = append(s.docs, bson.MustParse(line))
		}
	}
	var err error
	if td.Cmd == "oplog" {
		s.u, err = ParseOplog(bson.MustParse(lines[0]))
		return s, err
	}
	s.u, err = Parse(bson.MustParseValue(lines[0]), opts)
	return s, err
}

func errorText(err error) string {
	e := mongoerr.From(err)
	return fmt.Sprintf("%d: %s\n", e.Code, e.Message)
}

func (s *script) print(d bson.Doc) string {
	if err := bson.Validate(d, bson.MaxMessageDepth); err != nil {
		return "invalid: " + err.Error() + "\n"
	}
	if s.types {
		return string(d.AppendJSON(nil, bson.CanonicalJSON)) + "\n"
	}
	return d.String() + "\n"
}

func (s *script) apply() string {
	var out strings.Builder
	for _, d := range s.docs {
		c := &Context{Env: expr.NewEnv(now)}
		if s.filter != nil {
			ok, index, err := s.filter.MatchArrayIndex(d, nil)
			if err != nil || !ok {
				fmt.Fprintln(&out, "no match", err)
				continue
			}
			c.ArrayIndex = index
		}
		next, changed, err := s.u.Apply(d, c)
		switch {
		case err != nil:
			out.WriteString(errorText(err))
		case !changed:
			fmt.Fprintln(&out, "unchanged")
		default:
			out.WriteString(s.print(next))
		}
	}
	return out.String()
}

// TestScripts runs testdata/scripts. The first line of the input is an update.
// Of the others, "filter {…}", "arrayFilters […]" and "constants {…}" are
// options; the rest are documents.
//
//	apply    what becomes of each document ("types" prints Extended JSON)
//	oplog    what becomes of each document by the update of an entry of an oplog
//	upsert   the document that is inserted
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			s, err := parseScript(td)
			if err != nil {
				return errorText(err)
			}
			switch td.Cmd {
			case "upsert":
				d, err := s.u.Upsert(s.filter, &Context{Env: expr.NewEnv(now)})
				if err != nil {
					return errorText(err)
				}
				if id := d.Lookup("_id"); id.Type == bson.TypeObjectID {
					d = new(bson.Builder).String("_id", "new").Fields(without(d, "_id")).Finish()
				}
				return s.print(d)
			}
			return s.apply()
		})
	})
}

func without(d bson.Doc, name string) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for it := d.Iter(); it.Next(); {
		if it.Key != name {
			b.Value(it.Key, it.Value)
		}
	}
	return b.Finish()
}
