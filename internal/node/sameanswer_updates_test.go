package node

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

var changedPaths = []string{"a", "b", "c", "a.x", "b.y", "a.0", "b.1", "a.$", "a.$[]", "c.$.x", "b.$[i]", "a.$[].x", "b.$[i].x", "c.x.0", "n"}

func setting(op string) func(*rapid.T) string {
	return func(t *rapid.T) string {
		return fmt.Sprintf("{%s: {%q: %s}}", op, rapid.SampledFrom(changedPaths).Draw(t, "path"), propertyValue(1).Draw(t, "value"))
	}
}

func setTo(op string, arguments ...string) func(*rapid.T) string {
	return func(t *rapid.T) string {
		return fmt.Sprintf("{%s: {%q: %s}}", op, rapid.SampledFrom(changedPaths).Draw(t, "path"), anyOf(arguments...)(t))
	}
}

// modifiers are the update operators, what is written for each.
var modifiers = map[string]func(*rapid.T) string{
	"$addToSet":    setting("$addToSet"),
	"$bit":         setTo("$bit", "{and: 3}", "{or: NumberLong(5)}", "{xor: 1}"),
	"$currentDate": anyOf("{$currentDate: {now: true}}", "{$currentDate: {now: {$type: 'timestamp'}}, $set: {c: 1}}"),
	"$inc":         setTo("$inc", "1", "-1.5", "NumberDecimal('0.1')", "NumberLong(2)"),
	"$max":         setting("$max"),
	"$min":         setting("$min"),
	"$mul":         setTo("$mul", "2", "-0.0", "NumberDecimal('2.0')"),
	"$pop":         setTo("$pop", "1", "-1"),
	"$pull": func(t *rapid.T) string {
		argument := propertyValue(1).Draw(t, "value")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			argument = leafOperator(t)
		case 1:
			argument = "{x: " + leafOperator(t) + "}"
		}
		return fmt.Sprintf("{$pull: {%q: %s}}", rapid.SampledFrom(changedPaths).Draw(t, "path"), argument)
	},
	"$pullAll": func(t *rapid.T) string {
		return fmt.Sprintf("{$pullAll: {%q: [%s]}}", rapid.SampledFrom(changedPaths).Draw(t, "path"), strings.Join(rapid.SliceOfN(propertyValue(1), 0, 3).Draw(t, "list"), ", "))
	},
	"$push":   setting("$push"),
	"$rename": anyOf("{$rename: {a: 'b'}}", "{$rename: {'a.x': 'c'}}", "{$rename: {b: 'c.x', u: 'n'}}"),
	"$set":    setting("$set"),
	"$setOnInsert": func(t *rapid.T) string {
		return "{$setOnInsert: {b: " + propertyValue(1).Draw(t, "value") + "}, $set: {c: 5}}"
	},
	"$unset": setTo("$unset", "1"),
	// The modifiers of $push and $addToSet.
	"$each":            setTo("$push", "{$each: [1, 'a']}", "{$each: []}", "{$each: [[1], {x: 2}, null]}"),
	"$slice":           setTo("$push", "{$each: [1, 2], $slice: 2}", "{$each: [], $slice: -1}", "{$each: [3], $slice: 0}"),
	"$sort":            setTo("$push", "{$each: [1, 'a', {x: 1}], $sort: -1}", "{$each: [{x: 2}], $sort: {x: 1}}", "{$each: [], $sort: 1, $slice: 2}"),
	"$position":        setTo("$push", "{$each: [1], $position: 0}", "{$each: ['b'], $position: -1}"),
	"$each, $addToSet": setTo("$addToSet", "{$each: [1, 'a', 1.0]}"),
	"place": func(t *rapid.T) string {
		return "{$set: {g: {type: 'Point', coordinates: " + propertyPoint.Draw(t, "g") + "}, p: " + propertyPoint.Draw(t, "p") + "}}"
	},
	"text":        func(t *rapid.T) string { return "{$set: {s: '" + propertyWords.Draw(t, "word") + "'}, $inc: {u: 1}}" },
	"replacement": propertyDocument,
	"delete":      func(*rapid.T) string { return "" },
}

