package nosql

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestScripts runs testdata/scripts: `items` sets the container, one JSON
// object a line; `query [params={…}]` prints rows, or the error; `filter` what
// an index may be asked first.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var items []bson.Doc
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "items":
				items = nil
				for line := range strings.Lines(d.Input) {
					v, err := ParseJSON([]byte(line))
					if err != nil {
						t.Fatal(err)
					}
					items = append(items, v.Doc())
				}
				return fmt.Sprintf("%d items\n", len(items))
			case "query":
				return runQueries(t, d, items)
			case "filter":
				q, err := Parse(d.Input, params(t, d), nil)
				if err != nil {
					return err.Error() + "\n"
				}
				filter, paths := q.Filter()
				return fmt.Sprintln(filter, paths)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

func params(t *testing.T, d *datadriven.TestData) map[string]bson.Value {
	ps := map[string]bson.Value{}
	for _, a := range d.CmdArgs {
		v, err := ParseJSON([]byte(strings.Join(a.Vals, ",")))
		if err != nil {
			t.Fatal(err)
		}
		ps[a.Key] = v
	}
	return ps
}

// runQueries runs each line as a query by itself.
func runQueries(t *testing.T, d *datadriven.TestData, items []bson.Doc) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if strings.Count(d.Input, "\n") > 1 {
			fmt.Fprintf(&out, "%s\n", line)
		}
		rows, err := run(line, params(t, d), items)
		for _, r := range rows {
			fmt.Fprintf(&out, "  %s\n", r)
		}
		if err != nil {
			fmt.Fprintf(&out, "  %v\n", err)
		}
	}
	return out.String()
}

func run(text string, ps map[string]bson.Value, items []bson.Doc) (rows []string, err error) {
	q, err := Parse(text, ps, nil)
	if err != nil {
		return nil, err
	}
	r := q.Start(time.UnixMilli(1_700_000_000_000), func(v bson.Value) bool {
		rows = append(rows, string(AppendJSON(nil, v)))
		return true
	})
	if q.NeedsItems() {
		for _, it := range items {
			more, err := r.Add(it)
			if err != nil {
				return rows, err
			}
			if !more {
				break
			}
		}
	}
	return rows, r.Finish()
}

// FuzzParse throws text at the parser and runs what it takes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SELECT * FROM c WHERE c.a = 1 AND c['b'] LIKE 'x%' ORDER BY c.a DESC OFFSET 1 LIMIT 2",
		"SELECT VALUE COUNT(1) FROM c JOIN x IN c.tags WHERE EXISTS(SELECT VALUE 1 FROM y IN c.tags)",
		"SELECT c.a, SUM(c.n) AS s FROM c GROUP BY c.a",
		"SELECT TOP 1 {a: [1, -2.5e3, 'x\\u0041'], b: c.x ?? null} FROM c",
		"SELECT VALUE DateTimeAdd('mm', 1, '2020-01-31') || Concat('a', Upper('b'))",
	} {
		f.Add(s)
	}
	item, err := ParseJSON([]byte(`{"id":"1","a":1,"b":"xy","n":2.5,"tags":["u","v"],"o":{"p":null}}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		run(s, nil, []bson.Doc{item.Doc()})
	})
}

func BenchmarkRun(b *testing.B) {
	item, err := ParseJSON([]byte(`{"id":"1","pk":"p","a":1,"b":"xy","n":2.5,"tags":["u","v"],"o":{"p":null}}`))
	if err != nil {
		b.Fatal(err)
	}
	q, err := Parse("SELECT c.id, c.n FROM c WHERE c.pk = 'p' AND c.a >= 1", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := q.Start(time.Time{}, func(bson.Value) bool { return true })
		for range 100 {
			if _, err := r.Add(item.Doc()); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzJSON compares what is taken for JSON, and what comes out again, with the
// standard library's reading.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,true,null,"x\u0041\ud83d\ude00\n"]}`, `{"a":1,"a":2}`, `01`, `"\'"`, `[1,]`, ` {} `, `-0`, "\"\xff\"", `1e999`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseJSON([]byte(s))
		if err != nil {
			limit := strings.Contains(err.Error(), "deeper") || strings.Contains(err.Error(), "out of range") || strings.Contains(err.Error(), "zero character")
			if !limit && json.Valid([]byte(s)) {
				t.Fatalf("%q is refused: %v", s, err)
			}
			return
		}
		out := AppendJSON(nil, v)
		var want, got any
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatalf("%q is taken: %v", s, err)
		}
		if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%q became %q: %v", s, out, err)
		}
	})
}

func BenchmarkParseJSON(b *testing.B) {
	text := []byte(`{"id":"item17","pk":"p17","n":17,"name":"some name here","tags":["a","b","c"],"address":{"street":"Long street 17","zip":12345},"x":1.5}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}
