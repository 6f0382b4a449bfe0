package docfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/docfile"
)

// read returns the documents of a file as JSON, one a line, and the error behind them if any.
func read(t *testing.T, path string, o docfile.Options) string {
	t.Helper()
	r, err := docfile.Open(path, o)
	if err != nil {
		return "error: " + err.Error()
	}
	defer r.Close()
	var lines []string
	for {
		doc, err := r.Next()
		if err != nil {
			return strings.Join(append(lines, "error: "+err.Error()), "\n")
		}
		if doc == nil {
			return strings.Join(lines, "\n")
		}
		lines = append(lines, string(doc.AppendJSON(nil, bson.CanonicalJSON)))
	}
}

// TestCSV holds that CSV is read as mongoimport reads it, and that what is wrong is named with its
// line.
func TestCSV(t *testing.T) {
	for name, x := range map[string]struct {
		o          docfile.Options
		text, want string
	}{
		"numbers and text": {docfile.Options{HeaderLine: true}, "\xef\xbb\xbf_id,a.b,c,a.d\n1,2147483648,1.5,\"x\ny \"\"z\"\"\"\n x,,-0,no\n",
			`{"_id":{"$numberInt":"1"},"a":{"b":{"$numberLong":"2147483648"},"d":"x\ny \"z\""},"c":{"$numberDouble":"1.5"}}
{"_id":"x","a":{"b":"","d":"no"},"c":{"$numberInt":"0"}}`},
		"blanks":   {docfile.Options{Fields: []string{"a.b", "c"}, IgnoreBlanks: true}, ",1\r\n2,\n", "{\"c\":{\"$numberInt\":\"1\"}}\n{\"a\":{\"b\":{\"$numberInt\":\"2\"}}}"},
		"rows":     {docfile.Options{Fields: []string{"a", "b"}}, "1\n1,2,3\n", "{\"a\":{\"$numberInt\":\"1\"}}\n{\"a\":{\"$numberInt\":\"1\"},\"b\":{\"$numberInt\":\"2\"},\"field2\":{\"$numberInt\":\"3\"}}"},
		"types":    {docfile.Options{HeaderLine: true, Types: true}, "a.int64(),b.date(2006-01-02),c.binary(hex),d.string(),e.decimal(),f.boolean(),g.double(),h.auto()\n1,1970-01-02,00ff,7,1.10,TRUE,1,1\n", `{"a":{"$numberLong":"1"},"b":{"$date":{"$numberLong":"86400000"}},"c":{"$binary":{"base64":"AP8=","subType":"00"}},"d":"7","e":{"$numberDecimal":"1.10"},"f":true,"g":{"$numberDouble":"1.0"},"h":{"$numberInt":"1"}}`},
		"no type":  {docfile.Options{HeaderLine: true, Types: true}, "a\n1\n", `error: the column "a" does not say its type: name.int32()`},
		"bad type": {docfile.Options{Fields: []string{"a.int32(x)"}, Types: true}, "", `error: the column "a.int32(x)": no such type: auto, binary(base64, base32 or hex), boolean, date(Go's layout), date_go(…), decimal, double, int32, int64, string`},
		"no int":   {docfile.Options{Fields: []string{"a.int32()"}, Types: true}, "1\n2147483648\n", "{\"a\":{\"$numberInt\":\"1\"}}\n" + `error: line 2: the column "a" has "2147483648": strconv.ParseInt: parsing "2147483648": value out of range`},
		"twice":    {docfile.Options{HeaderLine: true}, "a,a\n", `error: the column "a": there is another one of its name, or of the beginning of its name`},
		"in a way": {docfile.Options{HeaderLine: true}, "a,a.b\n", `error: the column "a.b": there is another one of its name, or of the beginning of its name`},
		"no name":  {docfile.Options{HeaderLine: true}, "a..b\n", `error: the column "a..b": no name of a field`},
		"empty":    {docfile.Options{HeaderLine: true}, "", "error: line 1, which has the columns: EOF"},
		"quotes":   {docfile.Options{Fields: []string{"a"}}, "1\n2\n\"x\"y\n", "{\"a\":{\"$numberInt\":\"1\"}}\n{\"a\":{\"$numberInt\":\"2\"}}\n" + `error: line 3: extraneous or missing " in quoted-field`},
		"no UTF-8": {docfile.Options{Fields: []string{"a"}}, "\xff\n", "error: line 1: not in UTF-8"},
	} {
		path := filepath.Join(t.TempDir(), "in.csv")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		x.o.Format = docfile.CSV
		if got := read(t, path, x.o); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, x.want)
		}
	}
}