// updateStages are the stages of an update by pipeline.
var updateStages = map[string]func(*rapid.T) string{
	"$addFields":       anyOf("{$addFields: {b: '$a'}}", "{$addFields: {'a.x': '$u', n: [1, '$c']}}"),
	"$project":         anyOf("{$project: {a: 1, u: 1}}", "{$project: {c: 0}}", "{$project: {u: 1, b: {$ifNull: ['$a', '$c']}}}"),
	"$replaceRoot":     anyOf("{$replaceRoot: {newRoot: {u: '$u', a: '$b', b: '$a'}}}"),
	"$replaceWith":     anyOf("{$replaceWith: {$mergeObjects: ['$$ROOT', {a: 2}]}}"),
	"$set":             anyOf("{$set: {c: {$concatArrays: [[1], ['$a']]}}}", "{$set: {b: {x: '$c'}}}"),
	"$unset":           anyOf("{$unset: 'a'}", "{$unset: ['b.x', 'c']}"),
	"$fill, by values": anyOf("{$fill: {output: {a: {value: 2}, n: {value: '$u'}}}}"),
}

// allUpdates are the names of both, "stage …" those of the second.
func allUpdates() []string {
	names := slices.Collect(maps.Keys(modifiers))
	for name := range updateStages {
		names = append(names, "stage "+name)
	}
	slices.Sort(names)
	return names
}

// statement draws an update or a delete: a command whose collection is yet to be
// named.
func statement(t *rapid.T, name string) (text string, one bool) {
	var by string
	if stage, ok := strings.CutPrefix(name, "stage "); ok {
		by = "[" + updateStages[stage](t) + "]"
	} else {
		by = modifiers[name](t)
	}
	filter := propertyFilter(t, 1)
	one = name == "replacement" || rapid.Bool().Draw(t, "one")
	if one {
		filter = fmt.Sprintf("{_id: %d, $and: [%s]}", rapid.IntRange(0, 30).Draw(t, "_id"), filter)
	}
	collation := ""
	if rapid.IntRange(0, 4).Draw(t, "collated") == 0 {
		collation = ", collation: " + letterless
	}
	if by == "" {
		return fmt.Sprintf("{delete: %%q, deletes: [{q: %s, limit: 0%s}]}", filter, collation), one
	}
	filters := ""
	if strings.Contains(by, "$[i]") {
		filters = ", arrayFilters: [" + anyOf("{i: {$gt: 1}}", "{'i.x': {$exists: true}}", "{$or: [{i: 'a'}, {i: null}, {'i.x': 1}]}")(t) + "]"
	}
	if one && rapid.IntRange(0, 2).Draw(t, "findAndModify") == 0 {
		projection := anyOf("", ", fields: {u: 1, a: 1}", ", new: true")(t)
		return fmt.Sprintf("{findAndModify: %%q, query: %s, update: %s, upsert: %v%s%s%s}", filter, by, rapid.Bool().Draw(t, "upsert"), projection, filters, collation), one
	}
	upsert := one && rapid.Bool().Draw(t, "upsert")
	return fmt.Sprintf("{update: %%q, updates: [{q: %s, u: %s, multi: %v, upsert: %v%s%s}]}", filter, by, !one, upsert, filters, collation), one
}

var madeID = regexp.MustCompile(`ObjectId\('[0-9a-f]*'\)`)

// outcome is what a statement replies, and what it left.
func outcome(t *rapid.T, w *answering, coll, text string) (reply string, left []string, refused bool) {
	d, err := w.run(t, text, coll)
	if errs := d.Lookup("writeErrors"); err == nil && errs.Type == bson.TypeArray {
		err = fmt.Errorf("%s", errs)
	}
	for _, name := range []string{"n", "nModified", "upserted", "value", "lastErrorObject"} {
		v := d.Lookup(name)
		if name == "value" && v.Type == bson.TypeDocument {
			reply += strings.Join(tidyDocs(bson.Array(v).Doc(), false), "")
			continue
		}
		reply += fmt.Sprintf("%s: %s ", name, madeID.ReplaceAllString(v.String(), "made"))
	}
	q := question{filter: "{}"}
	left, ferr := w.find(t, coll, q, ", hint: {$natural: 1}")
	if ferr != nil {
		t.Fatalf("%v", ferr)
	}
	return reply, left, err != nil
}

// change makes the same change everywhere; false where a collection refused it,
// so that they now differ.
func (w *answering) change(t *rapid.T, name string) bool {
	text, one := statement(t, name)
	w.changed = true
	want, docs, refused := outcome(t, w, "plain", text)
	if refused && !one {
		return false
	}
	for _, coll := range []string{"indexed", "clustered"} {
		got, left, no := outcome(t, w, coll, text)
		if no && !refused {
			return false // an index may refuse a document
		}
		if !no && refused || got != want || !slices.Equal(left, docs) {
			w.sound(t, text)
			t.Fatalf(text+": %s\n%s\nnot %s\n%s\nindexes %s", coll, got, strings.Join(left, "\n"), want, strings.Join(docs, "\n"),
				w.must(t, "{listIndexes: %q}", coll).Lookup("cursor"))
		}
	}
	return true
}
