package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// anyType is the applies of rules about values of every type.
type anyType struct{}

func (anyType) applies(bson.Type) bool { return true }

// combined is allOf, anyOf or oneOf.
type combined struct {
	anyType
	name    string
	schemas []*schema
}

// excluded is not.
type excluded struct {
	anyType
	schema *schema
}

// enumerated is enum.
type enumerated struct {
	anyType
	spec   bson.Doc // {enum: […]}
	values unorderedSet
}

func (p *parser) logicalRules(s *schema, k keywords) error {
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		v, ok := k[name]
		if !ok {
			continue
		}
		list, err := p.schemaList(name, v)
		if err != nil {
			return err
		}
		s.add(&combined{name: name, schemas: list})
	}
	if v, ok := k["not"]; ok {
		if v.Type != bson.TypeDocument {
			return wrongType("$jsonSchema keyword 'not' must be an object, but found an element of type %s", v.Type)
		}
		sub, err := p.schema(v.Doc())
		if err != nil {
			return err
		}
		s.add(&excluded{schema: sub})
	}
	if v, ok := k["enum"]; ok {
		return s.addEnum(v)
	}
	return nil
}

func (p *parser) schemaList(name string, v bson.Value) ([]*schema, error) {
	if v.Type != bson.TypeArray {
		return nil, wrongType("$jsonSchema keyword '%s' must be an array", name)
	}
	if v.Doc().IsEmpty() {
		return nil, badValue("$jsonSchema keyword '%s' must be a non-empty array", name)
	}
	var list []*schema
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument {
			return nil, wrongType("$jsonSchema keyword '%s' must be an array of objects, but found an element of type %s", name, e.Type)
		}
		sub, err := p.schema(e.Doc())
		if err != nil {
			return nil, err
		}
		list = append(list, sub)
	}
	return list, nil
}

func (s *schema) addEnum(v bson.Value) error {
	if v.Type != bson.TypeArray {
		return wrongType("$jsonSchema keyword 'enum' must be an array, but found an element of type %s", v.Type)
	}
	if v.Doc().IsEmpty() {
		return unparsable("$jsonSchema keyword 'enum' cannot be an empty array")
	}
	values := unorderedSet{}
	for a := range v.Doc().Values() {
		if !values.add(a) {
			return unparsable("$jsonSchema keyword 'enum' array cannot contain duplicate values.")
		}
	}
	s.add(&enumerated{spec: new(bson.Builder).Value("enum", v).Finish(), values: values})
	return nil
}

func (r *combined) keyword() string   { return r.name }
func (r *excluded) keyword() string   { return "not" }
func (r *enumerated) keyword() string { return "enum" }

func (r *combined) accepts(v bson.Value, env *Env) (bool, error) {
	n := 0
	for _, s := range r.schemas {
		ok, err := s.accepts(v, env)
		if err != nil {
			return false, err
		}
		if ok {
			n++
		}
		switch {
		case !ok && r.name == "allOf", n > 1 && r.name == "oneOf":
			return false, nil
		case ok && r.name == "anyOf":
			return true, nil
		}
	}
	return n > 0, nil
}

func (r *excluded) accepts(v bson.Value, env *Env) (bool, error) {
	ok, err := r.schema.accepts(v, env)
	return !ok && err == nil, err
}

func (r *enumerated) accepts(v bson.Value, _ *Env) (bool, error) { return r.values.has(v), nil }

func (r *combined) explain(b *bson.Builder, v bson.Value) error {
	var accepting []int
	for i, s := range r.schemas {
		ok, err := s.accepts(v, nil)
		if err != nil {
			return err
		}
		if ok {
			accepting = append(accepting, i)
		}
	}
	if r.name == "oneOf" && len(accepting) > 0 {
		b.String("reason", "more than one subschema matched").OpenArray("matchingSchemaIndexes")
		for i, at := range accepting {
			b.Int32(bson.Index(i), int32(at))
		}
		b.Close()
		return nil
	}
	b.OpenArray("schemasNotSatisfied")
	n := 0
	for i, s := range r.schemas {
		if len(accepting) > 0 && accepting[0] == i {
			accepting = accepting[1:]
			continue
		}
		b.OpenDoc(bson.Index(n)).Int32("index", int32(i))
		n++
		s.appendTexts(b)
		if err := s.explain(b, "details", v); err != nil {
			return err
		}
		b.Close()
	}
	b.Close()
	return nil
}

func (r *excluded) explain(b *bson.Builder, _ bson.Value) error {
	r.schema.appendTexts(b)
	b.String("reason", "child expression matched")
	return nil
}

func (r *enumerated) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "value was not found in enum").Value("consideredValue", v)
	return nil
}
