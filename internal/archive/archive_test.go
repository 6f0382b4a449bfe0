package archive

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
	"github.com/mayflydb/mayfly/internal/objectstore"
)

// back writes an object and returns what is read from it.
func back(t interface{ Fatal(...any) }, h Header, docs []Document) (w Written, got []bson.Doc, bytesOf []byte) {
	var file bytes.Buffer
	w, err := Write(&file, h, docs)
	if err != nil {
		t.Fatal(err)
	}
	if w.Bytes != int64(file.Len()) || w.Rows != int64(len(docs)) {
		t.Fatal("it is said to be otherwise", w, file.Len(), len(docs))
	}
	err = Documents(bytes.NewReader(file.Bytes()), w.Bytes, func(d bson.Doc) (bool, error) {
		got = append(got, d.Clone())
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, got, file.Bytes()
}

// TestBytes writes documents of all types, and reads the bytes that they were.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Document {
			return Document{Date: rapid.Int64().Draw(t, "date"), Doc: bsontest.Doc().Draw(t, "doc")}
		}), 1, 20).Draw(t, "docs")
		w, got, file := back(t, Header{Namespace: "d.c", Rule: "at_1", Fields: []string{"a", "b.c"}}, docs)
		if w.Check(bytes.NewReader(file), docs) != nil {
			t.Fatal("it is said to have others")
		}
		for i := range docs {
			was := docs[i].Doc
			docs[i].Doc = new(bson.Builder).String("another", "document").Finish()
			if w.Check(bytes.NewReader(file), docs) == nil {
				t.Fatal("another document is not noticed")
			}
			docs[i].Doc = was
		}
		if w.Check(bytes.NewReader(file), docs[1:]) == nil || w.Check(bytes.NewReader(file), append(slices.Clone(docs), docs[0])) == nil {
			t.Fatal("another number of documents is not noticed")
		}
		for i, d := range docs { // Write has put them in order
			if i >= len(got) || !bytes.Equal(d.Doc, got[i]) {
				t.Fatalf("document %d of %d is another: %s", i, len(docs), d.Doc)
			}
		}
	})
}

// TestOdd writes what other tools have no notion of: a name twice, text that is no UTF-8, dates
// out of any calendar, all rare types, and 16 MB in one document.
func TestOdd(t *testing.T) {
	large := make([]byte, bson.MaxDocumentSize-100)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	var many bson.Builder
	many.Int32("_id", 4)
	for i := range 40 {
		many.Int32("n", int32(i))
	}
	docs := []Document{
		{math.MinInt64, new(bson.Builder).Int32("_id", 1).Int32("a", 1).Int32("a", 2).Finish()},
		{-1, new(bson.Builder).String("_id", "\xff").String("\xfe", "\xfd").String("a", "\xff").Finish()},
		{0, new(bson.Builder).Int32("_id", 3).Date("a", math.MaxInt64).Date("b", math.MinInt64).Finish()},
		{1, many.Finish()},
		{2, bson.MustParse(`{_id: 5, u: {$undefined: true}, min: {$minKey: 1}, max: {$maxKey: 1}, t: {$timestamp: {t: 1, i: 2}}, d: {$numberDecimal: "1.5E+6000"}, s: {$symbol: "x"}, c: {$code: "f()", $scope: {x: 1}}, p: {$dbPointer: {$ref: "a.b", $id: {$oid: "000000000000000000000001"}}}, r: {$regularExpression: {pattern: "a", options: "i"}}}`)},
		{math.MaxInt64, new(bson.Builder).Int32("_id", 6).Binary("large", 0, large).Finish()},
	}
	w, got, _ := back(t, Header{Namespace: "d.c", Rule: "at_1", Fields: []string{"a", "large"}}, docs)
	if len(got) != len(docs) || w.From != math.MinInt64 || w.Until != math.MaxInt64 {
		t.Fatal(len(got), w)
	}
	for i, d := range docs {
		if !bytes.Equal(d.Doc, got[i]) {
			t.Errorf("document %d is another", i)
		}
	}
}

