package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerUnary("$binarySize", evalBinarySize)
	registerUnary("$bsonSize", evalBSONSize)
	register("$toHashedIndexKey", func(p *parser, name string, arg bson.Value) (Expr, error) {
		// An array is the value to hash, not a list of arguments.
		e, err := p.operand(arg)
		if err != nil {
			return nil, err
		}
		return &hashedIndexKey{unaryCall{name, hashIndexKey, e}}, nil
	})
}

// hashedIndexKey is {$toHashedIndexKey: value}.
type hashedIndexKey struct{ unaryCall }

func (h *hashedIndexKey) serialize() bson.Value {
	return bson.Document(new(bson.Builder).Value(h.name, h.arg.serialize()).Finish())
}

func hashIndexKey(env *Env, v bson.Value) (bson.Value, error) {
	return env.Int64(keystring.Hash(v, 0)), nil
}

// evalBinarySize counts the bytes of a string or of a binary value.
func evalBinarySize(env *Env, v bson.Value) (bson.Value, error) {
	switch v.Type {
	case bson.Missing, bson.TypeNull, bson.TypeUndefined:
		return bson.Null, nil
	case bson.TypeString:
		return env.Int32(int32(len(v.Str()))), nil
	case bson.TypeBinary:
		_, content := v.Binary()
		return env.Int32(int32(len(content))), nil
	}
	return bson.Value{}, mongoerr.New(mongoerr.Code(51276),
		"$binarySize requires a string or BinData argument, found: %s", v.Type)
}

func evalBSONSize(env *Env, v bson.Value) (bson.Value, error) {
	switch {
	case v.IsNullish():
		return bson.Null, nil
	case v.Type == bson.TypeDocument:
		return env.Int32(int32(len(v.Data))), nil
	}
	return bson.Value{}, mongoerr.New(mongoerr.Code(31393), "$bsonSize requires a document input, found: %s", v.Type)
}
