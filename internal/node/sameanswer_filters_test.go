package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// The documents of TestSameAnswer have their fields a, b and c of any shape, u
// small and often alone, s text for the search, g a GeoJSON point, p a pair of
// coordinates; few names and few values, so that things meet.
var propertyPaths = []string{"a", "b", "c", "a.x", "a.y", "b.x", "c.x", "a.0", "a.x.0", "a.0.x", "b.1", "_id", "u"}

var propertyScalars = rapid.SampledFrom([]string{
	"0", "1", "2", "3", "1.5", "'a'", "'A'", "'ab'", "'b'", "''", "null", "true", "false", "ISODate('2024-01-01T00:00:00Z')",
	"NumberDecimal('2')", "NumberDecimal('2.0')", "NumberDecimal('1.5')", "NumberLong(1)", "NaN", "NumberDecimal('NaN')", "-0.0", "-1", "undefined", "MinKey", "MaxKey", "/a/",
	"NumberLong('9223372036854775807')", "1e300", "NumberDecimal('0.1')", "0.1", "Infinity", "'" + strings.Repeat("long", 30) + "'", "BinData(0, 'AQ==')", "Timestamp(1, 2)",
})

func propertyValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return propertyScalars.Draw(t, "scalar")
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2:
			return "[" + strings.Join(rapid.SliceOfN(propertyValue(depth-1), 0, 3).Draw(t, "array"), ", ") + "]"
		case 3, 4:
			return propertyFields([]string{"x", "y", "0"}, depth-1).Draw(t, "object")
		}
		return propertyScalars.Draw(t, "scalar")
	})
}

func propertyFields(names []string, depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		for _, name := range names {
			if rapid.IntRange(0, 4).Draw(t, "has "+name) > 0 {
				parts = append(parts, fmt.Sprintf("%q: %s", name, propertyValue(depth).Draw(t, name)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	})
}

var (
	propertyWords = rapid.SampledFrom([]string{"apple", "apples", "red", "Red", "the", "pear tree"})
	propertyPoint = rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("[%d, %d]", rapid.IntRange(-4, 4).Draw(t, "x"), rapid.IntRange(-4, 4).Draw(t, "y"))
	})
)

// propertyDocument draws a document without its _id.
func propertyDocument(t *rapid.T) string {
	d := propertyFields([]string{"a", "b", "c"}, 2).Draw(t, "document")
	more := []string{fmt.Sprintf("u: %d", rapid.IntRange(0, 40).Draw(t, "u"))}
	if rapid.Bool().Draw(t, "text") {
		more = append(more, "s: '"+propertyWords.Draw(t, "word")+" "+propertyWords.Draw(t, "word")+"'")
	}
	if rapid.Bool().Draw(t, "place") {
		more = append(more, "g: {type: 'Point', coordinates: "+propertyPoint.Draw(t, "point")+"}", "p: "+propertyPoint.Draw(t, "pair"))
	}
	if d != "{}" {
		more = append(more, d[1:len(d)-1])
	}
	return "{" + strings.Join(more, ", ") + "}"
}

func anyOf(choices ...string) func(*rapid.T) string {
	return func(t *rapid.T) string { return rapid.SampledFrom(choices).Draw(t, "choice") }
}

func withValue(op string) func(*rapid.T) string {
	return func(t *rapid.T) string { return fmt.Sprintf("{%s: %s}", op, propertyValue(1).Draw(t, "value")) }
}

func withList(op string, least int) func(*rapid.T) string {
	return func(t *rapid.T) string {
		return fmt.Sprintf("{%s: [%s]}", op, strings.Join(rapid.SliceOfN(propertyValue(1), least, 4).Draw(t, "list"), ", "))
	}
}

