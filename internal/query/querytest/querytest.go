// Package querytest makes random documents, filters, questions and updates, as extended JSON, for
// tests that ask two things the same: plans with and without indexes, a router and one server.
package querytest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// Paths are those of filters and sorts.
var Paths = []string{"a", "b", "c", "a.x", "a.y", "b.x", "c.x", "a.0", "a.x.0", "a.0.x", "a.0.0"}

// Scalars are values of most types, as text.
func Scalars() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"0", "1", "2", "3", "1.5", `"a"`, `"A"`, `"ab"`, `"b"`, "null", "true", "false", `{"$date": "2024-01-01T00:00:00Z"}`,
		`{"$numberDecimal": "2"}`, `{"$numberLong": "1"}`, `{"$numberDouble": "NaN"}`, `{"$numberDecimal": "Infinity"}`, `{"$numberDouble": "-Infinity"}`,
		`{"$minKey": 1}`, `{"$maxKey": 1}`, `{"$timestamp": {"t": 1, "i": 1}}`, `{"$binary": {"base64": "AA==", "subType": "00"}}`, `""`,
	})
}

// Values are scalars, arrays and documents, no deeper than depth.
func Values(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return Scalars().Draw(t, "scalar")
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 4:
			return rapid.SampledFrom([]string{`[[1, 2]]`, `[[{"x": 1}]]`, `[[[1]], 2]`, `[{"x": [[1]]}]`}).Draw(t, "array in an array")
		case 0, 1:
			return "[" + strings.Join(rapid.SliceOfN(Values(depth-1), 0, 3).Draw(t, "array"), ",") + "]"
		case 2, 3:
			return Fields([]string{"x", "y"}, depth-1).Draw(t, "object")
		}
		return Scalars().Draw(t, "scalar")
	})
}

// Fields are documents with some of the names, and of those that are no path.
func Fields(names []string, depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		for _, name := range names {
			if rapid.IntRange(0, 4).Draw(t, "has "+name) > 0 {
				parts = append(parts, fmt.Sprintf("%q: %s", name, Values(depth).Draw(t, name)))
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "no path") == 0 {
			parts = append(parts, rapid.SampledFrom([]string{`"a.x": 1`, `"a.x": {"y": 1}`, `"": 1`, `"": {"a": 1, "x": 2}`, `"": [{"a": 1}]`, `"0": 1`, `"0": {"x": 1}`}).Draw(t, "field"))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	})
}

// conditions are filters of one leaf.
func conditions() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		path := rapid.SampledFrom(Paths).Draw(t, "path")
		if rapid.IntRange(0, 7).Draw(t, "leaf") == 0 {
			return expressions().Draw(t, "expression")
		}
		return fmt.Sprintf("{%q: %s}", path, operators(true).Draw(t, "operator"))
	})
}

// expressions are comparisons as $expr has them.
func expressions() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		operands := []string{
			strconv.Quote("$" + rapid.SampledFrom(Paths).Draw(t, "path")),
			fmt.Sprintf(`{"$literal": %s}`, Values(1).Draw(t, "constant")),
		}
		if rapid.Bool().Draw(t, "flipped") {
			slices.Reverse(operands)
		}
		op := rapid.SampledFrom([]string{"$eq", "$eq", "$lt", "$lte", "$gt", "$gte"}).Draw(t, "operator")
		e := fmt.Sprintf(`{%q: [%s]}`, op, strings.Join(operands, ","))
		switch rapid.IntRange(0, 5).Draw(t, "both") {
		case 0:
			e = fmt.Sprintf(`{"$and": [%s, {"$gt": ["$b", null]}]}`, e)
		case 1:
			e = fmt.Sprintf(`{"$or": [%s, {"$eq": [%q, 3]}]}`, e, "$"+rapid.SampledFrom(Paths).Draw(t, "other path"))
		}
		return fmt.Sprintf(`{"$expr": %s}`, e)
	})
}

