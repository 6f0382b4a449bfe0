package cosmos

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/schema"
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
	n, ok := schema.OwnTTL(v)
	switch {
	case !ok:
		return ttlPolicy{}, badRequest("The input default ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '%d', or '-1' which means never expire.",
			printed(v), math.MaxInt32)
	case n == -1:
		return ttlPolicy{on: true}, nil
	}
	return ttlPolicy{on: true, seconds: n}, nil
}

// checkItem rejects an item whose own ttl is invalid, if the container's policy uses
// it. Errors: 400.
func (p ttlPolicy) checkItem(body bson.Doc) error {
	v := body.Lookup(schema.TTLField)
	if !p.on || v.IsMissing() {
		return nil
	}
	if _, ok := schema.OwnTTL(v); !ok {
		return badRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '%d', or '-1' which means never expire.",
			printed(v), math.MaxInt32)
	}
	return nil
}

// expires returns the second from which on an item is expired, and hidden from all
// requests (invariant expired-is-absent), or MaxInt64. An invalid ttl that was stored
// while the policy was off counts as absent.
func (p ttlPolicy) expires(item bson.Doc) int64 {
	if !p.on {
		return math.MaxInt64
	}
	var own, written bson.Value
	for it := item.Iter(); it.Next(); {
		switch it.Key {
		case schema.TTLField:
			own = it.Value
		case schema.LastWriteField:
			written = it.Value
		}
	}
	return p.due(own, written)
}

// due is expires by an item's ttl and _ts.
func (p ttlPolicy) due(own, written bson.Value) int64 {
	if !p.on {
		return math.MaxInt64
	}
	seconds := p.seconds
	if n, valid := schema.OwnTTL(own); valid {
		seconds = n
	}
	if seconds <= 0 || !written.IsNumber() {
		return math.MaxInt64
	}
	at, ok := bson.ExactInt64(written)
	if !ok {
		return math.MaxInt64
	}
	return at + seconds
}

// printed formats a value for messages.
func printed(v bson.Value) string {
	if v.Type == bson.TypeString {
		return v.Str()
	}
	return string(nosql.AppendJSON(nil, v))
}