// fieldOperators are the operators behind a path: what is written for it.
var fieldOperators = map[string]func(*rapid.T) string{
	"$all":          withList("$all", 0),
	"$bitsAllClear": anyOf("{$bitsAllClear: 2}", "{$bitsAllClear: [0, 1]}"),
	"$bitsAllSet":   anyOf("{$bitsAllSet: 1}", "{$bitsAllSet: [0]}"),
	"$bitsAnyClear": anyOf("{$bitsAnyClear: 3}", "{$bitsAnyClear: BinData(0, 'AQ==')}"),
	"$bitsAnySet":   anyOf("{$bitsAnySet: 3}", "{$bitsAnySet: [1, 5]}"),
	"$eq":           withValue("$eq"),
	"$exists":       anyOf("{$exists: true}", "{$exists: false}", "{$exists: 0}"),
	"$gt":           withValue("$gt"),
	"$gte":          withValue("$gte"),
	"$in":           withList("$in", 0),
	"$lt":           withValue("$lt"),
	"$lte":          withValue("$lte"),
	"$mod":          anyOf("{$mod: [2, 0]}", "{$mod: [2, 1]}", "{$mod: [-3, 0]}"),
	"$ne":           withValue("$ne"),
	"$nin":          withList("$nin", 0),
	"$options":      anyOf("{$regex: '^A', $options: 'i'}", "{$options: 'm', $regex: 'b$'}"),
	"$regex":        anyOf("{$regex: '^a'}", "{$regex: 'b'}", "{$regex: /^$/}", "{$in: [/^a/, 1]}", "{$regex: '^long'}"),
	"$size":         anyOf("{$size: 0}", "{$size: 1}", "{$size: 2}"),
	"$type":         anyOf("{$type: 'string'}", "{$type: 'number'}", "{$type: ['array', 'null']}", "{$type: 'object'}", "{$type: 6}", "{$type: 'double'}", "{$type: 'decimal'}", "{$type: ['minKey', 'bool']}"),
}

// leafOperators stand below $not and $elemMatch.
var leafOperators = slices.Sorted(maps.Keys(fieldOperators))

func leafOperator(t *rapid.T) string {
	return fieldOperators[rapid.SampledFrom(leafOperators).Draw(t, "operator")](t)
}

// nestedOperators have others in them.
var nestedOperators = map[string]func(*rapid.T) string{
	"$not": func(t *rapid.T) string { return "{$not: " + leafOperator(t) + "}" },
	"$elemMatch": func(t *rapid.T) string {
		switch rapid.IntRange(0, 2).Draw(t, "element") {
		case 0:
			return "{$elemMatch: " + leafOperator(t) + "}"
		case 1:
			return fmt.Sprintf("{$elemMatch: {x: %s, y: %s}}", leafOperator(t), leafOperator(t))
		}
		return fmt.Sprintf("{$elemMatch: {$or: [{x: %s}, {'0': %s}]}}", leafOperator(t), leafOperator(t))
	},
}

// shapes are places that a containment is asked of.
var shapes = anyOf("{$geometry: {type: 'Polygon', coordinates: [[[-2, -2], [3, -2], [3, 2], [-2, 2], [-2, -2]]]}}", "{$box: [[-1, -1], [3, 3]]}",
	"{$center: [[0, 0], 2]}", "{$centerSphere: [[1, 1], 0.05]}", "{$polygon: [[-3, -3], [3, -3], [0, 4]]}")

// places are the operators of places: whole filters.
var places = map[string]func(*rapid.T) string{
	"$geoWithin": func(t *rapid.T) string {
		return fmt.Sprintf("{%s: {$geoWithin: %s}}", anyOf("g", "p")(t), shapes(t))
	},
	"$within": func(t *rapid.T) string { return fmt.Sprintf("{%s: {$within: %s}}", anyOf("g", "p")(t), shapes(t)) },
	"$geoIntersects": func(t *rapid.T) string {
		return "{g: {$geoIntersects: {$geometry: " + anyOf("{type: 'Point', coordinates: [1, 1]}", "{type: 'LineString', coordinates: [[-3, 0], [3, 0]]}",
			"{type: 'Polygon', coordinates: [[[-2, -2], [3, -2], [3, 2], [-2, 2], [-2, -2]]]}")(t) + "}}}"
	},
	"$near": func(t *rapid.T) string {
		return anyOf("{p: {$near: [0, 0]}}", "{p: {$near: [1, 1], $maxDistance: 3}}", "{g: {$near: {$geometry: {type: 'Point', coordinates: [1, 1]}, $maxDistance: 300000, $minDistance: 1000}}}")(t)
	},
	"$nearSphere": func(t *rapid.T) string {
		return anyOf("{p: {$nearSphere: [0, 0], $maxDistance: 0.05}}", "{g: {$nearSphere: {$geometry: {type: 'Point', coordinates: [0, 2]}}}}")(t)
	},
	"$geoNear": anyOf("{p: {$geoNear: [1, 0], $maxDistance: 3}}"),
}

// logicOperators combine filters.
var logicOperators = []string{"$and", "$nor", "$or"}