// TestTampered changes an object in its store: it is said to be another, and not read
// (invariant nothing-guessed).
func TestTampered(t *testing.T) {
	dir := t.TempDir()
	s := objectstore.NewDirectory(dir)
	file, err := s.Temp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Write(file, Header{Rule: "r"}, []Document{{0, bson.MustParse(`{_id: 1}`)}})
	if err == nil {
		err = Put(t.Context(), s, "a/b.parquet", file, w)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "a", "b.parquet")
	whole, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	row := &Row{Path: "a/b.parquet", Written: w}
	for name, content := range map[string][]byte{"a bit": append([]byte{whole[0] ^ 1}, whole[1:]...), "shorter": whole[1:], "longer": append(whole, 0), "empty": nil} {
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		if _, err := Fetch(t.Context(), s, row); !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(t.Context(), s, row); err == nil || !strings.Contains(err.Error(), "not there") {
		t.Error(err)
	}
}

// TestBucket stores an object in a bucket, reads and removes it.
func TestBucket(t *testing.T) {
	memory := s3mem.New()
	if err := memory.CreateBucket("kept"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(memory).Server())
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	places := NewPlaces(func() string { return "s3://kept/some?pathStyle=true&endpoint=" + server.URL })
	s, err := places.Open(t.Context(), "s3://kept/some/where")
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.Temp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	doc := bson.MustParse(`{_id: 1}`)
	w, err := Write(file, Header{Rule: "r"}, []Document{{0, doc}})
	if err == nil {
		err = w.Check(file, []Document{{0, doc}})
	}
	row := &Row{Path: Name("d.c/../x", "owner", Day(0)), Written: w}
	if err == nil {
		err = Put(t.Context(), s, row.Path, file, w)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := Fetch(t.Context(), s, row)
	if err != nil {
		t.Fatal(err)
	}
	err = Documents(bytes.NewReader(content), w.Bytes, func(d bson.Doc) (bool, error) {
		if !bytes.Equal(d, doc) {
			t.Errorf("%s is stored", d)
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
	found := 0
	p, err := OpenPartly(t.Context(), s, row)
	if err == nil {
		err = p.Documents(t.Context(), 0, func(d bson.Doc) (bool, error) {
			found++
			return true, nil
		})
	}
	if err != nil || found != 1 {
		t.Errorf("%d documents in parts: %v", found, err)
	}
	if err := Remove(t.Context(), s, row.Path); err != nil {
		t.Error(err)
	}
	var damage *DamageError
	if _, err := Fetch(t.Context(), s, row); !errors.As(err, &damage) {
		t.Error(err)
	}
}

// TestAllow holds that nobody archives outside of what the operator allows.
func TestAllow(t *testing.T) {
	p := NewPlaces(func() string { return "file:///var/archive, s3://kept/some?endpoint=http://127.0.0.1:1&pathStyle=true" })
	for to, want := range map[string]bool{
		"file:///var/archive": true, "file:///var/archive/a/b": true, "s3://kept/some": true, "s3://kept/some/a": true,
		"file:///var/archive2": false, "file:///var": false, "file:///var/archive/../x": false, "file:///var/archive/./x": false, "file:///var/archive//x": false,
		"file:///var/archive/": false, "file:///var/archive/%2e%2e": false, "s3://kept/something": false, "s3://kept": false, "s3://kept/some?endpoint=http://x": false,
		"": false, "/var/archive": false, "http://kept/some": false, "file://host/var/archive": false, "s3://me@kept/some": false,
	} {
		if err := p.Allow(to); (err == nil) != want {
			t.Errorf("%q: %v", to, err)
		}
	}
	for _, list := range []string{"file:///a, file:///a/b", "file:///a/b, file:///a"} {
		if got := NewPlaces(func() string { return list }).Within("file:///a/b/c"); got != "file:///a/b" {
			t.Errorf("%s: %q", list, got)
		}
	}
	if err := ValidPlaces("file:///a, s3://b/c?endpoint=http://x&pathStyle=true&region=y"); err != nil {
		t.Error(err)
	}
	for _, list := range []string{"/a", "file:///a?x=1", "s3:///a", "a", "s3://b?endpoint=x", "s3://b?endpoint=http://me:secret@x", "s3://b?pathStyle=2", "s3://b?other=1", "s3://b?region=%"} {
		if ValidPlaces(list) == nil {
			t.Errorf("%q is valid", list)
		}
	}
	if s, err := p.Open(t.Context(), "s3://kept/some/a"); err != nil || s.String() != "s3://kept/some/a" {
		t.Error(s, err)
	}
}

// TestBounds holds that an object is passed over only if no document in it can match.
func TestBounds(t *testing.T) {
	row := &Row{Key: "at", Written: Written{From: 1000, Until: 2000}}
	for query, want := range map[string]bool{
		`{}`: true, `{at: {$gt: {$date: {$numberLong: "2000"}}}}`: true, `{at: {$gt: {$date: {$numberLong: "2001"}}}}`: false,
		`{at: {$lt: {$date: {$numberLong: "999"}}}}`: false, `{at: {$date: {$numberLong: "1500"}}}`: true, `{at: {$date: {$numberLong: "1"}}}`: false,
		`{b: {$date: {$numberLong: "1"}}}`: true, `{$or: [{at: {$date: {$numberLong: "1"}}}, {x: 1}]}`: true,
		`{$and: [{at: {$gte: {$date: {$numberLong: "1"}}}}, {at: {$lte: {$date: {$numberLong: "5"}}}}]}`: false,
		`{at: {$not: {$lt: {$date: {$numberLong: "5"}}}}}`:                                               true, `{at: null}`: true,
	} {
		if got := BoundsOf(bson.MustParse(query), true).MayHave(row); got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	row.Arrays = true
	if !BoundsOf(bson.MustParse(`{at: {$date: {$numberLong: "1"}}}`), true).MayHave(row) {
		t.Error("an array may have other dates")
	}
}

// TestPlacesLongest has a place within another one: each says how what lies in it is reached, whichever
// is named first.
func TestPlacesLongest(t *testing.T) {
	for _, list := range []string{"s3://b?region=a, s3://b/x?region=b, s3://b/x/y", "s3://b/x/y, s3://b/x?region=b, s3://b?region=a"} {
		p := NewPlaces(func() string { return list })
		for to, want := range map[string]string{"s3://b": "s3://b?region=a", "s3://b/xx": "s3://b/xx?region=a", "s3://b/x/z": "s3://b/x/z?region=b", "s3://b/x/y/z": "s3://b/x/y/z", "s3://c": ""} {
			if got, _, err := p.within(to); got != want || (err == nil) != (want != "") {
				t.Errorf("%s: %s is opened as %q, %v", list, to, got, err)
			}
		}
	}
}
