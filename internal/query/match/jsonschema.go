package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// schema is a compiled JSON schema (draft 4, with the server's changes): a
// type restriction and rules. A rule about numbers, strings, arrays or objects
// says nothing about values of other types.
type schema struct {
	title, description string
	types              *TypeSet // nil if any type will do
	typeRule           bson.Doc // {type: …} or {bsonType: …} as written
	rules              []rule
}

// rule is one keyword of a schema, or a few that work together. Rules are kept
// in the order in which a validation error lists them.
type rule interface {
	// applies reports whether the rule is about values of type t.
	applies(t bson.Type) bool
	// accepts judges a value of such a type; env may be nil.
	accepts(v bson.Value, env *Env) (bool, error)
	// explain appends to b why v was not accepted, without the operator's name.
	explain(b *bson.Builder, v bson.Value) error
	// keyword names the rule in a validation error.
	keyword() string
}

func (n *JSONSchema) kind() kind           { return kindSchema }
func (n *JSONSchema) text(b *bson.Builder) { b.Doc("$jsonSchema", n.Schema) }

func (n *JSONSchema) match(s subject, env *Env) (bool, error) { return n.root.accepts(s.v, env) }

func (s *schema) accepts(v bson.Value, env *Env) (bool, error) {
	if s.types != nil && !s.types.Has(v.Type) {
		return false, nil
	}
	for _, r := range s.rules {
		if !r.applies(v.Type) {
			continue
		}
		if err := env.tick(); err != nil {
			return false, err
		}
		if ok, err := r.accepts(v, env); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func parseJSONSchema(p *parser, name string, v bson.Value, at level) (Node, error) {
	if p.opts.Forbid&FeatureJSONSchema != 0 {
		return nil, mongoerr.New(mongoerr.QueryFeatureNotAllowed, "%s is not allowed in this context", name)
	}
	if err := p.topLevelOnly(name, FeatureJSONSchema, at); err != nil {
		return nil, err
	}
	if v.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "$jsonSchema must be an object")
	}
	root, err := p.schema(v.Doc())
	if err != nil {
		return nil, err
	}
	return &JSONSchema{v.Doc(), root}, nil
}

// keywords are the fields of a schema by name.
type keywords map[string]bson.Value

// schemaKeywords says of each keyword of JSON schema whether the server
// implements it.
var schemaKeywords = map[string]bool{
	"additionalItems": true, "additionalProperties": true, "allOf": true, "anyOf": true,
	"bsonType": true, "dependencies": true, "description": true, "encrypt": true,
	"encryptMetadata": true, "enum": true, "exclusiveMaximum": true, "exclusiveMinimum": true,
	"items": true, "maxItems": true, "maxLength": true, "maxProperties": true, "maximum": true,
	"minItems": true, "minLength": true, "minProperties": true, "minimum": true,
	"multipleOf": true, "not": true, "oneOf": true, "pattern": true, "patternProperties": true,
	"properties": true, "required": true, "title": true, "type": true, "uniqueItems": true,
	"$ref": false, "$schema": false, "default": false, "definitions": false, "format": false, "id": false,
}

func unparsable(format string, args ...any) error {
	return mongoerr.New(mongoerr.FailedToParse, format, args...)
}

func wrongType(format string, args ...any) error {
	return mongoerr.New(mongoerr.TypeMismatch, format, args...)
}

