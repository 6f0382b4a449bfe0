package cosmos

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// An ORDER BY whose first property has an index reads the items in its order: type by
// type, as the query language orders them, and within a type as the index does. Items
// with equal first keys are sorted by the others, one run at a time. So the first page
// of a large container reads only the first entries, and the next one continues at the
// key where it ended.

// orderClass is a type in the order of the query language, with the filter for its
// values, and whether a range of them can be bounded.
type orderClass struct {
	types  []string
	ranged bool
}

// orderClasses leave arrays out: an index that has seen one is not used.
var orderClasses = []orderClass{
	{}, // undefined
	{types: []string{"null"}},
	{types: []string{"bool"}, ranged: true},
	{types: []string{"number"}, ranged: true},
	{types: []string{"string"}, ranged: true},
	{types: []string{"object", "binData", "objectId", "date", "regex", "timestamp", "minKey", "maxKey"}},
}

// classOf returns the index of a key's class.
func classOf(key bson.Value) int {
	switch {
	case key.IsMissing():
		return 0
	case key.Type == bson.TypeNull:
		return 1
	case key.Type == bson.TypeBool:
		return 2
	case key.IsNumber():
		return 3
	case key.Type == bson.TypeString:
		return 4
	}
	return classObject
}

// classObject is the class of what no other has.
const classObject = 5

// filter returns the filter for the values of a class at a path, starting at key if
// that is one of them and bounded is set.
func (c orderClass) filter(path string, key bson.Value, bounded, descending bool) bson.Doc {
	var b bson.Builder
	if len(c.types) == 0 || c.types[0] == "null" {
		// An index has one entry for both, which the first condition finds.
		b.OpenArray("$and").OpenDoc("0").Value(path, bson.Null).Close().OpenDoc("1").OpenDoc(path)
		if len(c.types) == 0 {
			b.Bool("$exists", false)
		} else {
			b.Strings("$type", c.types...)
		}
		return b.Close().Close().Close().Finish()
	}
	b.OpenDoc(path)
	b.Strings("$type", c.types...)
	if bounded && c.ranged {
		op := "$gte"
		if descending {
			op = "$lte"
		}
		b.Value(op, key)
	}
	return b.Close().Finish()
}

// orderPath returns the first property of the query's ORDER BY, "" if it cannot read in
// that order.
func (p *pager) orderPath() string {
	s := p.shape
	if len(s.OrderByPaths) == 0 || s.GroupBy || s.Staged || len(s.Aggregates) > 0 || nosql.InRenamed(s.OrderByPaths[0]) {
		return ""
	}
	return s.OrderByPaths[0]
}

// itemsInOrder runs the query over the items in the order of its first key, if there is
// an index for it. It returns false if they have to be sorted.
func (p *pager) itemsInOrder(run *nosql.Run, filter bson.Doc) (bool, error) {
	path := p.orderPath()
	if path == "" || p.c.collection == nil {
		return false, nil
	}
	sort, indexed := p.inOrderOf(path)
	if !indexed {
		return false, nil
	}
	run.InOrder()
	p.inOrder, p.collecting = true, false
	descending := p.shape.OrderByDescending[0]
	first, bounded := 0, false
	if descending {
		first = len(orderClasses) - 1
	}
	var from bson.Value
	if p.behind != nil && !p.shape.Distinct {
		from, bounded = p.behind.Keys[0], true
		first = classOf(from)
	}
	for i := first; i >= 0 && i < len(orderClasses); i += int(direction(descending)) {
		class := orderClasses[i].filter(path, from, bounded && i == first, descending)
		examined, err := p.r.find(p.c.collection, both(filter, class), sort, 0, func(d bson.Doc) (bool, error) { return p.take(run, d) })
		p.examined += examined
		if err != nil || p.next != nil {
			return true, err
		}
	}
	return true, nil
}

func both(a, b bson.Doc) bson.Doc {
	if a.IsEmpty() {
		return b
	}
	return new(bson.Builder).OpenArray("$and").Doc("0", a).Doc("1", b).Close().Finish()
}

// inOrderOf is the order in which the items are read, and reports whether there is
// an index that has it: the composite one if there is one, so that what is
// sorted is sorted already, but for types.
func (p *pager) inOrderOf(path string) (sort bson.Doc, indexed bool) {
	now, descending := p.c.collection.Latest(), p.shape.OrderByDescending
	var b bson.Builder
	if ix := p.c.indexing.sorting(p.shape); ix != nil && orderIndex(now, ix.name()) {
		for i, path := range p.shape.OrderByPaths {
			b.Int32(path, direction(descending[i]))
		}
		return b.Int32(fieldNumber, direction(descending[0])).Finish(), true
	}
	b.Int32(path, direction(descending[0])).Int32(fieldNumber, direction(descending[0]))
	return b.Finish(), orderIndex(now, pathIndexPrefix+path)
}

// orderIndex reports whether there is an index of a name that has exactly one entry for
// each item.
func orderIndex(c *catalog.Collection, name string) bool {
	if c == nil {
		return false
	}
	ix := c.Index(name)
	return ix != nil && ix.Ready && !ix.Multikey().Any()
}

// sorting returns the composite index that has the order of an ORDER BY on several
// properties, or nil.
func (p indexPolicy) sorting(s nosql.Shape) compositeIndex {
	if len(s.OrderByPaths) > 1 {
		for _, ix := range p.composite {
			if ix.sorts(s.OrderByPaths, s.OrderByDescending) {
				return ix
			}
		}
	}
	return nil
}

// wantOrder requests an index with the order of a query, if its page needed few of the
// items that it sorted.
func (p *pager) wantOrder() {
	path := p.orderPath()
	if path == "" || p.inOrder || p.c.collection == nil || !wasted(p.examined, int64(p.rows.n)) {
		return
	}
	name := pathIndexPrefix + path
	if ix := p.c.indexing.sorting(p.shape); ix != nil {
		name = ix.name()
	}
	if now := p.c.collection.Latest(); now != nil && p.c.indexing.allows(name) && !hasIndex(now, name) {
		p.r.s.wantIndex(p.c, name)
	}
}
