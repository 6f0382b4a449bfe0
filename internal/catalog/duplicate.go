package catalog

import (
	"encoding/hex"
	"math"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// duplicate returns the error for a key that another document has in ix.
func duplicate(c *Collection, ix *Index, key schema.Key) error {
	values, _, err := keystring.Decode(key.Bytes, key.TypeBits, ix.Directions())
	if err != nil {
		return err
	}
	return duplicateError(c, ix, values)
}

// duplicateID returns the error for an _id that another document has. Clustered
// collections have separate codes for values that are not finite.
func duplicateID(c *Collection, id bson.Value) error {
	if c.Settings.Clustered != nil {
		if f, ok := notFinite(id); ok {
			if math.IsNaN(f) {
				return mongoerr.New(mongoerr.Code(50819), "duplicate key error: NaN _id in clustered collection %s", c.Namespace)
			}
			return mongoerr.New(mongoerr.Code(50826), "duplicate key error: infinite _id in clustered collection %s", c.Namespace)
		}
	}
	return duplicateError(c, c.indexes[0], []bson.Value{id})
}

// notFinite returns the value of a NaN or an infinity.
func notFinite(v bson.Value) (f float64, ok bool) {
	switch v.Type {
	case bson.TypeDouble:
		f = v.Double()
	case bson.TypeDecimal:
		if v.Decimal().IsNaN() {
			f = math.NaN()
		} else {
			f = math.Inf(v.Decimal().IsInf())
			if v.Decimal().IsInf() == 0 {
				f = 0
			}
		}
	}
	return f, math.IsNaN(f) || math.IsInf(f, 0)
}

// duplicateError is code 11000 in the server's words, with keyPattern and
// keyValue. Under a collation strings are shown as their collation keys, in
// hexadecimal.
func duplicateError(c *Collection, ix *Index, values []bson.Value) error {
	var shown bson.Builder
	i := 0
	for name := range ix.Key.All() {
		v := bson.Null
		if i < len(values) {
			v = values[i]
		}
		i++
		if ix.Collation != nil {
			v = hexadecimal(v)
		}
		shown.Value(name, v)
	}
	keyValue := shown.Finish()
	var m strings.Builder
	m.WriteString("E11000 duplicate key error collection: " + c.Namespace.String() + " index: " + ix.Name)
	if ix.Collation != nil {
		m.WriteString(" collation: " + ix.Collation.String())
	}
	m.WriteString(" dup key: " + keyValue.String())
	extra := new(bson.Builder).Doc("keyPattern", ix.Key).Doc("keyValue", keyValue).Finish()
	return mongoerr.New(mongoerr.DuplicateKey, "%s", m.String()).WithExtra(extra)
}

// hexadecimal replaces the strings in v, which are collation keys and not text.
func hexadecimal(v bson.Value) bson.Value {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return bson.String("0x" + hex.EncodeToString([]byte(v.Str())))
	case bson.TypeDocument, bson.TypeArray:
		var b bson.Builder
		b.Reset(nil)
		for name, e := range v.Doc().All() {
			b.Value(name, hexadecimal(e))
		}
		return bson.Value{Type: v.Type, Data: b.Finish()}
	}
	return v
}
