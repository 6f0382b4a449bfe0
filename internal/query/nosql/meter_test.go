package nosql

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// given runs a query over one item, with numbers and texts as parameters, and prepare.
func given(t *testing.T, query string, item bson.Doc, params map[string]bson.Value, prepare func(*Run)) (rows []bson.Value, err error) {
	t.Helper()
	q, err := Parse(query, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := q.Start(time.UnixMilli(0), func(v bson.Value) bool { rows = append(rows, v); return true })
	prepare(run)
	if q.NeedsItems() {
		if _, err := run.Add(item); err != nil {
			return rows, err
		}
	}
	return rows, run.Finish()
}

// doubled is a query whose one row is its item 2^levels times.
func doubled(levels int) string {
	from := "c"
	for i := range levels {
		of := "c"
		if i > 0 {
			of = fmt.Sprintf("v%d", i-1)
			from += " " + of
		}
		from = fmt.Sprintf("(SELECT VALUE [%s,%s] FROM %s)", of, of, from)
	}
	return "SELECT VALUE ARRAY_LENGTH(x) FROM " + from + " x"
}

// TestMadeValuesAreBounded: what an expression makes has a bound, which all that is made for a
// row has together, and is of the operation's memory.
func TestMadeValuesAreBounded(t *testing.T) {
	item := bson.MustParse(`{id: "1", list: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}`)
	many := bson.Array(make([]bson.Value, 100)...)
	text := bson.String(strings.Repeat("x", 64<<10))
	params := map[string]bson.Value{"p": many, "s": text}
	repeated := func(what string, n int) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	for _, query := range []string{
		doubled(21),
		"SELECT VALUE LENGTH(x[0]) FROM (SELECT VALUE [" + repeated("@s", 2000) + "]) x",
		"SELECT VALUE ARRAY_LENGTH([ARRAY(SELECT VALUE REPLICATE('x',5000) FROM i IN (SELECT VALUE @p) JOIN j IN (SELECT VALUE @p))" +
			",ARRAY(SELECT VALUE REPLICATE('y',5000) FROM i IN (SELECT VALUE @p) JOIN j IN (SELECT VALUE @p))" +
			",ARRAY(SELECT VALUE REPLICATE('z',5000) FROM i IN (SELECT VALUE @p) JOIN j IN (SELECT VALUE @p))])",
		"SELECT VALUE ARRAY_LENGTH(ARRAY_CONCAT(" + repeated("[@s]", 2000) + "))",
		"SELECT VALUE ARRAY_LENGTH(STRINGSPLIT(CONCAT(" + repeated("@s", 60) + "), 'x'))",
		"SELECT VALUE ARRAY_LENGTH(OBJECTTOARRAY({" + fields(30) + "a: 1}, CONCAT(" + repeated("@s", 60) + ")))",
	} {
		rows, err := given(t, query, item, params, func(*Run) {})
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%.60s: %d rows, %v", query, len(rows), err)
		}
		var account memory.Account
		account.Open(memory.NewBudget(memory.MinBudget))
		others := account.Hold(nil)
		for n := int(memory.MinBudget); others.Set(n) != nil; n -= 1 << 20 {
		}
		_, err = given(t, query, item, params, func(run *Run) { run.Hold(account.Hold(nil)) })
		if !mongoerr.Is(err, mongoerr.ExceededMemoryLimit) && !strings.Contains(fmt.Sprint(err), "more than") {
			t.Errorf("%.60s, without memory: %v", query, err)
		}
		account.Close()
	}
}

func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d: 1,", i)
	}
	return b.String()
}

