package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// inGroups has row groups of so many rows until the test ends.
func inGroups(t *testing.T, rows int64) {
	was := groupRows
	groupRows = rows
	t.Cleanup(func() { groupRows = was })
}

// kept is a store that has one object, in memory.
type kept struct {
	objectstore.Store
	content []byte
}

func (k *kept) String() string { return "memory" }

func (k *kept) GetRange(_ context.Context, _ string, from, size int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(k.content), from, size)), nil
}

// putObject writes an object.
func putObject(t interface{ Fatal(...any) }, docs []Document, fields ...string) (*kept, *Row) {
	var file bytes.Buffer
	w, err := Write(&file, Header{Rule: "r", Fields: fields}, docs)
	if err == nil {
		err = w.Check(bytes.NewReader(file.Bytes()), docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	row := &Row{To: "file:///somewhere", Path: Name("d.c", "owner", "2000-01-01"), Key: "at", Written: w}
	back, ok := ParseRow(row.Doc())
	if !ok || len(back.Parts) != len(row.Parts) || len(back.Parts) < 2 {
		t.Fatal("the row does not come back", back, row)
	}
	return &kept{content: file.Bytes()}, &back
}

// TestPartly looks for values of all types in objects, by row groups: none is passed over that has a
// document that matches, and of many groups few are read.
func TestPartly(t *testing.T) {
	inGroups(t, 4)
	values := []string{`1`, `{$numberLong: "1"}`, `{$numberDouble: "1.0"}`, `{$numberDecimal: "1"}`, `{$numberDecimal: "1.00"}`, `0`, `{$numberDouble: "-0.0"}`, `{$numberDouble: "NaN"}`,
		`{$numberLong: "9007199254740993"}`, `{$numberDouble: "9007199254740992"}`, `{$numberDouble: "1.5"}`, `"a"`, `"b"`, `{$symbol: "a"}`, `{$oid: "000000000000000000000001"}`,
		`{$date: {$numberLong: "5"}}`, `true`, `null`, `{$binary: {base64: "AAAA", subType: "00"}}`, `{x: 1}`, `{$uuid: "00000000-0000-4000-8000-000000000000"}`, `{$timestamp: {t: 1, i: 1}}`}
	more := append([]string{`[1, "a"]`, `[{b: "a"}]`, `{b: "a"}`, `{b: [1]}`}, values...)
	rapid.Check(t, func(t *rapid.T) {
		var docs []Document
		for i := range rapid.IntRange(1, 30).Draw(t, "n") {
			id, a := rapid.SampledFrom(values).Draw(t, "_id"), rapid.SampledFrom(more).Draw(t, "a")
			docs = append(docs, Document{int64(i), bson.MustParse(fmt.Sprintf(`{_id: %s, at: {$date: {$numberLong: "%d"}}, a: %s}`, id, i, a))})
		}
		s, row := putObject(t, docs, "a", "a.b")
		path := rapid.SampledFrom([]string{"_id", "a", "a.b"}).Draw(t, "path")
		value := rapid.SampledFrom(values).Draw(t, "value")
		query := fmt.Sprintf(rapid.SampledFrom([]string{`{%q: %s}`, `{%q: {$eq: %s}}`, `{%q: {$in: [%s, "b"]}}`, `{$and: [{%q: %s}]}`}).Draw(t, "form"), path, value)
		if rapid.Bool().Draw(t, "dated") {
			query = fmt.Sprintf(`{$and: [%s, {at: {$gte: {$date: {$numberLong: "%d"}}}}]}`, query, rapid.IntRange(0, 30).Draw(t, "from"))
		}
		filter, err := match.Parse(bson.MustParse(query), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, d := range docs {
			if ok, err := filter.Match(d.Doc); err != nil {
				t.Fatal(err)
			} else if ok {
				want++
			}
		}
		p, err := OpenPartly(context.Background(), s, row)
		if err != nil {
			t.Fatal(err)
		}
		groups, _, err := p.Groups(BoundsOf(bson.MustParse(query), true))
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, g := range groups {
			err := p.Documents(context.Background(), g, func(d bson.Doc) (bool, error) {
				ok, err := filter.Match(d)
				if ok {
					got++
				}
				return true, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Fatalf("%s finds %d documents of %d", query, got, want)
		}
	})
}

// TestPartlyFew reads few row groups for a few documents, and says of each part that it reads that it is
// another one if it was changed.
func TestPartlyFew(t *testing.T) {
	inGroups(t, 100)
	var docs []Document
	for i := range 5000 {
		docs = append(docs, Document{int64(i), bson.MustParse(fmt.Sprintf(`{_id: {$oid: "%024x"}, at: {$date: {$numberLong: "%d"}}, user: "u%d"}`, i*7919%5000, i, i))})
	}
	s, row := putObject(t, docs, "user")
	for query, most := range map[string]int{`{_id: {$oid: "000000000000000000000007"}}`: 3, `{user: "u77"}`: 3, `{at: {$gte: {$date: {$numberLong: "150"}}, $lt: {$date: {$numberLong: "160"}}}}`: 1, `{}`: 50} {
		p, err := OpenPartly(t.Context(), s, row)
		if err != nil {
			t.Fatal(err)
		}
		if groups, _, err := p.Groups(BoundsOf(bson.MustParse(query), true)); err != nil || len(groups) > most || len(groups) == 0 {
			t.Errorf("%s: %d groups, %v", query, len(groups), err)
		}
	}
	read := func() error {
		p, err := OpenPartly(t.Context(), s, row)
		if err != nil {
			return err
		}
		for g := range len(row.Parts) - 1 {
			if err := p.Documents(t.Context(), g, func(bson.Doc) (bool, error) { return true, nil }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	whole := s.content
	for _, i := range []int{4, len(whole) / 3, len(whole) - 20} {
		whole[i] ^= 1
		var damage *DamageError
		if err := read(); !errors.As(err, &damage) {
			t.Errorf("byte %d: %v", i, err)
		}
		whole[i] ^= 1
	}
	s.content = whole[:len(whole)/2]
	var damage *DamageError
	if err := read(); !errors.As(err, &damage) {
		t.Error(err)
	}
}
