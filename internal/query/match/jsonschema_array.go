package match

import "github.com/mayflydb/mayfly/internal/bson"

// arrayOnly is the applies of rules about arrays.
type arrayOnly struct{}

func (arrayOnly) applies(t bson.Type) bool { return t == bson.TypeArray }

// itemCount is minItems or maxItems.
type itemCount struct {
	arrayOnly
	name string
	spec bson.Doc
	n    int64
}

// distinct is uniqueItems: true.
type distinct struct {
	arrayOnly
	spec bson.Doc
}

// eachItem is items with one schema, or additionalItems with one: it is about
// the items from index from on.
type eachItem struct {
	arrayOnly
	name   string
	from   int
	schema *schema
}

// itemList is items with a list of schemas, one for each of the first items.
type itemList struct {
	arrayOnly
	schemas []*schema
}

// noMoreItems is additionalItems: false.
type noMoreItems struct {
	arrayOnly
	from int
	spec bson.Doc
}

func (p *parser) arrayRules(s *schema, k keywords) error {
	for _, name := range []string{"minItems", "maxItems"} {
		n, ok, err := k.length(name)
		if err != nil {
			return err
		}
		if ok {
			s.add(&itemCount{name: name, spec: k.spec(name), n: n})
		}
	}
	unique, _, err := k.boolean("uniqueItems")
	if err != nil {
		return err
	}
	if unique {
		s.add(&distinct{spec: k.spec("uniqueItems")})
	}
	return p.itemRules(s, k)
}

func (p *parser) itemRules(s *schema, k keywords) error {
	items, ok := k["items"]
	from := -1 // additionalItems means something only next to a list
	switch {
	case !ok:
	case items.Type == bson.TypeDocument:
		sub, err := p.schema(items.Doc())
		if err != nil {
			return err
		}
		s.add(&eachItem{name: "items", schema: sub})
	case items.Type == bson.TypeArray:
		list := &itemList{}
		for e := range items.Doc().Values() {
			if e.Type != bson.TypeDocument {
				return wrongType("$jsonSchema keyword 'items' requires that each element of the array is an object, but found a %s", e.Type)
			}
			sub, err := p.schema(e.Doc())
			if err != nil {
				return err
			}
			list.schemas = append(list.schemas, sub)
		}
		s.add(list)
		from = len(list.schemas)
	default:
		return wrongType("$jsonSchema keyword 'items' must be an array or an object, not %s", items.Type)
	}
	return p.additionalItems(s, k, from)
}

func (p *parser) additionalItems(s *schema, k keywords, from int) error {
	v, ok := k["additionalItems"]
	switch {
	case !ok:
	case v.Type == bson.TypeBool:
		if from >= 0 && !v.Bool() {
			s.add(&noMoreItems{from: from, spec: k.spec("additionalItems")})
		}
	case v.Type == bson.TypeDocument:
		sub, err := p.schema(v.Doc())
		if err != nil {
			return err
		}
		if from >= 0 {
			s.add(&eachItem{name: "additionalItems", from: from, schema: sub})
		}
	default:
		return wrongType("$jsonSchema keyword 'additionalItems' must be either an object or a boolean, but got a %s", v.Type)
	}
	return nil
}

func (r *itemCount) keyword() string   { return r.name }
func (r *distinct) keyword() string    { return "uniqueItems" }
func (r *eachItem) keyword() string    { return r.name }
func (r *itemList) keyword() string    { return "items" }
func (r *noMoreItems) keyword() string { return "additionalItems" }

func (r *itemCount) accepts(v bson.Value, _ *Env) (bool, error) {
	n := int64(v.Doc().Len())
	if r.name == "maxItems" {
		return n <= r.n, nil
	}
	return n >= r.n, nil
}

func (r *distinct) accepts(v bson.Value, _ *Env) (bool, error) {
	return r.duplicate(v).IsMissing(), nil
}

// duplicate is the first item that occurred before, or Missing.
func (r *distinct) duplicate(v bson.Value) bson.Value {
	seen := unorderedSet{}
	for item := range v.Doc().Values() {
		if !seen.add(item) {
			return item
		}
	}
	return bson.Value{}
}

func (r *eachItem) accepts(v bson.Value, env *Env) (bool, error) {
	i, _, err := r.failing(v, env)
	return i < 0, err
}

// failing is the first item that the schema rejects, and its index or -1.
func (r *eachItem) failing(v bson.Value, env *Env) (int, bson.Value, error) {
	i := 0
	for it := v.Doc().Iter(); it.Next(); i++ {
		if i < r.from {
			continue
		}
		if ok, err := r.schema.accepts(it.Value, env); !ok || err != nil {
			return i, it.Value, err
		}
	}
	return -1, bson.Value{}, nil
}

func (r *itemList) accepts(v bson.Value, env *Env) (bool, error) {
	i := 0
	for it := v.Doc().Iter(); i < len(r.schemas) && it.Next(); i++ {
		if ok, err := r.schemas[i].accepts(it.Value, env); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *noMoreItems) accepts(v bson.Value, _ *Env) (bool, error) {
	return v.Doc().Len() <= r.from, nil
}

func (r *itemCount) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "array did not match specified length")
	b.Value("consideredValue", v).Int32("numberOfItems", int32(v.Doc().Len()))
	return nil
}

func (r *distinct) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "found a duplicate item")
	b.Value("consideredValue", v).Value("duplicatedValue", r.duplicate(v))
	return nil
}

func (r *eachItem) explain(b *bson.Builder, v bson.Value) error {
	i, item, err := r.failing(v, nil)
	if err != nil {
		return err
	}
	r.schema.appendTexts(b)
	if r.name == "items" {
		b.String("reason", "At least one item did not match the sub-schema")
	} else {
		b.String("reason", "At least one additional item did not match the sub-schema")
	}
	return r.schema.explain(b.Int32("itemIndex", int32(i)), "details", item)
}

func (r *itemList) explain(b *bson.Builder, v bson.Value) error {
	b.OpenArray("details")
	i, n := 0, 0
	for it := v.Doc().Iter(); i < len(r.schemas) && it.Next(); i++ {
		ok, err := r.schemas[i].accepts(it.Value, nil)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		b.OpenDoc(bson.Index(n)).Int32("itemIndex", int32(i))
		n++
		r.schemas[i].appendTexts(b)
		if err := r.schemas[i].explain(b, "details", it.Value); err != nil {
			return err
		}
		b.Close()
	}
	b.Close()
	return nil
}

func (r *noMoreItems) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "found additional items").OpenArray("additionalItems")
	for i, item := range v.Doc().Slice()[r.from:] {
		b.Value(bson.Index(i), item)
	}
	b.Close()
	return nil
}
