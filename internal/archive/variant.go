package archive

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go/variant"

	"github.com/mayflydb/mayfly/internal/bson"
)

// appendVariant writes a document as a VARIANT, for tools that know no BSON. What VARIANT has no
// type for stands there as its Extended JSON object. Where a document has a name twice, the last
// one counts.
func appendVariant(b *variant.Builder, d bson.Doc) {
	b.BeginObject()
	var names map[string]bson.Value
	if repeats(d) {
		names = map[string]bson.Value{}
		for name, v := range d.All() {
			names[strings.ToValidUTF8(name, replacement)] = v
		}
		for name, v := range names {
			b.Field(name)
			appendVariantValue(b, v)
		}
		b.EndObject()
		return
	}
	for it := d.Iter(); it.Next(); {
		b.Field(it.Key)
		appendVariantValue(b, it.Value)
	}
	b.EndObject()
}

// replacement stands for bytes that are no UTF-8, which Parquet has in no string.
const replacement = "\uFFFD"

// manyNames is up to how many names of a document are compared each with each.
const manyNames = 16

// repeats reports whether a document has a name twice, or one that is no UTF-8.
func repeats(d bson.Doc) bool {
	var few [manyNames]string
	seen := map[string]bool(nil)
	n := 0
	for it := d.Iter(); it.Next(); n++ {
		if !utf8.ValidString(it.Key) {
			return true
		}
		if n == manyNames {
			seen = make(map[string]bool, 2*manyNames)
			for _, name := range few {
				seen[name] = true
			}
		}
		if n < manyNames {
			for _, name := range few[:n] {
				if name == it.Key {
					return true
				}
			}
			few[n] = it.Key
			continue
		}
		if seen[it.Key] {
			return true
		}
		seen[it.Key] = true
	}
	return false
}

// maxVariantDate is the largest date of a VARIANT, in milliseconds since 1970: it has microseconds.
const maxVariantDate = math.MaxInt64 / 1000

func appendVariantValue(b *variant.Builder, v bson.Value) {
	switch v.Type {
	case bson.TypeDocument:
		appendVariant(b, v.Doc())
	case bson.TypeArray:
		b.BeginArray()
		for e := range v.Doc().Values() {
			appendVariantValue(b, e)
		}
		b.EndArray()
	case bson.TypeString:
		b.String(strings.ToValidUTF8(v.Str(), replacement))
	case bson.TypeInt32:
		b.Int32(v.Int32())
	case bson.TypeInt64:
		b.Int64(v.Int64())
	case bson.TypeDouble:
		b.Double(v.Double())
	case bson.TypeBool:
		b.Bool(v.Bool())
	case bson.TypeNull:
		b.Null()
	case bson.TypeDate:
		if ms := v.Date(); ms <= maxVariantDate && ms >= -maxVariantDate {
			b.Timestamp(ms * 1000)
			return
		}
		appendExtended(b, v)
	case bson.TypeBinary:
		switch subtype, content := v.Binary(); {
		case subtype == 0:
			b.Binary(content)
		case subtype == 4 && len(content) == 16:
			b.UUID(uuid.UUID(content))
		default:
			appendExtended(b, v)
		}
	case bson.TypeObjectID:
		appendNamed(b, "$oid", v.Data)
	default:
		appendExtended(b, v)
	}
}

// appendNamed writes an object with the hexadecimal digits of some bytes under a name.
func appendNamed(b *variant.Builder, name string, data []byte) {
	var digits [2 * 12]byte
	b.BeginObject()
	b.Field(name)
	b.String(string(hex.AppendEncode(digits[:0], data)))
	b.EndObject()
}

// appendExtended writes a value as its Extended JSON, for types that are rare: it parses what it prints.
func appendExtended(b *variant.Builder, v bson.Value) {
	var any any
	if err := json.Unmarshal(v.AppendJSON(nil, bson.CanonicalJSON), &any); err != nil {
		b.String(strings.ToValidUTF8(v.String(), replacement))
		return
	}
	appendAny(b, any)
}

func appendAny(b *variant.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.BeginObject()
		for name, v := range v {
			b.Field(name)
			appendAny(b, v)
		}
		b.EndObject()
	case []any:
		b.BeginArray()
		for _, v := range v {
			appendAny(b, v)
		}
		b.EndArray()
	case string:
		b.String(v)
	case float64:
		b.Double(v)
	case bool:
		b.Bool(v)
	default:
		b.Null()
	}
}
