package shard

import (
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Generation tells one life of a sharded collection from all others: it changes
// when the collection is dropped and made anew, refined or resharded.
type Generation struct {
	Epoch     [12]byte
	Timestamp uint64
}

// Version is what a chunk, a shard (the highest of its chunks) or a collection
// (the highest of all) is at. A move raises Major, other changes of chunks raise
// Minor.
type Version struct {
	Generation
	Major, Minor uint32
}

// Unsharded is the version of a collection that is not sharded, or of a shard
// that a statement expects to own nothing.
var Unsharded = Version{}

// Ignored is the version of a statement that any shard may run on what it has.
var Ignored = Version{Generation: Generation{Timestamp: 1<<64 - 1}}

// IsSet says whether v is the version of a sharded collection.
func (v Version) IsSet() bool { return v.Generation != Generation{} }

// Order compares two versions of one generation; comparable is false for
// versions of different ones.
func (v Version) Order(w Version) (c int, comparable bool) {
	switch {
	case v.Generation != w.Generation:
		return 0, false
	case v.pack() < w.pack():
		return -1, true
	case v.pack() > w.pack():
		return 1, true
	}
	return 0, true
}

// pack is major and minor as config.chunks stores them: a timestamp.
func (v Version) pack() uint64 { return uint64(v.Major)<<32 | uint64(v.Minor) }

func (g Generation) at(lastmod uint64) Version {
	return Version{g, uint32(lastmod >> 32), uint32(lastmod)}
}

// String prints v as the server does: 3|2||epoch||timestamp.
func (v Version) String() string {
	return fmt.Sprintf("%d|%d||%s||%s", v.Major, v.Minor, bson.FormatObjectID(v.Epoch), bson.Timestamp(v.Timestamp))
}

// Append writes v as the shardVersion of a command has it: {e, t, v}.
func (v Version) Append(b *bson.Builder, name string) {
	b.OpenDoc(name).ObjectID("e", v.Epoch).Timestamp("t", v.Timestamp).Timestamp("v", v.pack()).Close()
}

// ParseVersion reads what Append writes. Error 14 or 40414.
func ParseVersion(doc bson.Doc) (Version, error) {
	for _, name := range []string{"e", "t", "v"} {
		if !doc.Has(name) {
			return Version{}, mongoerr.New(mongoerr.Code(40414), "BSON field 'shardVersion.%s' is missing but a required field", name)
		}
	}
	e, t, lastmod := doc.Lookup("e"), doc.Lookup("t"), doc.Lookup("v")
	if e.Type != bson.TypeObjectID || t.Type != bson.TypeTimestamp || lastmod.Type != bson.TypeTimestamp {
		return Version{}, mongoerr.New(mongoerr.TypeMismatch, "shardVersion must be {e: ObjectId, t: Timestamp, v: Timestamp}, found %s", doc)
	}
	return Generation{e.ObjectID(), t.Timestamp()}.at(lastmod.Timestamp()), nil
}

// Check is a shard's comparison of the version that a router sent with its own:
// nil where the shard owns what the router thinks. Splits and merges, which move
// nothing, do not matter. Error 13388.
func Check(ns, shard string, received, wanted Version) error {
	switch {
	case received == Ignored:
		return nil
	case received.Generation != wanted.Generation && wanted.IsSet() && received.IsSet():
		return Stale(ns, shard, "version epoch mismatch detected", received, &wanted)
	case received.Generation != wanted.Generation || received.Major != wanted.Major:
		return Stale(ns, shard, "version mismatch detected", received, &wanted)
	}
	return nil
}

// Stale is error 13388, which a router answers by refreshing what it knows and
// sending again. A nil wanted says that the shard does not know its own version
// for now: it is to be recovered, or a move is being committed.
func Stale(ns, shard, what string, received Version, wanted *Version) error {
	var b bson.Builder
	b.String("ns", ns)
	received.Append(&b, "vReceived")
	if wanted != nil {
		wanted.Append(&b, "vWanted")
	}
	b.String("shardId", shard)
	return mongoerr.New(mongoerr.StaleConfig, "%s for %s", what, ns).WithExtra(b.Finish())
}

// StaleInfo is what error 13388 tells a router.
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
	if s.Received, err = ParseVersion(v.Doc()); err != nil {
		return s, err
	}
	if v := reply.Lookup("vWanted"); v.Type == bson.TypeDocument {
		wanted, err := ParseVersion(v.Doc())
		if err != nil {
			return s, err
		}
		s.Wanted = &wanted
	}
	return s, nil
}
