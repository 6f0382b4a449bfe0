package match

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// leafReasons gives the words of the operators about a path: why they did not
// match, and under a negation why they did; the types they look at, where they
// say so; and whether they take an array as a whole.
var leafReasons = map[string]struct {
	failed, matched string
	types           []string
	whole           bool
}{
	"$in":        {"no matching value found in array", "matching value found in array", nil, false},
	"$type":      {"type did not match", "type did match", nil, false},
	"$mod":       {"$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder", numericTypes, false},
	"$regex":     {"regular expression did not match", "regular expression did match", []string{"regex", "string", "symbol"}, false},
	"$size":      {"array length was not equal to given size", "array length was equal to given size", arrayType, true},
	"$elemMatch": {"array did not satisfy the child predicate", "array did satisfy the child predicate", arrayType, true},
	"$all":       {"array did not contain all specified values", "array did contain all specified values", nil, true},
	"$geoWithin": {
		"none of considered geometries was contained within the expression’s geometry",
		"at least one of considered geometries was contained within the expression’s geometry", geoTypes, true,
	},
	"$geoIntersects": {
		"none of considered geometries intersected the expression’s geometry",
		"at least one of considered geometries intersected the expression’s geometry", geoTypes, false,
	},
	"$bits": {"bitwise operator failed to match", "bitwise operator matched successfully", bitTypes, false},
	"":      {"comparison failed", "comparison succeeded", nil, false},
}

var (
	arrayType    = []string{"array"}
	geoTypes     = []string{"array", "object"}
	numericTypes = []string{"decimal", "double", "int", "long"}
	bitTypes     = []string{"binData", "decimal", "double", "int", "long"}
)

// leaf explains an operator about a path.
func (x *failure) leaf(c clause, inverted bool) (bson.Doc, error) {
	b := x.begin(c)
	op := c.op
	switch {
	case op == "$exists":
		if c.v.Truthy() != inverted {
			return b.String("reason", "path does not exist").Finish(), nil
		}
		return b.String("reason", "path does exist").Finish(), nil
	case op == "$all" && c.v.Doc().IsEmpty():
		return b.String("reason", alwaysReason(false)).Finish(), nil
	case op == "$ne":
		op, inverted = "", !inverted
	case op == "$nin":
		op, inverted = "$in", !inverted
	case op == "" && c.v.Type == bson.TypeRegex:
		op = "$regex"
	case op == "$within":
		op = "$geoWithin"
	case strings.HasPrefix(op, "$bits"):
		op = "$bits"
	}
	why, ok := leafReasons[op]
	if !ok {
		why = leafReasons[""]
	}
	seen, found := x.considered(c.name, why.whole)
	switch {
	case !found:
		return b.String("reason", "field was missing").Finish(), nil
	case !inverted && len(seen) > 0 && why.types != nil && !slices.ContainsFunc(seen, func(v bson.Value) bool {
		return slices.Contains(why.types, v.Type.String())
	}):
		b.String("reason", "type did not match")
		appendTypes(b, seen)
		appendNames(b, "expectedType", why.types)
		x.appendConsidered(b, seen, why.whole)
	default:
		if inverted {
			b.String("reason", why.matched)
		} else {
			b.String("reason", why.failed)
		}
		x.appendConsidered(b, seen, why.whole)
		if op == "$type" && len(seen) > 0 {
			appendTypes(b, seen)
		}
	}
	return b.Finish(), nil
}

// considered lists the values an operator at the path looks at: the elements
// of an array at its end, or the array as a whole. found is false if the
// path leads to nothing.
func (x *failure) considered(path string, wholeArray bool) (seen []bson.Value, found bool) {
	w := &witness{}
	mode := each
	if wholeArray {
		mode = whole
	}
	l := newLeaf(path)
	_, _ = l.test(subject{bson.Document(x.doc), document}, mode, w, nil)
	if !wholeArray {
		w.dropTraversed()
	}
	return w.seen, w.found
}

// witness is an elemMatcher that notes the values it is called with.
type witness struct {
	seen  []bson.Value
	found bool
}

func (w *witness) elem(v bson.Value, _ *Env) (bool, error) {
	if !v.IsMissing() {
		w.found = true
		w.seen = append(w.seen, v)
	}
	return false, nil
}

// dropTraversed removes the arrays whose elements were examined: an
// array comes right after its elements.
func (w *witness) dropTraversed() {
	var out []bson.Value
	for _, v := range w.seen {
		if v.Type == bson.TypeArray && endsWith(out, v) {
			continue
		}
		out = append(out, v)
	}
	w.seen = out
}

func endsWith(seen []bson.Value, array bson.Value) bool {
	elements := array.Doc().Slice()
	if len(elements) > len(seen) {
		return false
	}
	tail := seen[len(seen)-len(elements):]
	for i, e := range elements {
		if e.Type != tail[i].Type || len(e.Data) != len(tail[i].Data) || len(e.Data) > 0 && &e.Data[0] != &tail[i].Data[0] {
			return false
		}
	}
	return true
}

func (x *failure) appendConsidered(b *bson.Builder, seen []bson.Value, wholeArray bool) {
	switch {
	case x.brief:
	case len(seen) == 1:
		b.Value("consideredValue", seen[0])
	case wholeArray && len(seen) == 0:
	default:
		b.OpenArray("consideredValues")
		for i, v := range seen[:min(len(seen), maxConsidered)] {
			b.Value(bson.Index(i), v)
		}
		b.Close()
		if len(seen) > maxConsidered {
			b.Bool("consideredValuesTruncated", true)
		}
	}
}

func appendTypes(b *bson.Builder, seen []bson.Value) {
	var names []string
	for _, v := range seen {
		names = append(names, v.Type.String())
	}
	slices.Sort(names)
	appendNames(b, "consideredType", slices.Compact(names))
}

// appendNames appends one name as a string, several as an array under the
// plural.
func appendNames(b *bson.Builder, field string, names []string) {
	if len(names) == 1 {
		b.String(field, names[0])
		return
	}
	b.Strings(field+"s", names...)
}