// TestCSVWritten holds that CSV is written as mongoexport writes it, with extended JSON v2.
func TestCSVWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	w, err := docfile.Create(path, docfile.Options{Format: docfile.CSV, Fields: []string{"_id", "a.b", "a.l.1", "d", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"_id":{"$oid":"5f0000000000000000000001"},"a":{"b":{"$numberLong":"7"},"l":[1,{"c":1}]},"d":{"$date":"2026-01-02T03:04:05.006Z"},"x":"a \"b\", c"}`,
		`{"_id":1,"a":{"b":1.5},"d":{"$date":{"$numberLong":"253402300800000"}},"x":null}`,
		`{"_id":{"$binary":{"base64":"AP8=","subType":"00"}},"a":{"b":true},"d":{"$regularExpression":{"pattern":"a","options":"i"}},"x":{"$minKey":1}}`,
	} {
		if err := w.Write(bson.MustParse(text)); err != nil {
			t.Fatal(err)
		}
	}
	odd := new(bson.Builder).Int32("_id", 1).String("x", "\xff").Finish()
	if err := w.Write(odd); err == nil || !strings.Contains(err.Error(), "_id 1") {
		t.Errorf("text that is not UTF-8: %v", err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := `_id,a.b,a.l.1,d,x
ObjectId(5f0000000000000000000001),7,"{""c"":{""$numberInt"":""1""}}",2026-01-02T03:04:05.006Z,"a ""b"", c"
1,1.5,,"{""$date"":{""$numberLong"":""253402300800000""}}",
00FF,true,,/a/i,"{""$minKey"":1}"
`; err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// TestParquet holds that the columns of other tools' files become documents.
func TestParquet(t *testing.T) {
	type inner struct {
		N *int32 `parquet:"n,optional"`
		S string `parquet:"s"`
	}
	type row struct {
		ID     int64            `parquet:"_id"`
		Flag   bool             `parquet:"flag"`
		Small  int8             `parquet:"small"`
		Word   uint32           `parquet:"word"`
		Large  uint64           `parquet:"large"`
		Real   float32          `parquet:"real"`
		Name   *string          `parquet:"name,optional"`
		Day    int32            `parquet:"day,date"`
		At     int64            `parquet:"at,timestamp(microsecond)"`
		Old    deprecated.Int96 `parquet:"old"`
		Price  int64            `parquet:"price,decimal(2:18)"`
		Key    uuid.UUID        `parquet:"key,uuid"`
		Bytes  []byte           `parquet:"bytes"`
		In     *inner           `parquet:"in,optional"`
		Tags   []string         `parquet:"tags"`
		Items  []inner          `parquet:"items,list"`
		Ages   []*int32         `parquet:"ages,list"`
		Counts map[string]int32 `parquet:"counts"`
		Nested [][]int32        `parquet:"nested,list"`
	}
	name, n := "ann", int32(5)
	path := filepath.Join(t.TempDir(), "in.parquet")
	if err := parquet.WriteFile(path, []row{
		{ID: 1, Flag: true, Small: -1, Word: 1 << 31, Large: 1 << 63, Real: 0.5, Name: &name, Day: -1, At: -1, Old: deprecated.Int96{1_000_000, 0, 2440589}, Price: -1999, Key: uuid.UUID{15: 1}, Bytes: []byte{0},
			In: &inner{&n, "x"}, Tags: []string{"a", "b"}, Items: []inner{{nil, "p"}, {&n, "q"}}, Ages: []*int32{nil, &n}, Counts: map[string]int32{"k": 1}, Nested: [][]int32{{1, 2}, {}, {3}}},
		{ID: 2},
	}); err != nil {
		t.Fatal(err)
	}
	want := `{"_id":{"$numberLong":"1"},"flag":true,"small":{"$numberInt":"-1"},"word":{"$numberLong":"2147483648"},"large":{"$numberDecimal":"9223372036854775808"},"real":{"$numberDouble":"0.5"},"name":"ann","day":{"$date":{"$numberLong":"-86400000"}},"at":{"$date":{"$numberLong":"-1"}},"old":{"$date":{"$numberLong":"86400001"}},"price":{"$numberDecimal":"-19.99"},"key":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}},"bytes":{"$binary":{"base64":"AA==","subType":"00"}},"in":{"n":{"$numberInt":"5"},"s":"x"},"tags":["a","b"],"items":[{"s":"p"},{"n":{"$numberInt":"5"},"s":"q"}],"ages":[null,{"$numberInt":"5"}],"counts":{"k":{"$numberInt":"1"}},"nested":[[{"$numberInt":"1"},{"$numberInt":"2"}],[],[{"$numberInt":"3"}]]}
{"_id":{"$numberLong":"2"},"flag":false,"small":{"$numberInt":"0"},"word":{"$numberInt":"0"},"large":{"$numberLong":"0"},"real":{"$numberDouble":"0.0"},"day":{"$date":{"$numberLong":"0"}},"at":{"$date":{"$numberLong":"0"}},"old":{"$date":{"$numberLong":"-210866803200000"}},"price":{"$numberDecimal":"0.00"},"key":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}},"bytes":{"$binary":{"base64":"","subType":"00"}},"tags":[],"items":[],"ages":[],"counts":{},"nested":[]}`
	if got := read(t, path, docfile.Options{Format: docfile.Parquet}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < len(whole); i += len(whole)/97 + 1 { // whatever is damaged, it ends, and never with a panic
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 0x55
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		read(t, path, docfile.Options{Format: docfile.Parquet})
	}
	if err := os.WriteFile(path, whole[:len(whole)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path, docfile.Options{Format: docfile.Parquet}); !strings.HasPrefix(got, "error: ") {
		t.Errorf("a file that was cut: %s", got)
	}
}
