package match

import "github.com/mayflydb/mayfly/internal/bson"

// dependency says what must hold for an object that has the field: other fields,
// or a schema.
type dependency struct {
	name   string
	names  []string
	schema *schema
}

// dependencies is the keyword of that name.
type dependencies struct {
	objectOnly
	list []dependency
}

func (p *parser) dependencies(s *schema, k keywords) error {
	v, ok := k["dependencies"]
	if !ok {
		return nil
	}
	if v.Type != bson.TypeDocument {
		return wrongType("$jsonSchema keyword 'dependencies' must be an object")
	}
	r := &dependencies{}
	for it := v.Doc().Iter(); it.Next(); {
		d := dependency{name: it.Key}
		var err error
		switch it.Value.Type {
		case bson.TypeArray:
			d.names, err = schemaStrings("dependencies", it.Value)
		case bson.TypeDocument:
			d.schema, err = p.schema(it.Value.Doc())
		default:
			err = wrongType("$jsonSchema keyword 'dependencies' must map property names to objects or arrays, not to %s", it.Value.Type)
		}
		if err != nil {
			return err
		}
		r.list = append(r.list, d)
	}
	s.add(r)
	return nil
}

func (r *dependencies) keyword() string { return "dependencies" }

func (r *dependencies) accepts(v bson.Value, env *Env) (bool, error) {
	for _, d := range r.list {
		if ok, err := d.accepts(v, env); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (d *dependency) accepts(v bson.Value, env *Env) (bool, error) {
	if !v.Doc().Has(d.name) {
		return true, nil
	}
	if d.schema != nil {
		return d.schema.accepts(v, env)
	}
	for _, name := range d.names {
		if !v.Doc().Has(name) {
			return false, nil
		}
	}
	return true, nil
}

func (r *dependencies) explain(b *bson.Builder, v bson.Value) error {
	b.OpenArray("failingDependencies")
	n := 0
	for _, d := range r.list {
		ok, err := d.accepts(v, nil)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		b.OpenDoc(bson.Index(n)).String("conditionalProperty", d.name)
		n++
		if d.schema == nil {
			appendAbsent(b, v, d.names)
		} else if err := d.schema.explain(b, "details", v); err != nil {
			return err
		}
		b.Close()
	}
	b.Close()
	return nil
}
