package docfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/docfile"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

func told(int64) {}

func documents(t *testing.T, c *client.Conn, coll string) (all []bson.Doc) {
	t.Helper()
	cur, err := c.Open(t.Context(), "d", new(bson.Builder).String("find", coll).OpenDoc("sort").Int32("_id", 1).Close().Finish())
	if err != nil {
		t.Fatal(err)
	}
	for {
		doc, err := cur.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if doc == nil {
			return all
		}
		all = append(all, doc.Clone())
	}
}

func export(t *testing.T, c *client.Conn, coll, path string, f docfile.Format) error {
	t.Helper()
	w, err := docfile.Create(path, docfile.Options{Format: f})
	if err != nil {
		return err
	}
	if _, err := docfile.Export(t.Context(), c, client.ReadPreference{}, "d", coll, w, told); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit()
}

func imports(t *testing.T, c *client.Conn, coll, path string, f docfile.Format) (inserted, kept int64, err error) {
	t.Helper()
	file, err := docfile.Open(path, docfile.Options{Format: f})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return docfile.Import(t.Context(), c, "d", coll, file, told)
}

// TestThereAndBack: what was exported and imported is the same, byte for byte, and a second
// import changes nothing.
func TestThereAndBack(t *testing.T) {
	c, err := client.Connect(t.Context(), client.Options{Address: servertest.Start(t).Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	docs := []bson.Doc{bson.MustParse(`{"_id":{"$oid":"5f0000000000000000000001"},"double":{"$numberDouble":"-0.0"},"nan":{"$numberDouble":"NaN"},
		"int":{"$numberInt":"1"},"long":{"$numberLong":"1"},"decimal":{"$numberDecimal":"1.00"},"date":{"$date":{"$numberLong":"-62135596800001"}},
		"re":{"$regularExpression":{"pattern":"a/b","options":"i"}},"bin":{"$binary":{"base64":"AAE=","subType":"04"}},"ts":{"$timestamp":{"t":1,"i":2}},
		"min":{"$minKey":1},"max":{"$maxKey":1},"code":{"$code":"f()","$scope":{"a":{"$numberInt":"1"}}},"text":"line\nend\u2028\u0001","sub":{"a":[{},[null,true]]}}`)}
	for i := range 60_000 { // more than one reply may hold, of small documents
		docs = append(docs, new(bson.Builder).Int32("_id", int32(i)).String("text", strings.Repeat("x", 200+i%200)).Finish())
	}
	for part := range slices.Chunk(docs, 1000) {
		if _, _, err := c.Insert(t.Context(), "d", "from", part, false); err != nil {
			t.Fatal(err)
		}
	}
	want := documents(t, c, "from")
	for _, f := range []docfile.Format{docfile.JSONLines, docfile.BSON, docfile.Parquet} {
		path := filepath.Join(t.TempDir(), "file")
		if f == docfile.JSONLines {
			path += ".gz"
		}
		if err := export(t, c, "from", path, f); err != nil {
			t.Fatal(f, err)
		}
		if inserted, kept, err := imports(t, c, string(f), path, f); inserted != int64(len(want)) || kept != 0 || err != nil {
			t.Errorf("%s: %d inserted, %d kept, %v", f, inserted, kept, err)
		}
		if inserted, kept, err := imports(t, c, string(f), path, f); inserted != 0 || kept != int64(len(want)) || err != nil {
			t.Errorf("%s again: %d inserted, %d kept, %v", f, inserted, kept, err)
		}
		if !slices.EqualFunc(documents(t, c, string(f)), want, func(a, b bson.Doc) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s: other documents", f)
		}
		was, _ := os.ReadFile(path)
		if err := export(t, c, "none", path, f); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s over a file: %v", f, err)
		}
		if is, _ := os.ReadFile(path); !bytes.Equal(was, is) {
			t.Errorf("%s: the file has changed", f)
		}
	}
	testRefused(t, c)
}

// testRefused: what JSON does not keep is not exported, and damage is named; what stood before it
// is there.
func testRefused(t *testing.T, c *client.Conn) {
	odd := new(bson.Builder).Int32("_id", 1).OpenDoc("a").String("$oid", "5f0000000000000000000001").Close().Finish()
	if _, _, err := c.Insert(t.Context(), "d", "odd", []bson.Doc{odd}, false); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := export(t, c, "odd", dir+"/odd", docfile.JSONLines); err == nil || !strings.Contains(err.Error(), "_id 1") {
		t.Errorf("a document that looks like an ObjectId: %v", err)
	}
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("left behind: %v %v", left, err)
	}
	whole := string(bson.MustParse(`{"_id":1}`))
	for name, x := range map[string]struct {
		format docfile.Format
		text   string
		says   string
		stay   int64
	}{
		"no JSON":      {docfile.JSONLines, "{\"_id\":1}\n\n{\"_id\":2\n{\"_id\":3}\n", "line 3", 1},
		"no document":  {docfile.JSONLines, "{\"_id\":1}\r\n7", "line 2", 1},
		"not UTF-8":    {docfile.JSONLines, "{\"_id\":\"\xff\"}\n", "line 1: not in UTF-8", 0},
		"a bad _id":    {docfile.JSONLines, "{\"_id\":1}\n{\"_id\":[1]}\n{\"_id\":3}\n", "line 2", 2},
		"cut":          {docfile.BSON, whole + whole[:9], "byte 14: the file ends within a document", 1},
		"cut early":    {docfile.BSON, whole + whole[:3], "byte 14: the file ends within a document", 1},
		"a bad length": {docfile.BSON, whole + "\xff\xff\xff\x7f", "byte 14", 1},
		"bad BSON":     {docfile.BSON, whole + "\x06\x00\x00\x00\x7e\x00", "byte 14", 1},
	} {
		path := dir + "/in"
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		inserted, _, err := imports(t, c, "bad "+name, path, x.format)
		if err == nil || !strings.Contains(err.Error(), x.says) || inserted != x.stay {
			t.Errorf("%s: %d inserted, %v", name, inserted, err)
		}
	}
}

// TestOptionsRefused: an option that a format would ignore, and a file that no import reads, are refused.
func TestOptionsRefused(t *testing.T) {
	o := docfile.Options{Format: docfile.Parquet, Fields: []string{"a"}}
	if err := o.Check(true); err != nil {
		t.Error(err)
	}
	if o.NoHeaderLine = true; o.Check(true) == nil {
		t.Error("Parquet without a header line")
	}
	for name, path := range map[string]string{"": "x.parquet.gz", "parquet": "x.gz"} {
		if f, err := docfile.ParseFormat(name, path); err == nil {
			t.Errorf("%q, %s: %s", name, path, f)
		}
	}
	if f, err := docfile.ParseFormat("", "x.json.gz"); f != docfile.JSONLines || err != nil {
		t.Errorf("x.json.gz: %s, %v", f, err)
	}
}
