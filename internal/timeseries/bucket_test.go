package timeseries

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestScripts runs testdata/*:
//
//	pack [meta=…]   measurements, one a line → the bucket's control and meta,
//	                then what comes back
//	start rounding=s span=s   times, one a line → where their buckets begin
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "pack":
				return runPack(t, d)
			case "start":
				return runStart(t, d)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

func runPack(t *testing.T, d *datadriven.TestData) string {
	o := &schema.Timeseries{TimeField: "t", MetaField: "m", RoundingSeconds: 60, MaxSpanSeconds: 3600}
	var ms []bson.Doc
	for line := range strings.Lines(d.Input) {
		m, err := bson.ParseJSON(line)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	start := Start(ms[0].Lookup("t").Date(), o)
	doc := Pack(ID(start), start, NormalMeta(ms[0].Lookup("m")), ms, o)
	var out strings.Builder
	fmt.Fprintf(&out, "control %s\nmeta %s\n", doc.Lookup("control"), doc.Lookup("meta"))
	b, err := Open(doc, o)
	if err != nil {
		return err.Error()
	}
	back, err := b.Rows(nil)
	if err != nil {
		return err.Error()
	}
	for i := range back.Count {
		fmt.Fprintln(&out, back.Doc(i))
	}
	return out.String()
}

func runStart(t *testing.T, d *datadriven.TestData) string {
	o := &schema.Timeseries{}
	d.ScanArgs(t, "rounding", &o.RoundingSeconds)
	d.ScanArgs(t, "span", &o.MaxSpanSeconds)
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		v, err := bson.ParseJSON("{t: " + strings.TrimSpace(line) + "}")
		if err != nil {
			t.Fatal(err)
		}
		at := v.Lookup("t").Date()
		start := Start(at, o)
		fmt.Fprintf(&out, "%s takes %v, and a span later %v\n", new(bson.Builder).Date("start", start).Finish(), Accepts(start, at, o), Accepts(start, start+o.MaxSpanSeconds*1000, o))
	}
	return out.String()
}
