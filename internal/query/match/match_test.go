package match

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// foldCase is a collation for tests: case says nothing.
type foldCase struct{}

func (foldCase) Compare(a, b string) int {
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}
func (foldCase) AppendKey(dst []byte, s string) []byte { return append(dst, strings.ToLower(s)...) }

func text(err error) string {
	e := mongoerr.From(err)
	return fmt.Sprintf("%d: %s\n", e.Code, e.Message)
}

// TestScripts runs testdata/scripts. The first line of a script's input is a filter,
// the lines after it are documents (for value: values).
//
//	match   which documents match, and through which array element
//	value   which values match as the first field of the filter's paths
//	parsed  the normal form
//	upsert  the equalities
//	explain why the document fails
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			opts := &Options{}
			if td.HasArg("fold") {
				opts.Collator = foldCase{}
			}
			lines := strings.Split(td.Input, "\n")
			f, err := Parse(bson.MustParse(lines[0]), opts)
			if err != nil {
				return text(err)
			}
			var out strings.Builder
			switch td.Cmd {
			case "parsed":
				fmt.Fprintln(&out, Serialize(f.Root()))
			case "upsert":
				list, err := f.Equalities()
				if err != nil {
					return text(err)
				}
				for _, e := range list {
					fmt.Fprintf(&out, "%s = %s\n", e.Path, e.Value)
				}
			default:
				for _, line := range lines[1:] {
					out.WriteString(runLine(td.Cmd, f, line))
				}
			}
			return out.String()
		})
	})
}

func runLine(cmd string, f *Filter, line string) string {
	switch cmd {
	case "value":
		ok, err := f.MatchValue(bson.MustParseValue(line), nil)
		if err != nil {
			return text(err)
		}
		return fmt.Sprintf("%v %s\n", ok, line)
	case "explain":
		doc := bson.MustParse(line)
		if ok, err := f.Match(doc); ok {
			return fmt.Sprintf("matches %v\n", err)
		}
		info, err := f.ExplainFailure(doc, nil)
		if err != nil {
			return text(err)
		}
		return info.Lookup("details").String() + "\n"
	}
	doc := bson.MustParse(line)
	ok, index, err := f.MatchArrayIndex(doc, nil)
	if err != nil {
		return text(err)
	}
	again, err := f.Match(doc)
	if ok != again || err != nil {
		return fmt.Sprintf("Match and MatchArrayIndex differ: %v %v\n", again, err)
	}
	if index != "" {
		index = " [" + index + "]"
	}
	return fmt.Sprintf("%v%s %s\n", ok, index, line)
}

// TestTextThatIsNotUTF8 holds that it is found by what it begins with, as an index finds it by its bytes, and by
// nothing else.
func TestTextThatIsNotUTF8(t *testing.T) {
	doc := new(bson.Builder).String("s", "a.\xff").Finish()
	for _, tc := range []struct {
		pattern, options string
		want             bool
	}{
		{"^a", "", true}, {`\Aa\.`, "", true}, {"^a", "s", true}, {"^b", "", false}, {"^a.", "", false}, {"^a", "i", false}, {"^a", "m", false}, {"a", "", false}, {"^", "", false},
	} {
		n, err := NewRegex("s", tc.pattern, tc.options)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := FilterOf(n).Match(doc); err != nil || got != tc.want {
			t.Errorf("/%s/%s: %t, %v", tc.pattern, tc.options, got, err)
		}
	}
}
