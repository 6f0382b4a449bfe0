package oplog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
	"github.com/mayflydb/mayfly/internal/query/update"
	"pgregory.net/rapid"
)

// apply is the oracle: it reads a delta by its definition and changes old by it.
func apply(t interface{ Fatalf(string, ...any) }, old, diff bson.Doc) bson.Doc {
	fields := fieldsOf(old)
	at := func(name string) int {
		for i, f := range fields {
			if f.name == name {
				return i
			}
		}
		return -1
	}
	for section, v := range diff.All() {
		switch {
		case section == "d":
			for name := range v.Doc().All() {
				i := at(name)
				if i < 0 {
					t.Fatalf("%s is to go, and is not there", name)
				}
				fields = append(fields[:i:i], fields[i+1:]...)
			}
		case section == "u":
			for name, v := range v.Doc().All() {
				fields[at(name)].value = v
			}
		case section == "i":
			for name, v := range v.Doc().All() {
				if i := at(name); i >= 0 {
					fields = append(fields[:i:i], fields[i+1:]...)
				}
				fields = append(fields, field{name, v})
			}
		case strings.HasPrefix(section, "s"):
			i := at(section[1:])
			if v.Doc().Lookup("a").Type == bson.TypeBool {
				fields[i].value = bson.ArrayOf(applyArray(t, fields[i].value.Doc(), v.Doc()))
			} else {
				fields[i].value = bson.Document(apply(t, fields[i].value.Doc(), v.Doc()))
			}
		default:
			t.Fatalf("section %q", section)
		}
	}
	b := new(bson.Builder)
	for _, f := range fields {
		b.Value(f.name, f.value)
	}
	return b.Finish()
}

func applyArray(t interface{ Fatalf(string, ...any) }, old, diff bson.Doc) bson.Doc {
	all := old.Slice()
	for section, v := range diff.All() {
		switch section[0] {
		case 'a':
		case 'l':
			all = all[:v.Int32()]
		default:
			i := 0
			for _, c := range section[1:] {
				i = 10*i + int(c-'0')
			}
			switch {
			case section[0] == 'u' && i == len(all):
				all = append(all, v)
			case section[0] == 'u':
				all[i] = v
			case v.Doc().Lookup("a").Type == bson.TypeBool:
				all[i] = bson.ArrayOf(applyArray(t, all[i].Doc(), v.Doc()))
			default:
				all[i] = bson.Document(apply(t, all[i].Doc(), v.Doc()))
			}
		}
	}
	return bson.Array(all...).Doc()
}

// variant draws a document that has much in common with d.
func variant(t *rapid.T, d bson.Doc, depth int) bson.Doc {
	fields := fieldsOf(d)
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		n := len(fields)
		switch kind := rapid.IntRange(0, 4).Draw(t, "edit"); {
		case kind == 0 || n == 0:
			fields = append(fields, field{bsontest.Name().Draw(t, "name"), bsontest.Value().Draw(t, "value")})
		case kind == 1:
			i := rapid.IntRange(0, n-1).Draw(t, "gone")
			fields = append(fields[:i:i], fields[i+1:]...)
		case kind == 2:
			i, j := rapid.IntRange(0, n-1).Draw(t, "moved"), rapid.IntRange(0, n-1).Draw(t, "moved to")
			fields[i], fields[j] = fields[j], fields[i]
		default:
			f := &fields[rapid.IntRange(0, n-1).Draw(t, "changed")]
			switch {
			case f.value.Type == bson.TypeDocument && depth > 0:
				f.value = bson.Document(variant(t, f.value.Doc(), depth-1))
			case f.value.Type == bson.TypeArray:
				f.value = variantArray(t, f.value.Doc().Slice(), depth)
			default:
				f.value = bsontest.Value().Draw(t, "value")
			}
		}
	}
	b := new(bson.Builder)
	for _, f := range fields {
		b.Value(f.name, f.value)
	}
	return b.Finish()
}

func variantArray(t *rapid.T, all []bson.Value, depth int) bson.Value {
	all = append([]bson.Value(nil), all...)
	for i, v := range all {
		if v.Type == bson.TypeDocument && depth > 0 && rapid.Bool().Draw(t, "inside") {
			all[i] = bson.Document(variant(t, v.Doc(), depth-1))
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "array edit") {
	case 0:
		all = append(all, bsontest.Value().Draw(t, "pushed"))
	case 1:
		all = all[:rapid.IntRange(0, len(all)).Draw(t, "length")]
	case 2:
		if len(all) > 0 {
			all[rapid.IntRange(0, len(all)-1).Draw(t, "set")] = bsontest.Value().Draw(t, "value")
		}
	}
	return bson.Array(all...)
}

// The delta of two documents, applied to the first, gives the second, byte for byte.
// Only documents that repeat a name have none.
func TestDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := bsontest.Doc().Draw(t, "old")
		doc := bsontest.Doc().Draw(t, "other")
		if rapid.IntRange(0, 9).Draw(t, "kind") > 0 {
			doc = variant(t, old, 3)
		}
		diff, ok := Diff(old, doc)
		if !ok {
			if !repeats(fieldsOf(old)) && !repeats(fieldsOf(doc)) {
				t.Fatalf("%s and %s have no delta", old, doc)
			}
			return
		}
		if err := bson.Validate(diff, bson.MaxDepth); err != nil {
			t.Fatalf("%s: %v", diff, err)
		}
		if bytes.Equal(old, doc) != diff.IsEmpty() {
			t.Fatalf("%s and %s have the delta %s", old, doc, diff)
		}
		if got := apply(t, old, diff); !bytes.Equal(got, doc) {
			t.Fatalf("%s by %s is %s, not %s", old, diff, got, doc)
		}
		replayed(t, old, doc)
	})
}

// replayed checks what applyOps makes of a delta, on documents that keep a valid _id.
func replayed(t *rapid.T, old, doc bson.Doc) {
	with := func(d bson.Doc) bson.Doc {
		b := new(bson.Builder).Int32("_id", 1)
		for name, v := range d.All() {
			if name != "_id" {
				b.Value(name, v)
			}
		}
		return b.Finish()
	}
	if old, doc = with(old), with(doc); bytes.Equal(old, doc) {
		return
	}
	diff, ok := Diff(old, doc)
	if !ok {
		t.Fatalf("%s and %s have no delta", old, doc)
	}
	u, err := update.ParseOplog(new(bson.Builder).Int32("$v", 2).Doc("diff", diff).Finish())
	if err != nil {
		t.Fatalf("%s: %v", diff, err)
	}
	if got, changed, err := u.Apply(old, &update.Context{}); err != nil || !changed || !bytes.Equal(got, doc) {
		t.Fatalf("%s by %s is replayed as %s, not %s: %v", old, diff, got, doc, err)
	}
}
