package match

import "github.com/mayflydb/mayfly/internal/bson"

// schema is a compiled JSON schema.
type schema struct{}

func (n *JSONSchema) kind() kind                        { return kindSchema }
func (n *JSONSchema) text(b *bson.Builder)              { b.Doc("$jsonSchema", n.Schema) }
func (n *JSONSchema) match(subject, *Env) (bool, error) { return true, nil }

func parseJSONSchema(p *parser, name string, v bson.Value, at level) (Node, error) {
	return &JSONSchema{Schema: v.Doc()}, nil
}
