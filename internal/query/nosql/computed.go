package nosql

import "github.com/mayflydb/mayfly/internal/bson"

// Computed are the computed properties of a container: queries over one item, by the
// names of the properties that have their values. (Cosmos DB: "Computed properties".)
type Computed map[string]*Query

// computed is a computed property of the item that an alias stands for: its
// stored property of that name, if it has one.
type computed struct {
	of    *property
	query *Query
}

func (e *computed) eval(env *env) (bson.Value, error) {
	v, err := e.of.eval(env)
	if err != nil || !v.IsMissing() {
		return v, err
	}
	item, err := e.of.of.eval(env)
	if err != nil || item.Type != bson.TypeDocument {
		return bson.Value{}, err
	}
	run := e.query.Start(env.now, func(row bson.Value) bool { v = row.Clone(); return false })
	run.env.meter = env.meter
	made := env.made
	if _, err := run.Add(item.Doc()); err != nil {
		return bson.Value{}, err
	}
	if err := run.Finish(); err != nil {
		return bson.Value{}, err
	}
	env.made = made
	return v, env.makes(len(v.Data))
}

// member makes the expression of a property of e: a computed one where e is
// the container's alias and there is one of that name.
func (p *parser) member(e, key expression) expression {
	prop := &property{e, key}
	of, isAlias := e.(*alias)
	name, isName := key.(*constant)
	if !isAlias || !isName || !isText(name.v) || !p.items[of.slot] {
		return prop
	}
	if q := p.computed[name.v.Str()]; q != nil {
		return &computed{of: prop, query: q}
	}
	return prop
}
