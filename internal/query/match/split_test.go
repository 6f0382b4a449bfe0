package match

import (
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

func root(t *testing.T, filter string) Node {
	t.Helper()
	f, err := Parse(bson.MustParse(filter), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Root()
}

func TestSplitBy(t *testing.T) {
	n := root(t, `{a: 1, "b.c": {$gt: 2}, $or: [{a: 3}, {b: 4}]}`)
	passing, staying := SplitBy(n, func(n Node) bool {
		d := DependsOn(n)
		return !d.Touches("b")
	})
	if got := Serialize(passing).String(); got != `{ a: { $eq: 1 } }` {
		t.Errorf("passing: %s", got)
	}
	if got := DependsOn(staying).Paths; !slices.Equal(got, []string{"a", "b", "b.c"}) {
		t.Errorf("staying reads %v", got)
	}
	passing, staying = SplitBy(root(t, `{a: 1}`), func(Node) bool { return true })
	if IsTrue(passing) || !IsTrue(staying) {
		t.Error("one passing conjunct leaves nothing")
	}
}

func TestRename(t *testing.T) {
	rename := func(path string) (string, bool) {
		rest, ok := strings.CutPrefix(path, "a")
		return "x.y" + rest, ok
	}
	n, ok := Rename(root(t, `{a: {$in: [1, /z/]}, $or: [{"a.b": {$ne: 2}}, {a: {$elemMatch: {c: 1}}}]}`), rename)
	if want := `{ $and: [ { $or: [ { x.y: { $elemMatch: { c: { $eq: 1 } } } }, { x.y.b: { $not: { $eq: 2 } } } ] }, { x.y: { $in: [ 1, /z/ ] } } ] }`; !ok ||
		Serialize(n).String() != want {
		t.Errorf("%v %s", ok, Serialize(n))
	}
	for _, filter := range []string{`{a: 1, b: 2}`, `{$expr: {$gt: ["$a", 1]}}`, `{$jsonSchema: {required: ["a"]}}`} {
		if _, ok := Rename(root(t, filter), rename); ok {
			t.Errorf("%s was renamed", filter)
		}
	}
}

func TestDependsOn(t *testing.T) {
	d := DependsOn(root(t, `{b: 1, $expr: {$and: ["$a.x", "$$NOW"]}, c: {$not: {$size: 1}}}`))
	if !slices.Equal(d.Paths, []string{"a.x", "b", "c"}) || d.Whole || d.Random {
		t.Errorf("%+v", d)
	}
	if d = DependsOn(root(t, `{$jsonSchema: {}}`)); !d.Whole {
		t.Errorf("%+v", d)
	}
	if d = DependsOn(root(t, `{$sampleRate: 0.5}`)); !d.Random {
		t.Errorf("%+v", d)
	}
}

func TestPrefix(t *testing.T) {
	for pattern, want := range map[string]string{
		"^abc": "abc exact", "^abc.*x": "abc", "^abc*": "ab", "^a": "a exact", "^a?": "", "abc": "", "^a|b": "", "^a\\.b": "a.b exact",
		"^a\\db": "a", "^": "", "^(ab)": "", "^é*": "", "^xé*": "x", "^a\\Qb\\E": "a",
	} {
		r, err := NewRegex("p", pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		prefix, exact, ok := r.Prefix()
		got := prefix
		if exact {
			got += " exact"
		}
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
