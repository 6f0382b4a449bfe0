package shard

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Generation and Version are the version of a chunk, a shard or a collection.
type (
	Generation = schema.ShardGeneration
	Version    = schema.ShardVersion
)

// Unsharded is the version of a collection that is not sharded, or of a shard
// that a statement expects to own nothing; Ignored that of a statement that any
// shard may run on what it has.
var (
	Unsharded = schema.UnshardedVersion
	Ignored   = schema.IgnoredVersion
)

// ParseVersion reads the value that Version.Append writes. Error 14 or 40414.
func ParseVersion(doc bson.Doc) (Version, error) { return schema.ParseShardVersion(doc) }

// StaleInfo is the content of error 13388 for a router.
type StaleInfo struct {
	Namespace, Shard string
	Received         Version
	Wanted           *Version // nil: the shard does not know
}

// ParseStale reads the reply of a shard that failed with 13388.
func ParseStale(reply bson.Doc) (StaleInfo, error) {
	ns, shard := reply.Lookup("ns"), reply.Lookup("shardId")
	if ns.Type != bson.TypeString || shard.Type != bson.TypeString {
		return StaleInfo{}, mongoerr.New(mongoerr.BadValue, "StaleConfig without ns and shardId: %s", reply)
	}
	s := StaleInfo{Namespace: strings.Clone(ns.Str()), Shard: strings.Clone(shard.Str())}
	v := reply.Lookup("vReceived")
	if v.Type != bson.TypeDocument {
		return s, mongoerr.New(mongoerr.BadValue, "StaleConfig without vReceived: %s", reply)
	}
	var err error
	if s.Received, err = schema.ParseShardVersion(v.Doc()); err != nil {
		return s, err
	}
	if v := reply.Lookup("vWanted"); v.Type == bson.TypeDocument {
		wanted, err := schema.ParseShardVersion(v.Doc())
		if err != nil {
			return s, err
		}
		s.Wanted = &wanted
	}
	return s, nil
}
