package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

func parsed(text string) (*Pipeline, error) {
	v, err := bson.ParseJSONValue(text)
	if err != nil {
		return nil, err
	}
	opts := &expr.Options{}
	return Parse(v.Doc().Slice(), &Options{Expr: opts, Match: &match.Options{Expr: opts}, DB: "db", NS: Namespace{"db", "main"}})
}

func lines(p *Pipeline) string {
	var b strings.Builder
	for _, d := range p.Serialize() {
		fmt.Fprintf(&b, "  %s\n", d.AppendJSON(nil, bson.RelaxedJSON))
	}
	return b.String()
}

// TestScripts runs the scripts of testdata/scripts:
//
//	docs [name]  sets the documents of a collection, "main" without a name
//	run          runs a pipeline over main
//	optimize     prints a pipeline as it is run
//	split        prints the parts for shards and merger
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		world := collections{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "docs" {
				name := "main"
				if len(d.CmdArgs) > 0 {
					name = d.CmdArgs[0].Key
				}
				world[name] = nil
				for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
					if line != "" {
						world[name] = append(world[name], bson.MustParse(line))
					}
				}
				return ""
			}
			p, err := parsed(d.Input)
			if err != nil {
				return err.Error() + "\n"
			}
			p = p.Optimize()
			switch d.Cmd {
			case "optimize":
				return lines(p)
			case "run":
				return world.run(p)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func (c collections) run(p *Pipeline) string {
	it, err := c.Read(context.Background(), Namespace{"db", "main"}, p, &Run{Env: expr.NewEnv(1), World: c})
	if err != nil {
		return err.Error() + "\n"
	}
	defer it.Close()
	var b strings.Builder
	for {
		d, err := it.Next(context.Background())
		if err != nil {
			return b.String() + err.Error() + "\n"
		}
		if d == nil {
			return b.String()
		}
		fmt.Fprintf(&b, "%s\n", d.AppendJSON(nil, bson.RelaxedJSON))
	}
}

// TestCompat holds the list of stages in docs/compat to the registry.
func TestCompat(t *testing.T) {
	datadriven.RunTest(t, "../../../docs/compat/stages.txt", func(*testing.T, *datadriven.TestData) string {
		var b strings.Builder
		for _, name := range Names() {
			at := places[name]
			var notes []string
			for note, is := range map[string]bool{
				"first": at.first, "last": at.last, "not in $facet": at.noFacet, "not in $lookup": at.noLookup, "not in $unionWith": at.noUnion,
			} {
				if is {
					notes = append(notes, note)
				}
			}
			slices.Sort(notes)
			fmt.Fprintf(&b, "%s\n", strings.TrimSpace(fmt.Sprintf("%-30s%s", name, strings.Join(notes, ", "))))
		}
		return b.String()
	})
}
