package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func parse(t testing.TB, text string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

func lines(input string) []string { return strings.Split(strings.TrimSpace(input), "\n") }

func errorText(err error) string {
	e := mongoerr.From(err)
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}

// testIndex makes an index from a specification as createIndexes would.
func testIndex(t testing.TB, text string) *Index {
	t.Helper()
	spec := parse(t, text)
	if !spec.Has("name") {
		spec = new(bson.Builder).Fields(spec).String("name", "i").Finish()
	}
	spec, err := ParseIndexSpec(Namespace{"db", "c"}, spec, false)
	if err != nil {
		t.Fatal(err)
	}
	build, _, err := ResolveIndexes(Namespace{"db", "c"}, &Options{}, nil, []bson.Doc{spec})
	if err != nil {
		t.Fatal(err)
	}
	return build[0]
}

// TestKeys: "index" sets the specification, "keys" prints the keys of each
// document of its input.
func TestKeys(t *testing.T) {
	datadriven.Walk(t, "testdata/keys", func(t *testing.T, path string) {
		var ix *Index
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "index":
				ix = testIndex(t, d.Input)
				return ix.Spec.String()
			case "keys":
				var out strings.Builder
				for _, line := range lines(d.Input) {
					fmt.Fprintln(&out, keysText(ix, parse(t, line)))
				}
				return out.String()
			}
			return "unknown command"
		})
	})
}

func keysText(ix *Index, doc bson.Doc) string {
	keys, paths, err := ix.Keys(doc, nil)
	if err != nil {
		return errorText(err)
	}
	var out strings.Builder
	for i, k := range keys {
		if i > 0 {
			out.WriteString(" | ")
		}
		vs, rest, err := keystring.Decode(k.Bytes, k.TypeBits, ix.Directions())
		if err != nil || len(rest) > 0 {
			return fmt.Sprintf("damaged key: %v, %x left", err, rest)
		}
		for j, v := range vs {
			if j > 0 {
				out.WriteString(", ")
			}
			out.WriteString(v.String())
		}
	}
	if len(keys) == 0 {
		out.WriteString("none")
	}
	if paths != nil {
		fmt.Fprintf(&out, "  multikey %b", paths)
	}
	return out.String()
}

// TestIndexNames holds that no index has a name that a reply could not have as
// the name of a field.
func TestIndexNames(t *testing.T) {
	spec := new(bson.Builder).Doc("key", bson.MustParse("{a: 1}")).String("name", "a\x00b").Finish()
	if _, err := ParseIndexSpec(Namespace{"db", "c"}, spec, false); !mongoerr.Is(err, mongoerr.CannotCreateIndex) {
		t.Errorf("a zero byte: %v", err)
	}
}
