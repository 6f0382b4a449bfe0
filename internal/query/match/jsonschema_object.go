package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// objectOnly is the applies of rules about objects.
type objectOnly struct{}

func (objectOnly) applies(t bson.Type) bool { return t == bson.TypeDocument }

// property is a schema for the field of that name.
type property struct {
	name   string
	schema *schema
}

// propertySchemas is properties.
type propertySchemas struct {
	objectOnly
	list []property
}

// patternSchema is a schema for fields whose names match.
type patternSchema struct {
	pattern string
	regex   *Regex
	schema  *schema
}

// patternSchemas is patternProperties.
type patternSchemas struct {
	objectOnly
	list []patternSchema
}

// otherProperties is additionalProperties: false, or one with a schema, about
// the fields that neither properties nor patternProperties speaks of.
type otherProperties struct {
	objectOnly
	named    *propertySchemas
	patterns *patternSchemas
	spec     bson.Doc
	schema   *schema // nil forbids such fields
}

// requiredProperties is required.
type requiredProperties struct {
	objectOnly
	spec  bson.Doc
	names []string
}

// propertyCount is minProperties or maxProperties.
type propertyCount struct {
	objectOnly
	name string
	spec bson.Doc
	n    int64
}

func (p *parser) objectRules(s *schema, k keywords) error {
	named, err := p.properties(k)
	if err != nil {
		return err
	}
	patterns, err := p.patternProperties(k)
	if err != nil {
		return err
	}
	if len(named.list) > 0 {
		s.add(named)
	}
	if err := p.additionalProperties(s, k, named, patterns); err != nil {
		return err
	}
	if len(patterns.list) > 0 {
		s.add(patterns)
	}
	if v, ok := k["required"]; ok {
		if v.Type != bson.TypeArray {
			return wrongType("$jsonSchema keyword 'required' must be an array, but found an element of type %s", v.Type)
		}
		names, err := schemaStrings("required", v)
		if err != nil {
			return err
		}
		s.add(&requiredProperties{spec: k.spec("required"), names: names})
	}
	for _, name := range []string{"minProperties", "maxProperties"} {
		n, ok, err := k.length(name)
		if err != nil {
			return err
		}
		if ok {
			s.add(&propertyCount{name: name, spec: k.spec(name), n: n})
		}
	}
	return p.dependencies(s, k)
}

func (p *parser) properties(k keywords) (*propertySchemas, error) {
	r := &propertySchemas{}
	v, ok := k["properties"]
	if !ok {
		return r, nil
	}
	if v.Type != bson.TypeDocument {
		return nil, wrongType("$jsonSchema keyword 'properties' must be an object")
	}
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, wrongType("Nested schema for $jsonSchema property '%s' must be an object", it.Key)
		}
		sub, err := p.schema(it.Value.Doc())
		if err != nil {
			return nil, err
		}
		r.list = append(r.list, property{it.Key, sub})
	}
	return r, nil
}

func (p *parser) patternProperties(k keywords) (*patternSchemas, error) {
	r := &patternSchemas{}
	v, ok := k["patternProperties"]
	if !ok {
		return r, nil
	}
	if v.Type != bson.TypeDocument {
		return nil, wrongType("$jsonSchema keyword 'patternProperties' must be an object")
	}
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, wrongType("$jsonSchema keyword 'patternProperties' has property '%s' which is not an object", it.Key)
		}
		regex, err := NewRegex("", it.Key, "")
		if err != nil {
			return nil, badValue("Invalid regular expression in $jsonSchema keyword 'patternProperties': %s", it.Key)
		}
		sub, err := p.schema(it.Value.Doc())
		if err != nil {
			return nil, err
		}
		r.list = append(r.list, patternSchema{it.Key, regex, sub})
	}
	return r, nil
}

func (p *parser) additionalProperties(s *schema, k keywords, named *propertySchemas, patterns *patternSchemas) error {
	v, ok := k["additionalProperties"]
	if !ok {
		return nil
	}
	r := &otherProperties{named: named, patterns: patterns, spec: k.spec("additionalProperties")}
	switch {
	case v.Type == bson.TypeBool && v.Bool():
		return nil
	case v.Type == bson.TypeBool:
	case v.Type == bson.TypeDocument:
		var err error
		if r.schema, err = p.schema(v.Doc()); err != nil {
			return err
		}
	default:
		return wrongType("$jsonSchema keyword 'additionalProperties' must be an object or a boolean")
	}
	s.add(r)
	return nil
}

func (r *propertySchemas) keyword() string    { return "properties" }
func (r *patternSchemas) keyword() string     { return "patternProperties" }
func (r *otherProperties) keyword() string    { return "additionalProperties" }
func (r *requiredProperties) keyword() string { return "required" }
func (r *propertyCount) keyword() string      { return r.name }