func operators(deep bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		v := Values(1)
		switch rapid.IntRange(0, 15).Draw(t, "op") {
		case 0, 1, 2:
			return fmt.Sprintf(`{"$eq": %s}`, v.Draw(t, "v"))
		case 3, 4:
			op := rapid.SampledFrom([]string{"$gt", "$gte", "$lt", "$lte"}).Draw(t, "cmp")
			return fmt.Sprintf(`{%q: %s}`, op, v.Draw(t, "v"))
		case 5:
			return fmt.Sprintf(`{"$gte": %s, "$lte": %s}`, Scalars().Draw(t, "lo"), Scalars().Draw(t, "hi"))
		case 6, 7:
			op := rapid.SampledFrom([]string{"$in", "$nin"}).Draw(t, "in")
			return fmt.Sprintf(`{%q: [%s]}`, op, strings.Join(rapid.SliceOfN(v, 0, 3).Draw(t, "list"), ","))
		case 8:
			return fmt.Sprintf(`{"$ne": %s}`, v.Draw(t, "v"))
		case 9:
			return rapid.SampledFrom([]string{`{"$exists": true}`, `{"$exists": false}`}).Draw(t, "exists")
		case 10:
			return rapid.SampledFrom([]string{`{"$type": "string"}`, `{"$type": "number"}`, `{"$type": "array"}`, `{"$type": "object"}`, `{"$size": 1}`, `{"$mod": [2, 0]}`}).Draw(t, "type")
		case 11:
			return rapid.SampledFrom([]string{
				`{"$regex": "^a"}`, `{"$regex": "b"}`, `{"$regex": "^A", "$options": "i"}`, `{"$regex": "^ab*"}`, `{"$regex": "^ab{0,1}$"}`, `{"$regex": "^(a|b)"}`,
				`{"$in": [{"$regularExpression": {"pattern": "^a", "options": ""}}, 2, null]}`,
			}).Draw(t, "regex")
		case 12:
			return fmt.Sprintf(`{"$all": [%s]}`, strings.Join(rapid.SliceOfN(v, 1, 2).Draw(t, "list"), ","))
		case 13:
			return rapid.SampledFrom([]string{`{"$bitsAllSet": 1}`, `{"$bitsAnyClear": 1}`, `{"$type": ["int", "null"]}`, `{"$type": "minKey"}`}).Draw(t, "more")
		}
		if !deep {
			return fmt.Sprintf(`{"$gt": %s}`, Scalars().Draw(t, "v"))
		}
		switch rapid.IntRange(0, 2).Draw(t, "nested") {
		case 0:
			return fmt.Sprintf(`{"$not": %s}`, operators(false).Draw(t, "not"))
		case 1:
			return fmt.Sprintf(`{"$elemMatch": %s}`, operators(false).Draw(t, "element"))
		}
		return fmt.Sprintf(`{"$elemMatch": {"x": %s, "y": %s}}`, operators(false).Draw(t, "x"), operators(false).Draw(t, "y"))
	})
}

// Filters combine conditions.
func Filters(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return conditions().Draw(t, "condition")
		}
		op := rapid.SampledFrom([]string{"", "", "$and", "$and", "$or", "$or", "$nor"}).Draw(t, "logic")
		if op == "" {
			return conditions().Draw(t, "condition")
		}
		return fmt.Sprintf("{%q: [%s]}", op, strings.Join(rapid.SliceOfN(Filters(depth-1), 1, 3).Draw(t, "branches"), ","))
	})
}

// Caseless is a collation.
const Caseless = `{"locale": "en", "strength": 2}`

// Updates are modifiers whose Paths meet those of filters and indexes.
func Updates() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		path := rapid.SampledFrom([]string{"a", "b", "c", "a.x", "b.y", "a.0", "a.$", "a.$[]", "c.$.x", "n"}).Draw(t, "path")
		v := Values(1).Draw(t, "value")
		switch rapid.IntRange(0, 9).Draw(t, "operator") {
		case 0, 1, 2:
			return fmt.Sprintf(`{"$set": {%q: %s}}`, path, v)
		case 3:
			return fmt.Sprintf(`{"$unset": {%q: 1}}`, path)
		case 4:
			return fmt.Sprintf(`{"$inc": {%q: 2}}`, path)
		case 5:
			return fmt.Sprintf(`{"$push": {%q: %s}}`, path, v)
		case 6:
			return fmt.Sprintf(`{"$addToSet": {%q: %s}}`, path, v)
		case 7:
			return fmt.Sprintf(`{"$pull": {%q: %s}}`, path, Scalars().Draw(t, "pulled"))
		case 8:
			return fmt.Sprintf(`{"$max": {%q: %s}, "$rename": {"y": "z"}}`, path, v)
		}
		return fmt.Sprintf(`[{"$set": {"b": "$a"}}, {"$set": {"n": %s}}]`, Scalars().Draw(t, "n"))
	})
}

// Question is a query as it is written.
type Question struct {
	Filter, Sort, Projection, Collation string // "" for none
	Skip, Limit                         int64
}

// Questions are what finds ask: a skip and a limit only with a sort.
func Questions() *rapid.Generator[Question] {
	return rapid.Custom(func(t *rapid.T) Question {
		a := Question{Filter: Filters(2).Draw(t, "filter")}
		if rapid.Bool().Draw(t, "sorted") {
			var parts []string
			for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(Paths), 1, 2, rapid.ID).Draw(t, "sort") {
				parts = append(parts, fmt.Sprintf("%q: %d", p, rapid.SampledFrom([]int{1, -1}).Draw(t, "direction")))
			}
			a.Sort = "{" + strings.Join(parts, ", ") + "}"
			if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
				a.Limit, a.Skip = rapid.Int64Range(1, 9).Draw(t, "limit"), rapid.Int64Range(0, 3).Draw(t, "skip")
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "collated") == 0 {
			a.Collation = Caseless
		}
		if rapid.IntRange(0, 2).Draw(t, "projected") == 0 {
			a.Projection = rapid.SampledFrom([]string{`{"_id": 0, "a": 1}`, `{"_id": 0, "a": 1, "b": 1}`, `{"_id": 0, "a.x": 1}`, `{"_id": 0, "c": 1}`}).Draw(t, "projection")
		}
		return a
	})
}