// schema compiles one schema and those nested in it.
func (p *parser) schema(d bson.Doc) (*schema, error) {
	p.interrupt.Turn()
	defer p.leave()
	if err := p.enter(); err != nil {
		return nil, err
	}
	k := keywords{}
	for it := d.Iter(); it.Next(); {
		implemented, known := schemaKeywords[it.Key]
		switch {
		case !known:
			return nil, unparsable("Unknown $jsonSchema keyword: %s", it.Key)
		case !implemented:
			return nil, unparsable("$jsonSchema keyword '%s' is not currently supported", it.Key)
		}
		if _, twice := k[it.Key]; twice {
			return nil, unparsable("Duplicate $jsonSchema keyword: %s", it.Key)
		}
		k[it.Key] = it.Value
	}
	s := &schema{}
	for _, part := range []func(*schema, keywords) error{
		p.schemaTexts, p.schemaType, p.logicalRules, p.scalarRules, p.arrayRules, p.encryptRules, p.objectRules,
	} {
		if err := part(s, k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *schema) add(r rule) { s.rules = append(s.rules, r) }

// schemaTexts reads title and description.
func (p *parser) schemaTexts(s *schema, k keywords) error {
	for _, name := range []string{"title", "description"} {
		if v, ok := k[name]; ok && v.Type != bson.TypeString {
			return wrongType("$jsonSchema keyword '%s' must be of type string", name)
		}
	}
	if v, ok := k["title"]; ok {
		s.title = v.Str()
	}
	if v, ok := k["description"]; ok {
		s.description = v.Str()
	}
	return nil
}

// schemaType reads type, which takes the names of JSON, or bsonType, which
// takes the server's aliases.
func (p *parser) schemaType(s *schema, k keywords) error {
	v, isType := k["type"]
	b, isBSON := k["bsonType"]
	name := "type"
	switch {
	case isType && isBSON:
		return unparsable("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
	case isBSON:
		name, v = "bsonType", b
	case !isType:
		return nil
	}
	types, err := schemaTypes(name, v, isBSON)
	if err != nil {
		return err
	}
	s.types = types
	s.typeRule = new(bson.Builder).Value(name, v).Finish()
	return nil
}

func schemaTypes(name string, v bson.Value, aliases bool) (*TypeSet, error) {
	list := []bson.Value{v}
	if v.Type == bson.TypeArray {
		if list = v.Doc().Slice(); len(list) == 0 {
			return nil, unparsable("$jsonSchema keyword '%s' must name at least one type", name)
		}
	} else if v.Type != bson.TypeString {
		return nil, wrongType("$jsonSchema keyword '%s' must be either a string or an array of strings", name)
	}
	types := &TypeSet{}
	seen := map[string]bool{}
	for _, e := range list {
		if e.Type != bson.TypeString {
			return nil, wrongType("$jsonSchema keyword '%s' array elements must be strings", name)
		}
		alias := e.Str()
		if seen[alias] {
			return nil, unparsable("$jsonSchema keyword '%s' has duplicate value: %s", name, alias)
		}
		seen[alias] = true
		if alias == "integer" {
			return nil, unparsable("$jsonSchema type 'integer' is not currently supported.")
		}
		if err := types.addSchemaAlias(alias, aliases); err != nil {
			return nil, err
		}
	}
	return types, nil
}

func (t *TypeSet) addSchemaAlias(alias string, bsonAliases bool) error {
	if bsonAliases {
		return t.AddAlias(alias)
	}
	switch alias {
	case "boolean":
		alias = "bool"
	case "array", "null", "number", "object", "string":
	default:
		return badValue("Unknown type name alias: %s", alias)
	}
	return t.AddAlias(alias)
}

// length reads a keyword that takes a whole number from 0 on.
func (k keywords) length(name string) (n int64, present bool, err error) {
	v, ok := k[name]
	if !ok {
		return 0, false, nil
	}
	n, err = nonNegative(name, v)
	return n, true, err
}

// boolean reads a keyword that takes true or false.
func (k keywords) boolean(name string) (value, present bool, err error) {
	v, ok := k[name]
	if !ok {
		return false, false, nil
	}
	if v.Type != bson.TypeBool {
		return false, true, wrongType("$jsonSchema keyword '%s' must be a boolean", name)
	}
	return v.Bool(), true, nil
}

// schemaStrings reads the array of distinct names that required and dependencies
// take.
func schemaStrings(name string, v bson.Value) ([]string, error) {
	var list []string
	seen := map[string]bool{}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeString {
			return nil, wrongType("$jsonSchema keyword '%s' must be an array of strings, but found an element of type: %s", name, e.Type)
		}
		if seen[e.Str()] {
			return nil, unparsable("$jsonSchema keyword '%s' array cannot contain duplicate values", name)
		}
		seen[e.Str()] = true
		list = append(list, e.Str())
	}
	if len(list) == 0 {
		return nil, unparsable("$jsonSchema keyword '%s' cannot be an empty array", name)
	}
	return list, nil
}