func (r *propertySchemas) accepts(v bson.Value, env *Env) (bool, error) {
	for _, p := range r.list {
		if err := env.tick(); err != nil {
			return false, err
		}
		if w := v.Doc().Lookup(p.name); !w.IsMissing() {
			if ok, err := p.schema.accepts(w, env); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (r *patternSchemas) accepts(v bson.Value, env *Env) (bool, error) {
	for it := v.Doc().Iter(); it.Next(); {
		for _, p := range r.list {
			if err := env.tick(); err != nil {
				return false, err
			}
			if ok, err := p.accepts(it.Key, it.Value, env); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// accepts reports whether the field's name does not match, or its value does.
func (p *patternSchema) accepts(name string, v bson.Value, env *Env) (bool, error) {
	if ok, err := p.regex.matchText(name, env); !ok || err != nil {
		return err == nil, err
	}
	return p.schema.accepts(v, env)
}

// covers reports whether a field is spoken of by properties or patternProperties.
func (r *otherProperties) covers(name string, env *Env) (bool, error) {
	for _, p := range r.named.list {
		if p.name == name {
			return true, nil
		}
	}
	for _, p := range r.patterns.list {
		if ok, err := p.regex.matchText(name, env); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (r *otherProperties) accepts(v bson.Value, env *Env) (bool, error) {
	name, _, err := r.failing(v, env)
	return name == nil, err
}

// failing is the first field that is not accepted; its name is nil if there
// is none.
func (r *otherProperties) failing(v bson.Value, env *Env) (*string, bson.Value, error) {
	for it := v.Doc().Iter(); it.Next(); {
		if err := env.tick(); err != nil {
			return nil, bson.Value{}, err
		}
		covered, err := r.covers(it.Key, env)
		if err != nil {
			return nil, bson.Value{}, err
		}
		if covered {
			continue
		}
		if r.schema != nil {
			ok, err := r.schema.accepts(it.Value, env)
			if err != nil {
				return nil, bson.Value{}, err
			}
			if ok {
				continue
			}
		}
		return &it.Key, it.Value, nil
	}
	return nil, bson.Value{}, nil
}

func (r *requiredProperties) accepts(v bson.Value, env *Env) (bool, error) {
	for _, name := range r.names {
		if err := env.tick(); err != nil {
			return false, err
		}
		if !v.Doc().Has(name) {
			return false, nil
		}
	}
	return true, nil
}

func (r *propertyCount) accepts(v bson.Value, _ *Env) (bool, error) {
	n := int64(v.Doc().Len())
	if r.name == "maxProperties" {
		return n <= r.n, nil
	}
	return n >= r.n, nil
}

func (r *propertySchemas) explain(b *bson.Builder, v bson.Value) error {
	b.OpenArray("propertiesNotSatisfied")
	n := 0
	for _, p := range r.list {
		w := v.Doc().Lookup(p.name)
		if w.IsMissing() {
			continue
		}
		ok, err := p.schema.accepts(w, nil)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		b.OpenDoc(bson.Index(n)).String("propertyName", p.name)
		n++
		p.schema.appendTexts(b)
		if err := p.schema.explain(b, "details", w); err != nil {
			return err
		}
		b.Close()
	}
	b.Close()
	return nil
}

func (r *patternSchemas) explain(b *bson.Builder, v bson.Value) error {
	b.OpenArray("details")
	n := 0
	for it := v.Doc().Iter(); it.Next(); {
		for _, p := range r.list {
			ok, err := p.accepts(it.Key, it.Value, nil)
			if err != nil {
				return err
			}
			if ok {
				continue
			}
			b.OpenDoc(bson.Index(n)).String("propertyName", it.Key)
			n++
			p.schema.appendTexts(b)
			if err := p.schema.explain(b.String("regexMatched", p.pattern), "details", it.Value); err != nil {
				return err
			}
			b.Close()
		}
	}
	b.Close()
	return nil
}

func (r *otherProperties) explain(b *bson.Builder, v bson.Value) error {
	if r.schema != nil {
		name, w, err := r.failing(v, nil)
		if err != nil {
			return err
		}
		r.schema.appendTexts(b)
		b.String("reason", "at least one additional property did not match the subschema")
		return r.schema.explain(b.String("failingProperty", *name), "details", w)
	}
	b.Doc("specifiedAs", r.spec).OpenArray("additionalProperties")
	n := 0
	for name := range v.Doc().All() {
		covered, err := r.covers(name, nil)
		if err != nil {
			return err
		}
		if !covered {
			b.String(bson.Index(n), name)
			n++
		}
	}
	b.Close()
	return nil
}

func (r *requiredProperties) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec)
	appendAbsent(b, v, r.names)
	return nil
}

// appendAbsent lists the names that v has no fields for.
func appendAbsent(b *bson.Builder, v bson.Value, names []string) {
	b.OpenArray("missingProperties")
	n := 0
	for _, name := range names {
		if !v.Doc().Has(name) {
			b.String(bson.Index(n), name)
			n++
		}
	}
	b.Close()
}

func (r *propertyCount) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "specified number of properties was not satisfied")
	b.Int32("numberOfProperties", int32(v.Doc().Len()))
	return nil
}