func branches(t *rapid.T, depth int) string {
	list := make([]string, rapid.IntRange(1, 3).Draw(t, "branches"))
	for i := range list {
		list[i] = propertyFilter(t, depth-1)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// documentOperators are those in the place of a path: whole filters.
var documentOperators = map[string]func(t *rapid.T) string{
	"$alwaysFalse": func(*rapid.T) string { return "{$alwaysFalse: 1}" },
	"$alwaysTrue":  func(*rapid.T) string { return "{$alwaysTrue: 1}" },
	"$comment":     func(t *rapid.T) string { return "{$comment: 'why', a: " + leafOperator(t) + "}" },
	"$expr": func(t *rapid.T) string {
		operands := []string{"'$" + rapid.SampledFrom(propertyPaths).Draw(t, "path") + "'", "{$literal: " + propertyValue(1).Draw(t, "constant") + "}"}
		if rapid.Bool().Draw(t, "flipped") {
			slices.Reverse(operands)
		}
		e := fmt.Sprintf("{%s: [%s]}", anyOf("$eq", "$lt", "$lte", "$gt", "$gte", "$ne")(t), strings.Join(operands, ", "))
		return "{$expr: " + anyOf(e, "{$and: ["+e+", {$gt: ['$b', null]}]}", "{$or: ["+e+", {$in: ['$u', [1, 2, 3]]}]}")(t) + "}"
	},
	"$jsonSchema": func(t *rapid.T) string {
		return "{$jsonSchema: " + anyOf("{required: ['a', 'b']}", "{properties: {a: {bsonType: 'string', minLength: 1}}}", "{properties: {a: {minimum: 1}, b: {enum: [1, 'a', null]}}}",
			"{properties: {c: {items: {bsonType: 'number'}, maxItems: 2}}, not: {required: ['b']}}", "{dependencies: {a: ['b']}, minProperties: 3}")(t) + "}"
	},
	"$sampleRate": func(t *rapid.T) string { return anyOf("{$sampleRate: 0.0}", "{$sampleRate: 1.0}")(t) },
	"$text": func(t *rapid.T) string {
		return "{$text: {$search: '" + anyOf("apple", "red -pear", "\\\"pear tree\\\"", "the", "Red")(t) + "'}}"
	},
	"$where": func(t *rapid.T) string {
		return anyOf("{$where: 'this.u > 10'}", "{$where: 'return this.a == 1'}", "{$where: 'this.b === undefined'}")(t)
	},
}

// propertyLeaf draws a filter of one operator, or the named one.
func propertyLeaf(t *rapid.T, op string, depth int) string {
	if f := fieldOperators[op]; f != nil {
		return fmt.Sprintf("{%q: %s}", rapid.SampledFrom(propertyPaths).Draw(t, "path"), f(t))
	}
	if f := nestedOperators[op]; f != nil {
		return fmt.Sprintf("{%q: %s}", rapid.SampledFrom(propertyPaths).Draw(t, "path"), f(t))
	}
	if f := places[op]; f != nil {
		return f(t)
	}
	if slices.Contains(logicOperators, op) {
		return "{" + op + ": " + branches(t, depth) + "}"
	}
	return documentOperators[op](t)
}

var (
	simpleOperators = slices.Concat(leafOperators, []string{"$not", "$elemMatch", "$eq", "$eq", "$in", "$gt", "$lt"})
	rareOperators   = []string{"$expr", "$expr", "$geoWithin", "$within", "$geoIntersects", "$alwaysTrue", "$alwaysFalse", "$comment"}
)

// propertyFilter draws a filter of any operator that does not need its index
// nor stand on top.
func propertyFilter(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case depth > 0 && kind < 5:
		return propertyLeaf(t, rapid.SampledFrom([]string{"$and", "$or", "$and", "$or", "$nor"}).Draw(t, "logic"), depth)
	case kind == 9:
		return propertyLeaf(t, rapid.SampledFrom(rareOperators).Draw(t, "rare"), depth)
	case kind == 8:
		path := rapid.SampledFrom(propertyPaths).Draw(t, "path")
		return fmt.Sprintf("{%q: {$gte: %s, $lte: %s}, u: {$gte: 1}}", path, propertyScalars.Draw(t, "low"), propertyScalars.Draw(t, "high"))
	}
	return propertyLeaf(t, rapid.SampledFrom(simpleOperators).Draw(t, "operator"), depth)
}

// allFilterOperators are the names in the order in which they are asked.
func allFilterOperators() []string {
	names := slices.Clone(logicOperators)
	for _, table := range []map[string]func(*rapid.T) string{fieldOperators, nestedOperators, places, documentOperators} {
		names = slices.AppendSeq(names, maps.Keys(table))
	}
	slices.Sort(names)
	return names
}
