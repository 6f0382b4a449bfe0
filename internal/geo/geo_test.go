package geo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func text(err error) string {
	e := mongoerr.From(err)
	return fmt.Sprintf("%d: %s", e.Code, e.Message)
}

// TestScripts runs testdata/scripts. The first line of a script's input is {name:
// shape} as in a filter, or for distance a point; the lines after it are stored
// geometries.
//
//	parse     whether each line is a geometry
//	within    which lie within the shape
//	meets     which the shape intersects
//	distance  how far they are
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			lines := strings.Split(td.Input, "\n")
			var out strings.Builder
			if td.Cmd == "parse" {
				for _, line := range lines {
					g, err := ParseStored(bson.MustParseValue(line))
					if err != nil {
						fmt.Fprintln(&out, text(err))
						continue
					}
					fmt.Fprintf(&out, "%s, crs %d, points %d, lines %d, polygons %d, cells %d\n", g.kind, g.crs, len(g.points), len(g.lines), len(g.polygons), cells(g))
				}
				return out.String()
			}
			ask, err := asked(td.Cmd, lines[0])
			if err != nil {
				return text(err) + "\n"
			}
			for _, line := range lines[1:] {
				g, err := ParseStored(bson.MustParseValue(line))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				fmt.Fprintln(&out, ask(g))
			}
			return out.String()
		})
	})
}

func cells(g *Geometry) int {
	if !g.Supports(Sphere) || g.crs == Strict {
		return 0
	}
	return len(g.Cells())
}

func asked(cmd, line string) (func(*Geometry) string, error) {
	if cmd == "distance" {
		p, err := ParsePoint(bson.MustParseValue(line))
		return func(g *Geometry) string {
			d, ok := g.Distance(p)
			if !ok {
				return "none"
			}
			return bson.Double(d).String()
		}, err
	}
	name, v := bson.MustParse(line).First()
	shape, err := ParseQuery(name, v)
	if err != nil {
		return nil, err
	}
	if shape.crs == Strict {
		shape = shape.InSphere()
	}
	return func(g *Geometry) string {
		if cmd == "within" {
			return fmt.Sprint(shape.Contains(g))
		}
		return fmt.Sprint(shape.Intersects(g))
	}, nil
}