// TestMadeValuesEnd: what was made for a row, and what a subquery kept, counts no more once the
// row is handed on.
func TestMadeValuesEnd(t *testing.T) {
	item := bson.MustParse(`{id: "1", s: "` + strings.Repeat("x", 200<<10) + `", list: ["` + strings.Repeat("y", 190<<10) + `", "b"]}`)
	for _, query := range []string{
		"SELECT VALUE [c.s, c.s] FROM c",
		"SELECT c.s AS a, c.s AS b FROM c WHERE CONCAT(c.s, 'x') != ''",
		"SELECT VALUE ARRAY(SELECT VALUE x FROM x IN c.list ORDER BY x) FROM c",
		"SELECT VALUE ARRAY(SELECT DISTINCT VALUE x FROM x IN c.list) FROM c",
		"SELECT VALUE (SELECT VALUE [x] FROM x IN c.list) FROM c",
		"SELECT VALUE [r] FROM (SELECT VALUE [c.s] FROM c) r",
		"SELECT VALUE COUNT(1) FROM c WHERE EXISTS(SELECT VALUE [x] FROM x IN c.list WHERE [x] = [x])",
		"SELECT VALUE [x] FROM c JOIN x IN (SELECT VALUE [c.s])",
	} {
		q, err := Parse(query, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		run := q.Start(time.UnixMilli(0), func(bson.Value) bool { rows++; return true })
		for range 560 {
			if _, err := run.Add(item); err != nil {
				t.Fatalf("%s: after %d rows: %v", query, rows, err)
			}
		}
		if err := run.Finish(); err != nil || rows == 0 {
			t.Errorf("%s: %d rows, %v", query, rows, err)
		}
	}
}

// TestRowsOfAnItemEnd: the same between the rows of one item, and of one run, in the operation's memory.
func TestRowsOfAnItemEnd(t *testing.T) {
	item := bson.MustParse(`{id: "1", s: "` + strings.Repeat("x", 200<<10) + `", list: [` + strings.TrimSuffix(strings.Repeat("1, ", 1200), ", ") + `]}`)
	for _, query := range []string{
		"SELECT VALUE LENGTH([c.s, c.s][0]) FROM c JOIN x IN c.list",
		"SELECT VALUE LENGTH(ARRAY(SELECT VALUE c.s FROM y IN (SELECT VALUE [1]) ORDER BY c.s)[0]) FROM c JOIN x IN c.list",
	} {
		var account memory.Account
		account.Open(memory.NewBudget(memory.MinBudget))
		if rows, err := given(t, query, item, nil, func(run *Run) { run.Hold(account.Hold(nil)) }); err != nil || len(rows) != 1200 {
			t.Errorf("%s: %d rows, %v", query, len(rows), err)
		}
		account.Close()
	}
}

// TestLongFunctionsEnd: functions that look at many values take time in proportion, and what may
// take long asks whether it is to end.
func TestLongFunctionsEnd(t *testing.T) {
	const n = 30_000
	numbers := make([]bson.Value, n)
	object := new(bson.Builder)
	for i := range numbers {
		numbers[i] = bson.Int32(int32(i))
		object.Int32(fmt.Sprint("f", i), 1)
	}
	params := map[string]bson.Value{"a": bson.Array(numbers...), "o": bson.Document(object.Finish())}
	begun := time.Now()
	for query, want := range map[string]string{
		"SELECT VALUE ARRAY_LENGTH(SETUNION(@a, @a))":                                  fmt.Sprint(n),
		"SELECT VALUE ARRAY_LENGTH(SETINTERSECT(@a, @a))":                              fmt.Sprint(n),
		"SELECT VALUE ARRAY_LENGTH(SETDIFFERENCE(@a, [1, 2]))":                         fmt.Sprint(n - 2),
		"SELECT VALUE SETEQUAL(@a, SETUNION(@a, []))":                                  "true",
		"SELECT VALUE @o = @o AND ARRAY_CONTAINS([@o], @o, true)":                      "true",
		"SELECT VALUE ARRAY_LENGTH(SETUNION([1, '1', 1.0, null, [1], {a: 1}], [[1]]))": "5",
	} {
		rows, err := given(t, query, nil, params, func(*Run) {})
		if err != nil || len(rows) != 1 || string(AppendJSON(nil, rows[0])) != want {
			t.Errorf("%s: %v %v", query, rows, err)
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("they took %v", took)
	}
	ended := errors.New("ended")
	params = map[string]bson.Value{"s": bson.String(strings.Repeat("a", 60_000)), "p": bson.String("%" + strings.Repeat("a", 6000) + "b")}
	if rows, err := given(t, "SELECT VALUE @s LIKE @p", nil, params, func(run *Run) { run.Until(func() error { return ended }) }); err != ended {
		t.Errorf("LIKE: %v %v", rows, err)
	}
	list := bson.MustParse(`{list: [` + strings.TrimSuffix(strings.Repeat("1, ", 200), ", ") + `]}`)
	const joined = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list"
	if rows, err := given(t, joined, list, nil, func(run *Run) { run.Within(1 << 20) }); err == nil || !strings.Contains(err.Error(), "steps") {
		t.Errorf("8,000,000 steps where 2^20 are allowed: %v %v", rows, err)
	}
	if rows, err := given(t, joined, list, nil, func(run *Run) { run.Within(1 << 24) }); err != nil {
		t.Errorf("8,000,000 steps where 2^24 are allowed: %v %v", rows, err)
	}
}

// TestIdentity: two values have one identity where they are equal, and nowhere else.
func TestIdentity(t *testing.T) {
	var vs []bson.Value
	for _, text := range []string{
		`0`, `-0.0`, `1`, `1.5`, `1e300`, `9007199254740992`, `9007199254740993`, `"1"`, `""`, `"a"`, `null`, `true`, `false`, `[]`, `[1]`, `[1,1]`, `["1"]`, `[[1]]`,
		`[null]`, `{}`, `{"a":1}`, `{"a":1,"b":[1.0]}`, `{"b":[1],"a":1}`, `{"a":{"b":1}}`, `{"a,b":1}`, `[",1"]`, `["1,1"]`,
	} {
		v, err := ParseJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		vs = append(vs, v)
	}
	vs = append(vs, bson.Value{}, bson.Double(1), bson.Double(9007199254740992))
	for _, a := range vs {
		for _, b := range vs {
			if equal(a, b) != bytes.Equal(identity(nil, a), identity(nil, b)) {
				t.Errorf("%s and %s: equal is %v", a, b, equal(a, b))
			}
		}
	}
}

// TestNoNameHasAZero: OBJECTTOARRAY makes no object of which a name ends in the middle.
func TestNoNameHasAZero(t *testing.T) {
	for _, query := range []string{`SELECT VALUE OBJECTTOARRAY({a: 1}, "k\u0000x")`, `SELECT VALUE OBJECTTOARRAY({a: 1}, "k", "v\u0000x")`} {
		if rows, err := given(t, query, nil, nil, func(*Run) {}); err != nil || len(rows) != 0 {
			t.Errorf("%s: %v %v", query, rows, err)
		}
	}
}

// TestLongPath: the path of a property takes memory in proportion to its length.
func TestLongPath(t *testing.T) {
	q, err := Parse("SELECT VALUE 1 FROM c WHERE c"+strings.Repeat(".a", 100_000)+" = 1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, paths := q.Filter()
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; len(paths) != 1 || made > 100<<20 {
		t.Errorf("%d paths, %d MB", len(paths), made>>20)
	}
}
