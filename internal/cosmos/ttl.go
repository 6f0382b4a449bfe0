package cosmos

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// ttlPolicy is a container's defaultTtl: off, on without a default, or on with
// one. (Cosmos DB: "Time to Live (TTL) in Azure Cosmos DB".)
type ttlPolicy struct {
	on      bool
	seconds int64 // the default; 0 for none
}

// parseTTL reads defaultTtl: absent and null are off, -1 is on without a
// default. Errors: 400.
func parseTTL(v bson.Value) (ttlPolicy, error) {
	if v.IsNullish() {
		return ttlPolicy{}, nil
	}
	n, ok := ttlSeconds(v)
	switch {
	case !ok:
		return ttlPolicy{}, badRequest("The input default ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '%d', or '-1' which means never expire.",
			printed(v), math.MaxInt32)
	case n == -1:
		return ttlPolicy{on: true}, nil
	}
	return ttlPolicy{on: true, seconds: n}, nil
}

// ttlSeconds is a time to live: -1 or from 1 to 2147483647.
func ttlSeconds(v bson.Value) (int64, bool) {
	if !v.IsNumber() {
		return 0, false
	}
	n, whole := bson.ExactInt64(v)
	return n, whole && (n == -1 || n >= 1 && n <= math.MaxInt32)
}

// checkItem refuses an item whose own ttl is invalid, where the container's
// policy reads it at all. Errors: 400.
func (p ttlPolicy) checkItem(body bson.Doc) error {
	v := body.Lookup("ttl")
	if !p.on || v.IsMissing() {
		return nil
	}
	if _, ok := ttlSeconds(v); !ok {
		return badRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '%d', or '-1' which means never expire.",
			printed(v), math.MaxInt32)
	}
	return nil
}

// expires is the second from which an item is expired, or MaxInt64. A ttl that
// was stored while the policy was off, and is none, counts as absent.
func (p ttlPolicy) expires(item bson.Doc) int64 {
	if !p.on {
		return math.MaxInt64
	}
	seconds := p.seconds
	if n, ok := ttlSeconds(item.Lookup("ttl")); ok {
		seconds = n
	}
	written, ok := bson.ExactInt64(item.Lookup("_ts"))
	if seconds <= 0 || !ok {
		return math.MaxInt64
	}
	return written + seconds
}

// printed is a value as messages show it.
func printed(v bson.Value) string {
	if v.Type == bson.TypeString {
		return v.Str()
	}
	return string(nosql.AppendJSON(nil, v))
}

// Items expire in two orders. Those with a ttl of their own have the second in
// which they expire in _exp: {own: second}; those without have when they were
// written, {age: second}, since the container's default may change without
// them. Those that never expire have none.
const (
	expiryOwn = "own"
	expiryAge = "age"
)

// expiryIndex orders the items by their expiry.
var expiryIndex = func() bson.Doc {
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key").Int32(fieldExpiry, 1).Close()
	return b.String("name", fieldExpiry).Bool("sparse", true).Finish()
}()

// expiryKey is the _exp of an item that is written in a second.
func expiryKey(body bson.Doc, seconds int64) bson.Value {
	n, ok := ttlSeconds(body.Lookup("ttl"))
	switch {
	case !ok:
		return bson.Document(new(bson.Builder).Int64(expiryAge, seconds).Finish())
	case n == -1:
		return bson.Value{}
	}
	return bson.Document(new(bson.Builder).Int64(expiryOwn, seconds+n).Finish())
}

// due is a filter for the items of one of the two orders that may be expired.
func due(order string, upTo int64) bson.Doc {
	var b bson.Builder
	b.OpenDoc(fieldExpiry)
	b.OpenDoc("$gte").Int64(order, 0).Close()
	b.OpenDoc("$lte").Int64(order, upTo).Close()
	return b.Close().Finish()
}
