package shard

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Zone is a range of the key space that is restricted to the shards of a zone: one
// document of config.tags.
type Zone struct {
	Range
	Name string
}

// Zones are the zone ranges of a collection, in order, without overlap. It is
// immutable; nil has none.
type Zones struct {
	key    *Key
	ranges []Zone
}

// NewZones makes Zones of the contents of config.tags. Error 178 if two overlap.
func NewZones(key *Key, ranges ...Zone) (*Zones, error) {
	z := &Zones{key: key}
	for _, r := range ranges {
		var err error
		if z, err = z.Add(r); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// Add returns z with one more range, or z if it has that range. Error 178 if the range
// overlaps another.
func (z *Zones) Add(r Zone) (*Zones, error) {
	for _, o := range z.ranges {
		if !o.Overlaps(r.Range) {
			continue
		}
		if o.Same(r.Range) && o.Name == r.Name {
			return z, nil
		}
		return nil, mongoerr.New(mongoerr.RangeOverlapConflict, "Zone range: %s is overlapping with existing: %s", z.text(r), z.text(o))
	}
	at, _ := slices.BinarySearchFunc(z.ranges, r, func(a, b Zone) int { return a.Min.Compare(b.Min) })
	return &Zones{z.key, slices.Insert(slices.Clone(z.ranges), at, r)}, nil
}

// Remove returns z without the range that has these bounds, z itself if there is none.
func (z *Zones) Remove(r Range) *Zones {
	kept := slices.DeleteFunc(slices.Clone(z.ranges), func(o Zone) bool { return o.Same(r) })
	return &Zones{z.key, kept}
}

func (z *Zones) text(r Zone) string {
	return z.key.Doc(r.Min).String() + " -->> " + z.key.Doc(r.Max).String() + " on  " + r.Name
}

// All returns the ranges, in order. The caller must not change the result.
func (z *Zones) All() []Zone {
	if z == nil {
		return nil
	}
	return z.ranges
}

// Of returns the zone that contains all of r, or "".
func (z *Zones) Of(r Range) string {
	if z == nil {
		return ""
	}
	// The first range that ends after the start of r.
	i, _ := slices.BinarySearchFunc(z.ranges, r.Min, func(o Zone, at Bound) int {
		if o.Max.Compare(at) <= 0 {
			return -1
		}
		return 1
	})
	if i < len(z.ranges) && z.ranges[i].Contains(r) {
		return z.ranges[i].Name
	}
	return ""
}

// Within returns the bounds of zone ranges inside r: where a chunk must be split so
// that no zone ends in it.
func (z *Zones) Within(r Range) []Bound {
	var out []Bound
	for _, o := range z.All() {
		for _, b := range []Bound{o.Min, o.Max} {
			inside := r.Min.Compare(b) < 0 && b.Compare(r.Max) < 0
			if inside && (len(out) == 0 || out[len(out)-1].Compare(b) != 0) {
				out = append(out, b)
			}
		}
	}
	return out
}

// ParseZone reads a document of config.tags for a collection that is sharded, or about
// to be. Errors: 72 if the bounds do not have the fields of the key.
func (k *Key) ParseZone(doc bson.Doc) (Zone, error) {
	lo, hi, tag := doc.Lookup("min"), doc.Lookup("max"), doc.Lookup("tag")
	if lo.Type != bson.TypeDocument || hi.Type != bson.TypeDocument || tag.Type != bson.TypeString {
		return Zone{}, mongoerr.New(mongoerr.BadValue, "invalid document of config.tags: %s", doc)
	}
	if !k.named(lo.Doc()) || !k.named(hi.Doc()) {
		return Zone{}, mongoerr.New(mongoerr.InvalidOptions,
			"the proposed shard key %s does not match with the shard key of the existing zone %s -->> %s", k, lo, hi)
	}
	z := Zone{Name: strings.Clone(tag.Str())}
	var okLo, okHi bool
	z.Min, okLo = k.ParseBound(lo.Doc())
	z.Max, okHi = k.ParseBound(hi.Doc())
	if !okLo || !okHi {
		return Zone{}, k.badHashed(lo, hi)
	}
	return z, nil
}

// badHashed is the error of a zone whose hashed field is not a hash.
func (k *Key) badHashed(lo, hi bson.Value) error {
	return mongoerr.New(mongoerr.InvalidOptions,
		"cannot do hash sharding with the proposed key %s because there exists a zone %s -->> %s whose boundaries are not of type NumberLong, MinKey or MaxKey", k, lo, hi)
}

// named reports whether doc has exactly the fields of the key, in order.
func (k *Key) named(doc bson.Doc) bool { return k.namesPrefix(doc) && doc.Len() == len(k.Parts) }

// namesPrefix reports whether the fields of doc are the first ones of the key.
func (k *Key) namesPrefix(doc bson.Doc) bool {
	i := 0
	for name := range doc.All() {
		if i == len(k.Parts) || name != k.Parts[i].Path {
			return false
		}
		i++
	}
	return i > 0
}

// ZoneDoc writes a zone range as a document of config.tags.
func (k *Key) ZoneDoc(id [12]byte, ns string, z Zone) bson.Doc {
	var b bson.Builder
	return b.ObjectID("_id", id).String("ns", ns).Doc("min", k.Doc(z.Min)).Doc("max", k.Doc(z.Max)).String("tag", z.Name).Finish()
}

// ZoneRange reads the bounds of updateZoneKeyRange on a sharded collection. They
// may name only the first fields of the key, and then begin and end at the
// lowest key with these. Errors: 2, 9, 61, 72. (Manual, "updateZoneKeyRange")
func (k *Key) ZoneRange(ns string, lo, hi bson.Doc) (Range, error) {
	if err := CheckZoneBounds(lo, hi); err != nil {
		return Range{}, err
	}
	for i, doc := range []bson.Doc{lo, hi} {
		if !k.namesPrefix(doc) {
			return Range{}, mongoerr.New(mongoerr.ShardKeyNotFound, "%s: %s is not a prefix of the shard key %s of ns: %s",
				[...]string{"min", "max"}[i], doc, k, ns)
		}
	}
	min, okMin := k.prefixBound(lo, bson.MinKey)
	max, okMax := k.prefixBound(hi, bson.MinKey)
	if !okMin || !okMax {
		return Range{}, k.badHashed(bson.Document(lo), bson.Document(hi))
	}
	if min.Compare(max) >= 0 {
		return Range{}, unordered(lo, hi)
	}
	return Range{Min: min, Max: max}, nil
}

func unordered(lo, hi bson.Doc) error {
	return mongoerr.New(mongoerr.FailedToParse, "min: %s should be less than max: %s", lo, hi)
}

// CheckZoneBounds checks the rules for all zone ranges, also of unsharded collections:
// both bounds name the same fields, have no arrays, regular
// expressions or operators, and min is below max. Errors: 2, 9.
func CheckZoneBounds(lo, hi bson.Doc) error {
	if lo.IsEmpty() || hi.IsEmpty() {
		return mongoerr.New(mongoerr.BadValue, "The bounds of a zone's range may not be empty")
	}
	for _, doc := range []bson.Doc{lo, hi} {
		for name, v := range doc.All() {
			if v.Type == bson.TypeArray || v.Type == bson.TypeRegex || v.Type == bson.TypeUndefined || schema.HasOperator(v) {
				return mongoerr.New(mongoerr.BadValue, "The bounds of a zone's range may not hold %s: found %s at '%s'", v.Type, v, name)
			}
		}
	}
	a, b := lo.Iter(), hi.Iter()
	for {
		more, also := a.Next(), b.Next()
		if more != also || more && a.Key != b.Key {
			return mongoerr.New(mongoerr.FailedToParse, "min and max must have the same fields: min: %s, max: %s", lo, hi)
		}
		if !more {
			break
		}
	}
	if compareValues(lo, hi) >= 0 {
		return unordered(lo, hi)
	}
	return nil
}

// compareValues orders two documents of the same fields by their values, as
// bounds are ordered.
func compareValues(a, b bson.Doc) int {
	x, y := a.Iter(), b.Iter()
	for x.Next() && y.Next() {
		if c := bson.Compare(x.Value, y.Value); c != 0 {
			return c
		}
	}
	return 0
}

// CanLeaveZone checks whether a shard may leave a zone: error 163 if it is the last one
// of a zone that has ranges in some collection. shards are all
// shards of the zone.
func CanLeaveZone(shard, zone string, shards []string, hasRanges bool) error {
	if hasRanges && len(shards) == 1 && shards[0] == shard {
		return mongoerr.New(mongoerr.ZoneStillInUse, "shard %s is the only one in zone %s, which still has ranges", shard, zone)
	}
	return nil
}
