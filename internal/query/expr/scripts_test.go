package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestScripts runs testdata. A line of a script's input is an expression; after
// " @ " follows the document it is evaluated for. The output of a line is the
// type and the text of the result, or the error (a NUL in it is written \0).
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.SplitSeq(td.Input, "\n") {
				source, doc, _ := strings.Cut(line, " @ ")
				v, err := evalText(source, doc)
				switch {
				case err != nil:
					e := mongoerr.From(err)
					fmt.Fprintf(&out, "%d: %s\n", e.Code, e.Message)
				case v.IsMissing():
					fmt.Fprintln(&out, "missing")
				default:
					fmt.Fprintf(&out, "%s %s\n", v.Type, v)
				}
			}
			return strings.ReplaceAll(out.String(), "\x00", `\0`)
		})
	})
}

// evalText evaluates an expression for a document, and checks that the form
// explain prints gives the same.
func evalText(source, doc string) (bson.Value, error) {
	root := bson.Empty
	if doc != "" {
		root = bson.MustParse(doc)
	}
	v, err := evalFor(bson.MustParseValue(source), root, true)
	return v, err
}

func evalFor(source bson.Value, root bson.Doc, again bool) (bson.Value, error) {
	e, err := Parse(source, nil)
	if err != nil {
		return bson.Value{}, err
	}
	v, err := e.Eval(NewEnv(0).WithRoot(root))
	if err != nil || !again {
		return v, err
	}
	w, err := evalFor(Serialize(e), root, false)
	if err != nil || w.Type != v.Type || !bson.Equal(v, w) && !v.IsNaN() {
		return v, fmt.Errorf("%s becomes %s by way of %s: %w", v, w, Serialize(e), err)
	}
	return v, nil
}

func FuzzEval(f *testing.F) {
	for _, s := range []string{
		`{$concat: ["a", "$s"]}`, `{$split: ["$s", "é"]}`, `{$regexFindAll: {input: "$s", regex: "(é)|x*", options: "i"}}`,
		`{$substrCP: ["$s", 1, 2]}`, `{$replaceAll: {input: "$s", find: "", replacement: "-"}}`,
		`{$trim: {input: "$s", chars: "é"}}`, `{$indexOfCP: ["$s", "é", 0, 2]}`, `{$dateToParts: {date: "$d", timezone: "Europe/Paris"}}`,
		`{$dateToString: {date: "$d", format: "%Y %j %U %V %z %Z %b", timezone: "+05:30"}}`,
		`{$year: "$d"}`, `{$type: "$s"}`, `{$add: ["$n", 1]}`,
	} {
		f.Add(s, `{s: "aéx", d: {$date: 0}, n: 1.5}`)
	}
	f.Fuzz(func(t *testing.T, source, doc string) {
		v, err := bson.ParseJSONValue(source)
		if err != nil {
			return
		}
		d, err := bson.ParseJSON(doc)
		if err != nil {
			return
		}
		e, err := Parse(v, nil)
		if err != nil {
			return
		}
		_, _ = e.Eval(NewEnv(0).WithRoot(d))
		Serialize(e)
	})
}
