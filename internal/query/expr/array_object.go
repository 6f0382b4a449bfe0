package expr

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerUnary("$arrayToObject", evalArrayToObject)
	registerUnary("$objectToArray", evalObjectToArray)
}

func evalObjectToArray(env *Env, v bson.Value) (bson.Value, error) {
	if v.IsNullish() {
		return bson.Null, nil
	}
	if v.Type != bson.TypeDocument {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40390),
			"$objectToArray requires a document input, found: %s", v.Type)
	}
	mark := env.mark()
	for it := v.Doc().Iter(); it.Next(); {
		pair, err := env.object([]string{"k", "v"}, []bson.Value{env.String(it.Key), it.Value})
		if err != nil {
			env.release(mark)
			return bson.Value{}, err
		}
		env.push(pair)
	}
	return env.takeArray(mark)
}

// evalArrayToObject takes [[key, value], …] or [{k: key, v: value}, …];
// the first element decides which.
func evalArrayToObject(env *Env, array bson.Value) (bson.Value, error) {
	if array.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40386),
			"$arrayToObject requires an array input, found: %s", array.Type)
	}
	var fields fieldSet
	var first bson.Type
	for it := array.Doc().Iter(); it.Next(); {
		if first == bson.Missing {
			first = it.Value.Type
		}
		var key string
		var value bson.Value
		var err error
		switch first {
		case bson.TypeArray:
			key, value, err = pairElement(it.Value)
		case bson.TypeDocument:
			key, value, err = keyValueElement(it.Value)
		default:
			err = mongoerr.New(mongoerr.Code(40398), "Unrecognised input type format for $arrayToObject: %s", it.Value.Type)
		}
		if err != nil {
			return bson.Value{}, err
		}
		fields.set(key, value)
	}
	return fields.value(env)
}

func pairElement(v bson.Value) (key string, value bson.Value, err error) {
	if v.Type != bson.TypeArray {
		return "", value, mongoerr.New(mongoerr.Code(40396),
			"$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Array was detected, now found: %s", v.Type)
	}
	pair := v.Doc().Slice()
	if len(pair) != 2 {
		return "", value, mongoerr.New(mongoerr.Code(40397),
			"$arrayToObject requires an array of size 2 arrays,found array of size: %d", len(pair))
	}
	if pair[0].Type != bson.TypeString {
		return "", value, mongoerr.New(mongoerr.Code(40395),
			"$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: %s", pair[0].Type)
	}
	key = pair[0].Str()
	if strings.IndexByte(key, 0) >= 0 {
		return "", value, mongoerr.New(mongoerr.Code(4940400), "Key field cannot contain an embedded null byte")
	}
	return key, pair[1], nil
}

func keyValueElement(v bson.Value) (key string, value bson.Value, err error) {
	if v.Type != bson.TypeDocument {
		return "", value, mongoerr.New(mongoerr.Code(40391),
			"$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Object was detected, now found: %s", v.Type)
	}
	if n := v.Doc().Len(); n != 2 {
		return "", value, mongoerr.New(mongoerr.Code(40392),
			"$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:%d", n)
	}
	k, value := v.Doc().Lookup("k"), v.Doc().Lookup("v")
	if k.IsMissing() || value.IsMissing() {
		return "", value, mongoerr.New(mongoerr.Code(40393),
			"$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: %s", text(v))
	}
	if k.Type != bson.TypeString {
		return "", value, mongoerr.New(mongoerr.Code(40394),
			"$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type: %s", k.Type)
	}
	if strings.IndexByte(k.Str(), 0) >= 0 {
		return "", value, mongoerr.New(mongoerr.Code(4940401), "Key field cannot contain an embedded null byte")
	}
	return k.Str(), value, nil
}
