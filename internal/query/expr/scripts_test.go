package expr

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestScripts runs testdata. A line of a script's input is an expression; after
// " @ " follows the document it is evaluated for. The output of a line is the
// type and the text of the result, or the error (a NUL in it is written \0).
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") { // FuzzEval's
			return
		}
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

// FuzzEval looks for expressions that panic or never end.
func FuzzEval(f *testing.F) {
	for _, s := range []string{
		`{$concat: ["a", "$s"]}`, `{$split: ["$s", "é"]}`, `{$regexFindAll: {input: "$s", regex: "(é)|x*", options: "i"}}`,
		`{$substrCP: ["$s", 1, 2]}`, `{$replaceAll: {input: "$s", find: "", replacement: "-"}}`,
		`{$trim: {input: "$s", chars: "é"}}`, `{$indexOfCP: ["$s", "é", 0, 2]}`, `{$dateToParts: {date: "$d", timezone: "Europe/Paris"}}`,
		`{$dateToString: {date: "$d", format: "%Y %j %U %V %z %Z %b", timezone: "+05:30"}}`,
		`{$year: "$d"}`, `{$type: "$s"}`, `{$add: ["$n", 1]}`,
		`{$convert: {input: "$s", to: {type: "binData", subtype: 4}, format: "uuid", onError: "$n", onNull: 1}}`,
		`{$toDate: "Tue, 01 Jan 2024 10:30 pm +02:00"}`, `{$dateFromString: {dateString: "$s", format: "%G-W%V-%u %z%Z%L%j%B"}}`,
		`{$toDecimal: "1e-6200"}`, `{$toDouble: "+0x1.8p1"}`, `{$toString: "$n"}`, `{$atan2: ["$n", {$numberDecimal: "-1E+6000"}]}`,
		`{$dateAdd: {startDate: "$d", unit: "quarter", amount: {$numberLong: "-9223372036854775808"}, timezone: "Europe/Paris"}}`,
		`{$dateDiff: {startDate: "$d", endDate: {$date: {$numberLong: "9223372036854775807"}}, unit: "week", startOfWeek: "fri"}}`,
		`{$dateTrunc: {date: "$d", unit: "month", binSize: 7, timezone: "-09:30"}}`,
		`{$dateFromParts: {isoWeekYear: 2020, isoWeek: -32768, second: "$n"}}`,
		`{$map: {input: {$range: [0, 9]}, in: {$reduce: {input: "$$this", initialValue: [], in: {$zip: {inputs: ["$$value"]}}}}}}`,
		`{$switch: {branches: [{case: {$in: ["$s", ["a"]]}, then: {$setUnion: [["$s"], [1]]}}], default: {$meta: "textScore"}}}`,
		`{$let: {vars: {x: "$$ROOT"}, in: {$mergeObjects: ["$$x", {a: {$objectToArray: "$$x"}}]}}}`,
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		env := NewEnv(0).WithRoot(d)
		env.Watch(ctx)
		_, _ = e.Eval(env)
		Serialize(e)
		new(Deps).Add(e)
	})
}
