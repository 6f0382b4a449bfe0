package schema

import (
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ShardGeneration identifies one incarnation of a sharded collection: it changes
// when the collection is dropped and created again, refined or resharded.
type ShardGeneration struct {
	Epoch     [12]byte
	Timestamp uint64
}

// ShardVersion is the version of a chunk, a shard (the highest of its chunks) or a
// collection (the highest of all). A move raises Major, other changes of chunks
// raise Minor.
type ShardVersion struct {
	ShardGeneration
	Major, Minor uint32
}

// UnshardedVersion is the version of a collection that is not sharded, or of a shard
// that a statement expects to own nothing.
var UnshardedVersion = ShardVersion{}

// IgnoredVersion is the version of a statement that any shard may run on what it has.
var IgnoredVersion = ShardVersion{ShardGeneration: ShardGeneration{Timestamp: 1<<64 - 1}}

// IsSet reports whether v is the version of a sharded collection.
func (v ShardVersion) IsSet() bool { return v.ShardGeneration != ShardGeneration{} }

// Order compares two versions of one generation; comparable is false for
// versions of different ones.
func (v ShardVersion) Order(w ShardVersion) (c int, comparable bool) {
	switch {
	case v.ShardGeneration != w.ShardGeneration:
		return 0, false
	case v.Lastmod() < w.Lastmod():
		return -1, true
	case v.Lastmod() > w.Lastmod():
		return 1, true
	}
	return 0, true
}

// Lastmod is major and minor as config.chunks stores them: a timestamp.
func (v ShardVersion) Lastmod() uint64 { return uint64(v.Major)<<32 | uint64(v.Minor) }

// At is a version of the generation: major and minor as config.chunks stores them.
func (g ShardGeneration) At(lastmod uint64) ShardVersion {
	return ShardVersion{g, uint32(lastmod >> 32), uint32(lastmod)}
}

// String returns v as the server prints it: 3|2||epoch||timestamp.
func (v ShardVersion) String() string {
	return fmt.Sprintf("%d|%d||%s||%s", v.Major, v.Minor, bson.FormatObjectID(v.Epoch), bson.Timestamp(v.Timestamp))
}

// Append writes v as the shardVersion of a command has it: {e, t, v}.
func (v ShardVersion) Append(b *bson.Builder, name string) {
	b.OpenDoc(name).ObjectID("e", v.Epoch).Timestamp("t", v.Timestamp).Timestamp("v", v.Lastmod()).Close()
}

// ParseShardVersion reads what Append writes. Error 14 or 40414.
func ParseShardVersion(doc bson.Doc) (ShardVersion, error) {
	for _, name := range []string{"e", "t", "v"} {
		if !doc.Has(name) {
			return ShardVersion{}, mongoerr.New(mongoerr.Code(40414), "BSON field 'shardVersion.%s' is missing but a required field", name)
		}
	}
	e, t, lastmod := doc.Lookup("e"), doc.Lookup("t"), doc.Lookup("v")
	if e.Type != bson.TypeObjectID || t.Type != bson.TypeTimestamp || lastmod.Type != bson.TypeTimestamp {
		return ShardVersion{}, mongoerr.New(mongoerr.TypeMismatch, "shardVersion must be {e: ObjectId, t: Timestamp, v: Timestamp}, found %s", doc)
	}
	return ShardGeneration{e.ObjectID(), t.Timestamp()}.At(lastmod.Timestamp()), nil
}

// CheckShardVersion is a shard's comparison of the version that a router sent with its own:
// nil if the shard owns what the router thinks. Splits and merges, which move
// nothing, do not matter. Error 13388.
func CheckShardVersion(ns, shard string, received, wanted ShardVersion) error {
	switch {
	case received == IgnoredVersion:
		return nil
	case received.ShardGeneration != wanted.ShardGeneration && wanted.IsSet() && received.IsSet():
		return StaleConfig(ns, shard, "version epoch mismatch detected", received, &wanted)
	case received.ShardGeneration != wanted.ShardGeneration || received.Major != wanted.Major:
		return StaleConfig(ns, shard, "version mismatch detected", received, &wanted)
	}
	return nil
}

// StaleConfig is error 13388, which a router answers by refreshing what it knows and
// sending again. A nil wanted says that the shard does not know its own version
// for now: it is to be recovered, or a move is being committed.
func StaleConfig(ns, shard, what string, received ShardVersion, wanted *ShardVersion) error {
	var b bson.Builder
	b.String("ns", ns)
	received.Append(&b, "vReceived")
	if wanted != nil {
		wanted.Append(&b, "vWanted")
	}
	b.String("shardId", shard)
	return mongoerr.New(mongoerr.StaleConfig, "%s for %s", what, ns).WithExtra(b.Finish())
}
