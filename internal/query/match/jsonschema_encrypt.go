package match

import "github.com/mayflydb/mayfly/internal/bson"

const (
	encryptedSubtype = 6
	// An encrypted value starts with its kind, the 16 bytes of the key's id and
	// the type that it had.
	encryptedTypeAt = 17
)

// encrypted is encrypt: the value is encrypted by the client, and was of one
// of the types.
type encrypted struct {
	anyType
	types *TypeSet // nil if any type will do
}

func (p *parser) encryptRules(s *schema, k keywords) error {
	if v, ok := k["encryptMetadata"]; ok && v.Type != bson.TypeDocument {
		return wrongType("$jsonSchema keyword 'encryptMetadata' must be an object")
	}
	v, ok := k["encrypt"]
	if !ok {
		return nil
	}
	if v.Type != bson.TypeDocument {
		return wrongType("$jsonSchema keyword 'encrypt' must be an object")
	}
	if s.types != nil {
		return unparsable("$jsonSchema keyword 'encrypt' cannot be used in conjunction with 'type' or 'bsonType'")
	}
	r := &encrypted{}
	for it := v.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "bsonType":
			types, err := schemaTypes("bsonType", it.Value, true)
			if err != nil {
				return err
			}
			r.types = types
		case "algorithm", "keyId":
		default:
			return unparsable("BSON field 'encrypt.%s' is an unknown field.", it.Key)
		}
	}
	s.add(r)
	return nil
}

func (r *encrypted) keyword() string { return "encrypt" }

func (r *encrypted) accepts(v bson.Value, _ *Env) (bool, error) { return r.reason(v) == "", nil }

// reason says what is wrong with v, or nothing.
func (r *encrypted) reason(v bson.Value) string {
	if v.Type != bson.TypeBinary {
		return "value was not encrypted"
	}
	subtype, content := v.Binary()
	if subtype != encryptedSubtype {
		return "value was not encrypted"
	}
	if r.types != nil && (len(content) <= encryptedTypeAt || !r.types.Has(bson.Type(content[encryptedTypeAt]))) {
		return "encrypted value has wrong type"
	}
	return ""
}

func (r *encrypted) explain(b *bson.Builder, v bson.Value) error {
	b.String("reason", r.reason(v))
	return nil
}
