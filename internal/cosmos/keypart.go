package cosmos

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/murmur3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// keyPart is a part of the hashes that the service, and its SDKs, make of partition keys: [min,
// max). SDKs ask for one where a prefix of a hierarchical key, or several readers of a change
// feed, want a part of a range; on a server that is in no cluster, whose one range has all.
type keyPart struct{ min, max string }

// part returns the part of the hashes that the request bounds, nil for all of them. In a cluster
// ranges have hashes of their own (keyRange). Errors: 400.
func (r *request) part(c *container) (*keyPart, error) {
	p := &keyPart{strings.ToUpper(strings.Trim(r.header(startHeader), `"`)), strings.ToUpper(strings.Trim(r.header(endHeader), `"`))}
	if p.max == "" {
		p.max = highest
	}
	switch {
	case r.s.o.Cluster != nil || r.s.shard != nil || p.min == lowest && p.max >= highest:
		return nil, nil
	case !c.key.hashes2:
		return nil, badRequest("A part of a partition key range (x-ms-start-epk, x-ms-end-epk) is that of a container whose partition key has version 2.")
	}
	return p, nil
}

// has reports whether a stored item is in the part, which may be nil.
func (p *keyPart) has(item bson.Doc) bool {
	return p == nil || p.hasKey(nested(nested(item, "_id"), "p").Slice())
}

func (p *keyPart) hasKey(key []bson.Value) bool {
	hash := effectiveKey(key)
	return p.min <= hash && hash < p.max
}

// effectiveKey is the service's hash of a partition key of version 2, of each value: 128 bits of
// Murmur 3, the two highest of them 0, in hexadecimal digits.
func effectiveKey(key []bson.Value) string {
	var b strings.Builder
	for _, v := range key {
		var text []byte
		switch {
		case v.Type == bson.TypeString:
			text = append(append([]byte{8}, v.Str()...), 0xff)
		case v.IsNumber():
			text = binary.LittleEndian.AppendUint64([]byte{5}, math.Float64bits(bson.ToDouble(v)))
		case v.Type == bson.TypeBool && v.Bool():
			text = []byte{3}
		case v.Type == bson.TypeBool:
			text = []byte{2}
		case v.Type == bson.TypeNull:
			text = []byte{1}
		default: // none
			text = []byte{0}
		}
		low, high := murmur3.Sum128(text)
		hash := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, low), high)
		slices.Reverse(hash)
		hash[0] &= 0x3f
		fmt.Fprintf(&b, "%X", hash)
	}
	return b.String()
}
