package schema

import (
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// hashed is the index that holds the hash of one field instead of its value,
// alone or among ordinary fields. It never holds arrays.
type hashed struct{}

// hashSeed is the only seed in use.
const hashSeed = 0

func (hashed) validatePattern(key bson.Doc) error {
	n := 0
	for _, v := range key.All() {
		if v.Type == bson.TypeString {
			n++
		}
	}
	if n > 1 {
		return mongoerr.New(mongoerr.Code(31303), "A maximum of one index field is allowed to be hashed but found %d for 'key' %s", n, key)
	}
	return nil
}

func (hashed) validateSpec(spec bson.Doc) error {
	if spec.Lookup("unique").Truthy() {
		return mongoerr.New(mongoerr.Code(16764), "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
	}
	return nil
}

func (hashed) collated() bool { return true }

func (hashed) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	var values [maxParts]bson.Value
	var hash [8]byte
	missing := 0
	for i := range ix.Parts {
		p := &ix.Parts[i]
		v, used := walk(doc, p.Components)
		switch v.Type {
		case bson.TypeArray:
			return dst, nil, mongoerr.New(mongoerr.Code(16766),
				"Error: hashed indexes do not currently support array values. Found array at path: %s", strings.Join(p.Components[:used], "."))
		case bson.Missing:
			v = bson.Null
			missing++
		}
		if p.Plugin == pluginHashed {
			binary.LittleEndian.PutUint64(hash[:], uint64(HashOf(v, ix.Collator)))
			v = bson.Value{Type: bson.TypeInt64, Data: hash[:]}
		}
		values[i] = v
	}
	if ix.Sparse && missing == len(ix.Parts) {
		return dst, nil, nil
	}
	return ix.appendKey(dst, values[:len(ix.Parts)]), nil, nil
}

// HashOf is the value a hashed index holds for v; a missing value hashes as
// null. With a collation the strings in v hash by their sort keys.
func HashOf(v bson.Value, coll bson.Collator) int64 {
	if v.IsMissing() {
		v = bson.Null
	}
	if coll != nil {
		v = sortKeyed(v, coll)
	}
	return keystring.Hash(v, hashSeed)
}

// sortKeyed replaces the strings in v by their sort keys.
func sortKeyed(v bson.Value, coll bson.Collator) bson.Value {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return bson.String(string(coll.AppendKey(nil, v.Str())))
	case bson.TypeDocument, bson.TypeArray:
		var b bson.Builder
		for name, e := range v.Doc().All() {
			b.Value(name, sortKeyed(e, coll))
		}
		return bson.Value{Type: v.Type, Data: b.Finish()}
	}
	return v
}
